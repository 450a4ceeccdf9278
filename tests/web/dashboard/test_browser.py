"""The dashboard in Chromium: it follows a run, names a rank that hangs, and fits every screen.

Pictures go to a temporary folder, or with --screenshots to the one that docs/ links.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs starlette: pip install -e '.[web]'")
pytest.importorskip("playwright", reason="needs playwright: pip install -e '.[test]'")
import uvicorn
from playwright import sync_api as api

from envlab_web.address import take_address
from envlab_web.dashboard.server import make_app
from tests.system_tools import find
from tests.web.dashboard.logs import write_heartbeats, write_logs, write_metrics

FOURTH_CHART = "#charts figure:nth-child(4) canvas"
VERMILLION = "rgb(213, 94, 0)"
pytestmark = pytest.mark.tools("chromium")


class Site:
    """A served dashboard, and an admitted browser."""

    def __init__(self, logs: Path, run: Path, base: str, browser: api.Browser, token: str) -> None:
        self.logs, self.run, self.base, self._browser = logs, run, base, browser
        self._token = token
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.name = run.relative_to(logs).as_posix()

    def open(self, path: str, *, width: int = 1280, height: int = 800, scheme: str = "light"):
        """Return a page at a path below the dashboard's address."""
        size = {"width": width, "height": height}
        looks = {"color_scheme": scheme, "reduced_motion": "reduce"}
        page = self._browser.new_page(viewport=size, **looks)
        page.set_default_timeout(30_000)
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda it: it.type == "error" and self.errors.append(it.text))
        page.goto(f"{self.base}/?token={self._token}")
        if path != "/":
            page.goto(self.base + path)
        return page

    def beat(self, **of_rank_1) -> None:
        """Write present heartbeats, at the iteration that the metrics have reached."""
        lines = (self.run / "metrics.jsonl").read_text().count("\n")
        write_heartbeats(self.run, lines, **of_rank_1)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Iterator[Site]:
    logs = tmp_path_factory.mktemp("dashboard") / "logs"
    run = write_logs(logs)
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.chdir(logs.parent)  # so that pages name logs/...
    address = take_address(0)
    server = uvicorn.Server(uvicorn.Config(make_app(logs, address), log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [address.listener]})
    thread.start()
    try:
        with api.sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=find("chromium"), args=["--no-sandbox", "--disable-gpu"]
            )
            base = f"http://127.0.0.1:{address.port}"
            yield Site(logs, run, base, browser, address.token)
            browser.close()
    finally:
        server.should_exit = True
        thread.join(timeout=30)
        monkeypatch.undo()


@pytest.fixture
def pictures(request, tmp_path: Path) -> Path:
    asked = request.config.getoption("--screenshots")
    folder = request.config.invocation_params.dir / asked if asked else tmp_path
    folder /= "dashboard"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def expect(locator, text: str) -> None:
    api.expect(locator).to_contain_text(text, timeout=30_000)


def test_a_page_follows_an_active_run(site: Site):
    site.beat()
    page = site.open(f"/runs?run={site.name}")
    expect(page.locator(".figures"), "180 of 300")
    curve = page.get_by_role("img", name="Return")
    api.expect(curve).to_have_count(1)
    before = curve.get_attribute("aria-label")
    write_metrics(site.run, 181, 200, best=24.0)
    with (site.run / "metrics.jsonl").open("a") as file:
        file.write('{"iteration": 201, "fr')  # still being written
    expect(page.locator(".figures"), "200 of 300")
    api.expect(curve).not_to_have_attribute("aria-label", before, timeout=30_000)
    text = (site.run / "metrics.jsonl").read_text()
    (site.run / "metrics.jsonl").write_text(text[: text.rindex("\n") + 1])
    page.close()


def test_a_chart_says_that_it_loads(site: Site):
    page = site.open("/")
    held: list[api.Route] = []
    page.route("**/api/curves*", lambda route: held.append(route))
    page.goto(f"{site.base}/runs?run={site.name}")
    chart = page.locator(".plot").first
    expect(chart, "Loading")
    page.unroute_all()  # which answers those that were held
    api.expect(chart).not_to_contain_text("Loading", timeout=30_000)
    page.close()


def test_a_rank_that_hangs_turns_red_and_is_named(site: Site):
    site.beat()
    page, overview = site.open(f"/runs?run={site.name}"), site.open("/")
    expect(page.locator("#ranks"), "going on")
    api.expect(page.locator(".rank.lost")).to_have_count(0)
    site.beat(process="stopped", seconds_since_progress=6.0)
    api.expect(page.locator(".rank.lost")).to_have_count(1, timeout=30_000)
    expect(page.locator(".rank.lost"), "node-b")
    expect(page.get_by_role("alert"), "Rank 1 (host node-b, pid 4712) is stopped (by SIGSTOP)")
    dot = page.locator(".rank.lost .dot")
    assert dot.evaluate("dot => getComputedStyle(dot).backgroundColor") == VERMILLION
    expect(overview.locator("tr", has_text="go2"), "hangs")
    site.beat()
    api.expect(page.locator(".rank.lost")).to_have_count(0, timeout=30_000)
    page.close()
    overview.close()


def test_runs_are_filtered_sorted_and_compared_by_keyboard(site: Site):
    page = site.open("/")
    rows = page.locator("#runs tbody tr")
    api.expect(rows).to_have_count(12)
    page.keyboard.press("/")
    page.keyboard.type("ant seed")
    api.expect(rows).to_have_count(8)
    page.get_by_role("button", name="Return").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    returns = [float(text) for text in page.locator("td.c-mean_return").all_inner_texts()]
    assert returns == sorted(returns, reverse=True)
    for row in range(8):
        rows.nth(row).get_by_role("checkbox").focus()
        page.keyboard.press("Space")
    page.get_by_role("button", name="Compare").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs?*")
    expect(page.locator("#legend"), "rsl_rl, 2 processes (4 runs)")
    expect(page.locator("#legend"), "skrl PPO torch, 2 processes (4 runs)")
    expect(page.get_by_role("region", name="Parameters that differ"), "agent.agent.learning_rate")
    page.close()


def test_pages_fit_the_screen_and_load_nothing_from_elsewhere(site, pictures):
    for width, scheme in [(1280, "light"), (390, "dark")]:
        site.requests.clear()
        site.errors.clear()
        ants = sorted(
            run.parent.relative_to(site.logs) for run in site.logs.glob("*/ant/*/run.json")
        )
        chosen = "&".join(f"run={ant.as_posix()}" for ant in ants)
        for name, path, height, shown in (
            ("list", "/", 800, "tbody tr"),
            ("run", f"/runs?run={site.name}", 1130, FOURTH_CHART),
            ("compare", f"/runs?{chosen}", 1100, FOURTH_CHART),
        ):
            site.beat(process="stopped", seconds_since_progress=6.0)
            page = site.open(path, width=width, height=height, scheme=scheme)
            page.wait_for_selector(shown)
            if name == "run":
                page.wait_for_selector("#logs pre")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            page.screenshot(path=pictures / f"{name}_{scheme}.png")
            page.close()
        site.beat()
        assert not site.errors
        assert {url.split("/")[2] for url in site.requests} == {site.base.split("/")[2]}


def test_a_server_that_is_gone_is_reported_on_the_page(site: Site):
    page = site.open("/")
    page.wait_for_selector("tbody tr")
    page.context.set_offline(True)
    expect(page.locator("#live"), "The dashboard does not answer")
    page.context.set_offline(False)
    api.expect(page.locator("#live")).to_have_text("", timeout=30_000)
    page.close()
