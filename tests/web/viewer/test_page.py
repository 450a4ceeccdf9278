"""The viewer of a Cartpole in Chromium; its picture goes to --screenshots, where that is given."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

pytest.importorskip("playwright", reason="Playwright is not installed")
from playwright import sync_api as api

from envlab.web.viewer.web import WebViewer
from tests.web.viewer.conftest import make_env

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")
SOFTWARE_GL = ("--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader")
DEADLINE_MS = 120_000


class Show:
    """A Cartpole that is stepped in a thread until its visitor ends it."""

    def __init__(self) -> None:
        self.env = make_env("Isaac-Cartpole-v0", num_envs=2)
        self.viewer = WebViewer(self.env, title="Cartpole", port=0, is_played=True)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        draws = torch.Generator().manual_seed(1)
        while self.viewer.is_open:
            self.env.step(5.0 * torch.randn(2, 1, generator=draws))
            self.viewer.after_step()

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


@pytest.mark.timeout(300)
def test_a_visitor_sees_it_move_and_holds_it(show: Show, request, tmp_path: Path):
    pictures = Path(request.config.getoption("--screenshots") or tmp_path) / "viewer"
    requests: list[str] = []
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", *SOFTWARE_GL]
        )
        page = browser.new_page(viewport={"width": 900, "height": 560})
        page.set_default_timeout(DEADLINE_MS)
        page.on("request", lambda request: requests.append(request.url))
        page.goto(show.viewer.address)
        page.locator("canvas").first.wait_for()
        page.locator(".mantine-Notification-closeButton").click()  # a CPU draws, says viser
        page.get_by_role("button", name="Pause").wait_for()
        scene = {"clip": {"x": 0, "y": 200, "width": 400, "height": 300}}
        before = page.screenshot(**scene)
        while page.screenshot(**scene) == before:
            page.wait_for_timeout(100)

        page.get_by_role("button", name="Pause").click()
        page.get_by_role("button", name="Go on").wait_for()
        api.expect(page.get_by_text("paused")).to_be_visible(timeout=DEADLINE_MS)
        page.screenshot(path=pictures / "cartpole.png")
        held_at = show.steps
        page.get_by_role("button", name="Single step").click()
        while show.steps == held_at:
            page.wait_for_timeout(50)
        page.wait_for_timeout(500)
        assert show.steps == held_at + 1

        page.get_by_role("button", name="End").click()
        assert show.ends()
        browser.close()
    own = show.viewer.address.partition("?")[0]
    foreign = [url for url in requests if not url.startswith((own, "blob:", "data:"))]
    assert not foreign  # it works without internet
