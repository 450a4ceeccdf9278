"""docs/browser: policies in the browser are those of the bare player, and walk."""

from __future__ import annotations

import functools
import http.server
import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("playwright", reason="needs playwright: pip install -e '.[test]'")
from playwright import sync_api as api

from envlab.tools.deploy import Player
from tests.launcher import ROOT
from tests.scripts.of_scripts import load
from tests.system_tools import find

pytestmark = pytest.mark.tools("chromium", "npm")
SOFTWARE_GL = ("--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader")
GO2 = "Isaac-Velocity-Flat-Unitree-Go2-v0"
TASKS = [
    *(GO2, "Isaac-Ant-v0", "Isaac-Cartpole-v0", "Isaac-Humanoid-v0", "Isaac-Reach-Franka-v0"),
    "Isaac-Velocity-Flat-H1-v0",
]
UNKNOWN = "LeggedGym-Flat-A1-v0"
"""Observes its own term, which the bare player does not know either."""
PLAYED = """
async ([folder, steps]) => {
    const { openPlayer } = await import("./player.js");
    const player = await openPlayer(folder);
    const seen = [];
    for (let step = 0; step < steps; step++) {
        const obs = player.observe();
        const action = await player.act(obs);
        seen.push({ obs: [...obs], action: [...action], qpos: [...player.data.qpos] });
        player.step(action);
    }
    return seen;
}
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page with its build."""
    folder = tmp_path_factory.mktemp("browser") / "page"
    shutil.copytree(ROOT / "docs/browser", folder, ignore=shutil.ignore_patterns("built"))
    build = load("documentation/browser").main
    assert build([f"--output={folder / 'built'}", "--task", *TASKS, UNKNOWN]) == 0
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    handler = functools.partial(QuietHandler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def browser() -> Iterator[api.Browser]:
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find("chromium"), args=["--no-sandbox", *SOFTWARE_GL]
        )
        yield browser
        browser.close()


@pytest.mark.timeout(300)
def test_a_policy_acts_like_the_bare_player(site: Path, address: str, browser: api.Browser) -> None:
    """As long as the two versions of MuJoCo agree, which contacts soon put an end to."""
    page = browser.new_page()
    page.goto(f"{address}style.css")  # an empty page of the same origin
    policies = json.loads((site / "built/policies.json").read_text())
    assert [policy["task"] for policy in policies] == sorted(TASKS)
    for policy in policies:
        folder = f"built/policies/{policy['folder']}"
        seen: list[dict[str, Any]] = page.evaluate(PLAYED, [f"./{folder}", 5])
        player = Player(site / folder)
        for step, there in enumerate(seen):
            obs = player.observe()
            action = player.act()
            for name, values in (("obs", obs), ("action", action), ("qpos", player.data.qpos)):
                np.testing.assert_allclose(
                    there[name], values, atol=2e-3, err_msg=f"{policy['task']} {step} {name}"
                )
            player.step(action)
    page.close()


@pytest.mark.timeout(300)
def test_a_visitor_sees_it_walk_and_commands_it(
    address: str, browser: api.Browser, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    pictures = Path(request.config.getoption("--screenshots") or tmp_path) / "browser"
    requests: list[str] = []
    page = browser.new_page(viewport={"width": 1000, "height": 640})
    page.set_default_timeout(120_000)
    page.on("request", lambda request: requests.append(request.url))
    page.goto(f"{address}index.html#{GO2}_rsl_rl")
    page.wait_for_function("window.envlab?.player.data.time > 2")
    x, _, height = page.evaluate("[...window.envlab.player.rootState().position]")
    time = page.evaluate("window.envlab.player.data.time")
    assert 0.7 * time - 0.5 < x < 1.2 * time  # as it is exported to do: 1 m/s ahead
    assert height > 0.25
    page.screenshot(path=pictures / "walking.png")
    page.keyboard.down("s")
    page.wait_for_function("window.envlab.player.commands.base_velocity[0] === -1")
    page.keyboard.up("s")
    page.wait_for_function("window.envlab.player.commands.base_velocity[0] === 0")
    page.keyboard.press("r")
    page.wait_for_function("Math.abs(window.envlab.player.rootState().position[0]) < 0.3")
    page.get_by_label("Policy").select_option(label="Isaac-Humanoid-v0")
    page.wait_for_function("window.envlab.player.cfg.task === 'Isaac-Humanoid-v0'")
    page.screenshot(path=pictures / "humanoid.png")
    phone = browser.new_page(viewport={"width": 390, "height": 780}, has_touch=True)
    phone.goto(f"{address}index.html#{GO2}_rsl_rl")
    phone.wait_for_function("window.envlab?.player.data.time > 0.5", timeout=120_000)
    phone.screenshot(path=pictures / "phone.png")
    assert not [url for url in requests if not url.startswith((address, "blob:", "data:"))]
    page.close()
    phone.close()
