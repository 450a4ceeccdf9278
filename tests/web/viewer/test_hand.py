"""``envlab record hand`` in Chromium, by keys and gamepad; its picture goes to --screenshots."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="needs playwright: pip install -e '.[test]'")
pytest.importorskip("h5py", reason="needs h5py: pip install -e '.[demos]'")
import h5py
import numpy as np
from playwright import sync_api as api

from envlab import cli
from tests.launcher import ROOT
from tests.system_tools import find
from tests.web.viewer.test_page import DEADLINE_MS, SOFTWARE_GL

pytestmark = pytest.mark.tools("chromium")
TASK = "Isaac-Lift-Cube-Franka-IK-Rel-v0"
GAMEPAD = """
    window.axes = [0, 0, 0, 0];
    window.buttons = Array(16).fill(false);
    navigator.getGamepads = () =>
        [{axes: window.axes, buttons: window.buttons.map((pressed) => ({pressed}))}];
"""


@pytest.fixture
def recording(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    words = ["record", "hand", f"--task={TASK}", "--format=hdf5", "--output=mine.hdf5"]
    process = subprocess.Popen(
        [sys.executable, "-m", "envlab", *words, "--num_episodes=2", "--device=cpu", "--seed=1"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{ROOT}:{ROOT / 'source'}", "HOME": "/tmp"},
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.wait()


def address_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("Viewer: "):
            return line.split()[1]
    raise AssertionError(f"ended with {process.wait()}")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_person_records_by_keyboard_and_gamepad(
    recording: subprocess.Popen[str],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    pictures = Path(request.config.getoption("--screenshots") or tmp_path) / "viewer"
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find("chromium"), args=["--no-sandbox", *SOFTWARE_GL]
        )
        page = browser.new_page(viewport={"width": 900, "height": 720})
        page.set_default_timeout(DEADLINE_MS)
        page.add_init_script(GAMEPAD)
        page.goto(address_of(recording))
        page.get_by_text("not recording · 0 of 2 kept").wait_for()

        def record(move: Callable[[], None], let_go: Callable[[], None]) -> None:
            page.get_by_text(re.compile(r"recording 0\.\d s")).wait_for()
            move()
            page.get_by_text(re.compile(r"recording [1-9]\.\d s")).wait_for()
            let_go()

        def push(button: int) -> None:
            page.evaluate(f"window.buttons[{button}] = true")
            page.wait_for_timeout(200)
            page.evaluate(f"window.buttons[{button}] = false")

        page.keyboard.press("b")
        record(lambda: page.keyboard.down("w"), lambda: page.keyboard.up("w"))
        page.locator(".mantine-Notification-closeButton").click()  # a CPU draws, says viser
        page.keyboard.press("k")
        page.wait_for_timeout(500)
        page.screenshot(path=pictures / "hand.png")
        page.keyboard.press("Enter")
        page.get_by_text("not recording · 1 of 2 kept").wait_for()

        page.keyboard.press("b")
        page.get_by_text(re.compile(r"● recording")).wait_for()
        page.keyboard.press("Backspace")
        page.get_by_text("not recording · 1 of 2 kept").wait_for()

        push(0)
        record(
            lambda: page.evaluate("window.axes = [-1, 0, 0, 0]"),  # the left stick to the left
            lambda: page.evaluate("window.axes = [0, 0, 0, 0]"),
        )
        push(3)
        assert recording.wait(DEADLINE_MS / 1000) == 0
        browser.close()

    with h5py.File(tmp_path / "mine.hdf5") as file:
        assert list(file["data"]) == ["demo_0", "demo_1"]
        by_keyboard, by_gamepad = (file[f"data/demo_{i}/actions"][:] for i in (0, 1))
    for actions, axis in ((by_keyboard, 0), (by_gamepad, 1)):
        moves = actions[actions[:, :6].any(axis=1), :6][:30]  # x, y, z, three turns
        pushed = moves.sum(axis=0)
        assert pushed[axis] > 5 * abs(np.delete(pushed, axis)).max()
    assert set(by_keyboard[:, 6]) == {1.0, -1.0}
    assert set(by_gamepad[:, 6]) == {1.0}
    assert cli.main(["replay", str(tmp_path / "mine.hdf5"), "--device=cpu"]) == 0
    assert capsys.readouterr().out.count("as recorded") == 2
