"""``--viz web`` for scripts: the content of the viewer, and control by its visitor."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from envlab_isaacgym import gymapi
from envlab_isaacgym import watching as module
from envlab_isaacgym.launcher import main
from envlab_isaacgym.shim import ABSENT, offer_absent
from envlab_isaacgym.watching import Watched, watching
from tests.isaacgym.worlds import SLIDER, World, pose


class Page:
    """A viewer that records its input, and is open for two steps."""

    shown: list[Any] = []

    def __init__(self, env: Any, **options: Any) -> None:
        self.env, self.options, self.is_closed, self.steps = env, options, False, 0
        self.shown.append(self)

    @staticmethod
    def find_problem() -> str | None:
        return None

    @property
    def is_open(self) -> bool:
        return self.steps < 2

    def after_step(self) -> None:
        self.steps += 1
        self.positions = self.env.sim.data.qpos[:, 0].clone()

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Page]]:
    monkeypatch.setattr(module, "viewer_class", lambda kind: Page)
    Page.shown.clear()
    watching.want("web", 8088, "legged_gym/play.py")
    yield Page
    watching.close()
    watching.port = None


def sliders(folder: Path, apart: float = 0.0) -> World:
    """Return three masses that slide along x."""

    def fill(world: World, env: gymapi.Env) -> None:
        asset = world.once(lambda: world.load(folder, *SLIDER))
        world.put(env, asset, pose(apart * env.index, 0, 1))

    return World(3, fill)


def test_a_visitor_sees_the_steps_and_ends_the_script(tmp_path: Path, page: type[Page]):
    world = sliders(tmp_path)
    states = world.acquired("dof_state")
    states[..., 0] = torch.tensor([[0.1], [0.2], [0.3]])
    states[..., 1] = 0.0
    world.set("dof_state", states)
    world.run(1)
    (shown,) = page.shown
    assert shown.positions.tolist() == pytest.approx([0.1, 0.2, 0.3])
    assert shown.options == {"title": "legged_gym/play.py", "port": 8088, "is_played": True}
    assert (shown.env.num_envs, shown.env.step_dt) == (3, pytest.approx(0.005))
    assert (shown.env.common_step_counter, shown.env.resets) == (1, False)
    with pytest.raises(SystemExit) as ended:
        world.run(1)
    assert ended.value.code == 0
    assert shown.is_closed
    world.run(1)  # steps after the end are not shown
    assert len(page.shown) == 1


def test_a_script_that_makes_another_world_has_it_shown(tmp_path: Path, page: type[Page]):
    for count in (1, 2):
        sliders(tmp_path).run(1)
        assert len(page.shown) == count
    assert page.shown[0].is_closed
    assert not page.shown[1].is_closed


def test_the_first_rank_alone_is_watched(page: type[Page], monkeypatch: pytest.MonkeyPatch):
    watching.port = None
    monkeypatch.setattr(module, "launched_rank", lambda: 1)
    watching.want("web", 8088, "legged_gym/play.py")
    assert watching.port is None


def test_absent_modules_are_offered_in_each_start(monkeypatch: pytest.MonkeyPatch):
    for name in ABSENT:
        monkeypatch.delitem(sys.modules, name, raising=False)
    for _ in range(2):  # a second start does no harm
        offer_absent()
        assert {*ABSENT} <= {*sys.modules}
    for name in ABSENT:
        monkeypatch.delitem(sys.modules, name)


def test_environments_that_lie_apart_are_noticed(tmp_path: Path):
    for apart in (0.0, 2.0):
        world = sliders(tmp_path, apart)
        assert bool(Watched(world.sim).env_origins.any()) == bool(apart)


def test_bad_input_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    script = str(tmp_path / "run.py")
    Path(script).write_text("")
    for words, sentence in (
        (["--viz", "native", script], "--viz is 'native', but scripts can be watched by web"),
        (["--viz=web", "--viz_port=many", script], "--viz_port is 'many', but must be a number"),
        (["--viz_port", "80", script], "has no effect without --viz web"),
        (["--viz"], "--viz needs a value, such as --viz web"),
        (["--cpu=1", script], "--cpu takes no value"),
        (["--distributed", script], "no launcher started this process"),
        (["nowhere.py"], "There is no script 'nowhere.py'."),
        (["--rsl-rl-2", "run.py"], "There is no script '--rsl-rl-2'."),
    ):
        assert main(words) == 2
        assert sentence in capsys.readouterr().err
