"""The viewer of a Go2 in Chromium; its picture goes to --screenshots, where that is given."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

pytest.importorskip("playwright", reason="needs playwright: pip install -e '.[test]'")
from playwright import sync_api as api

from envlab.libraries import get_library
from envlab.prompt import framed
from envlab.training.arguments import play_parser
from envlab.training.play import open_policy
from envlab_web.viewer.web import WebViewer
from tests.system_tools import find

pytestmark = pytest.mark.tools("chromium")
SOFTWARE_GL = ("--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader")
DEADLINE_MS = 120_000


TASK = "Isaac-Velocity-Flat-Unitree-Go2-Play-v0"
GAMEPAD = """
    window.axes = [0, 0, 0, 0];
    navigator.getGamepads = () => [null, {axes: window.axes}];
"""


class Show:
    """The pretrained Go2, played in a thread until its visitor ends it."""

    def __init__(self) -> None:
        library = get_library("rsl_rl")
        words = [f"--task={TASK}", "--checkpoint=pretrained", "--device=cpu", "--seed=1"]
        flags, overrides = play_parser(library).parse_with_overrides(words)
        self._opened = open_policy(library, flags, overrides, 2)
        self.env = self._opened.env
        self.viewer = WebViewer(self.env, title="Go2", port=0, is_played=True)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        obs = self.env.obs_buf
        with torch.inference_mode():
            while self.viewer.is_open:
                obs = self.env.step(self._opened.player.act(obs))[0]
                self.viewer.after_step()

    @property
    def command(self) -> list[float]:
        """Forward and to the left in m/s, turning left in rad/s."""
        return self.env.command_manager.get_command("base_velocity")[0].tolist()

    @property
    def steps(self) -> int:
        return self.env.common_step_counter

    def ends(self) -> bool:
        self._thread.join(DEADLINE_MS / 1000)
        return not self._thread.is_alive()


@pytest.fixture
def show() -> Iterator[Show]:
    show = Show()
    yield show
    show.viewer.is_open = False
    assert show.ends()
    show.viewer.close()
    show.env.close()


def wait_for(page: api.Page, is_so: Callable[[], bool]) -> None:
    """Let the page run until a condition holds; the test's deadline ends it."""
    while not is_so():
        page.wait_for_timeout(50)


@contextlib.contextmanager
def notebook(html: str) -> Iterator[str]:
    """Serve a page under Jupyter's usual host name, which is not the viewer's own."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_port}/"
        server.shutdown()


@pytest.mark.timeout(300)
def test_a_visitor_sees_it_move_and_steers_and_holds_it(show: Show, request, tmp_path: Path):
    pictures = Path(request.config.getoption("--screenshots") or tmp_path) / "viewer"
    requests: list[str] = []
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find("chromium"), args=["--no-sandbox", *SOFTWARE_GL]
        )
        page = browser.new_page(viewport={"width": 900, "height": 560})
        page.set_default_timeout(DEADLINE_MS)
        page.add_init_script(GAMEPAD)
        page.on("request", lambda request: requests.append(request.url))
        with notebook(framed(show.viewer.address)) as address:
            page.goto(address)
            inside = page.frame_locator("iframe")
            inside.get_by_role("button", name="Pause").wait_for()
        requests.clear()
        page.goto(show.viewer.address)
        page.locator("canvas").first.wait_for()
        page.locator(".mantine-Notification-closeButton").click()  # a CPU draws, says viser
        page.get_by_role("button", name="Pause").wait_for()
        scene = {"clip": {"x": 0, "y": 200, "width": 400, "height": 300}}
        before = page.screenshot(**scene)
        wait_for(page, lambda: page.screenshot(**scene) != before)

        legend = page.locator(".u-legend")
        api.expect(legend).to_contain_text("track lin vel", timeout=DEADLINE_MS)
        api.expect(legend).not_to_contain_text("--")
        colours = "all => all.map(mark => getComputedStyle(mark).borderColor)"
        drawn = legend.locator(".u-marker").evaluate_all(colours)
        assert len(drawn) > 8
        assert len(set(drawn)) == len(drawn)

        page.evaluate("window.axes = [0, -0.5, 0.25, 0]")  # left one ahead, right one to the right
        wait_for(page, lambda: show.command == pytest.approx([0.5, 0.0, -0.25]))
        page.screenshot(path=pictures / "go2.png")
        page.evaluate("window.axes = [0.05, 0, 0, 0]")
        wait_for(page, lambda: show.command == [0.0, 0.0, 0.0])

        page.get_by_role("button", name="Pause").click()
        page.get_by_role("button", name="Resume").wait_for()
        api.expect(page.get_by_text("paused")).to_be_visible(timeout=DEADLINE_MS)
        held_at = show.steps
        page.get_by_role("button", name="Single step").click()
        wait_for(page, lambda: show.steps > held_at)
        page.wait_for_timeout(500)
        assert show.steps == held_at + 1

        page.get_by_role("button", name="End").click()
        assert show.ends()
        browser.close()
    own = show.viewer.address.partition("?")[0]
    foreign = [url for url in requests if not url.startswith((own, "blob:", "data:"))]
    assert not foreign  # it works without internet
