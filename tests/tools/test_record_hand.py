"""Episodes by hand: pushes become motions, and what is kept is written, without a browser."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from envlab.envs.dataset_file import open_dataset
from envlab.envs.math import quat_box_minus
from envlab.envs.mdp.recorders import ActionStateRecorderManagerCfg
from envlab.errors import ConfigurationError
from envlab.registry import get_task
from envlab.tools import record_hand
from envlab.tools.record_hand import JOINT_SPEED, LEAD, SPEED, TURN, Hand
from envlab.training import viewing
from envlab.training.flags import Flags

LIFT = "Isaac-Lift-Cube-Franka-IK-{}-v0"


def env_of(task_id: str, **settings: Any):
    flags = Flags(command="agent", task=task_id, viz="web", device="cpu", seed=1)
    env = record_hand.make_env(get_task(task_id), flags, [])
    env.reset()
    return env


def play(hand: Hand, env: Any, pushes: list[float], seconds: float) -> None:
    for _ in range(round(seconds / env.step_dt)):
        env.step(hand.act(pushes))


@pytest.mark.parametrize("kind", ["Rel", "Abs"])
def test_a_hand_moves_and_turns_as_fast_as_it_says_and_stays(kind: str):
    env = env_of(LIFT.format(kind))
    hand = Hand(env, LIFT)
    assert hand.handles.axes == ("x", "y", "z", "roll", "pitch", "yaw")
    assert hand.handles.has_gripper
    term = env.action_manager.get_term("arm_action")
    hand.restart()
    pos, quat = (values.clone() for values in term.pose())
    for pushes, seconds in (([0, 1, -1, 0, 0, 0], 0.4), ([0] * 6, 1.0)):
        play(hand, env, pushes, seconds)
    moved, turned = term.pose()[0] - pos, quat_box_minus(term.pose()[1], quat)
    torch.testing.assert_close(moved[0], torch.tensor([0, 0.4, -0.4]) * SPEED, atol=0.015, rtol=0.0)
    assert turned.abs().max() < 0.05
    play(hand, env, [0, 0, 0, 0, 0, 0.5], 0.4)
    play(hand, env, [], 1.0)
    turned = quat_box_minus(term.pose()[1], quat)
    torch.testing.assert_close(turned[0], torch.tensor([0, 0, 0.2 * TURN]), atol=0.05, rtol=0.0)
    width = env.sim.data.qpos[0, 7:9].sum()
    hand.is_closed = True
    play(hand, env, [], 0.5)
    assert env.sim.data.qpos[0, 7:9].sum() < width - 0.05
    env.close()


def test_a_goal_runs_at_most_so_far_ahead():
    env = env_of("Isaac-Reach-Franka-IK-Abs-v0")
    hand = Hand(env, "")
    hand.restart()
    play(hand, env, [1, 0, 0, 0, 0, 0], 4.0)  # beyond the arm's reach
    term = env.action_manager.get_term("arm_action")
    goal = hand.act([])[0, :3]  # the scale is 1
    assert (goal - term.pose()[0][0]).norm() <= LEAD + 1e-4
    env.close()


def test_a_hand_moves_joints_within_their_limits():
    env = env_of("Isaac-Reach-UR10-v0")
    hand = Hand(env, "")
    assert len(hand.handles.axes) == 6
    assert not hand.handles.has_gripper
    hand.restart()
    before = env.sim.data.qpos[0, :6].clone()
    play(hand, env, [1, 0, -1, 0, 0, 0], 0.5)
    play(hand, env, [], 0.5)
    wanted = torch.tensor([0.5, 0, -0.5, 0, 0, 0]) * JOINT_SPEED
    torch.testing.assert_close(env.sim.data.qpos[0, :6] - before, wanted, atol=0.05, rtol=0.0)
    env.close()


class Visitor:
    """A viewer whose visitor asks for something at given steps."""

    def __init__(self, script: dict[int, str], last: int) -> None:
        self._script, self._last, self._step = script, last, 0
        self.labels: list[str] = []
        self.label = ""
        self.pushes = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)

    is_open = property(lambda self: self._step < self._last)

    def after_step(self) -> None:
        self._step += 1
        self.labels.append(self.label)

    def wants(self, what: str) -> bool:
        return self._script.get(self._step) == what

    def close(self) -> None: ...


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request) -> Callable[..., Any]:
    pytest.importorskip("h5py", reason="needs h5py: pip install -e '.[demos]'")

    def record(task_id: str, script: dict[int, str], last: int, num_episodes: int = 9, **cfg: Any):
        visitor = Visitor(script, last)
        monkeypatch.setattr(record_hand, "check_viewing", lambda *_: None)
        monkeypatch.setattr(record_hand, "start_viewing", lambda *_, **__: visitor)
        env = env_of(task_id)
        if cfg.pop("without_success", False):
            env.success = None
        if length := cfg.pop("length", None):
            env.cfg.episode_length_s = length * env.step_dt
        recorded = ActionStateRecorderManagerCfg(
            dataset_export_dir_path=str(tmp_path), dataset_filename="hand", **cfg
        )
        flags = Flags(command="agent", task=task_id, viz="web")
        num = record_hand.record_hand(get_task(task_id), env, flags, recorded, num_episodes)
        env.close()
        return num, visitor, tmp_path / "hand.hdf5"

    return record


def test_only_what_is_begun_and_kept_is_written(record, capsys):
    script = {3: "kept", 5: "begun", 15: "discarded", 20: "begun", 32: "kept", 40: "begun"}
    num, visitor, path = record(LIFT.format("Rel"), script, 50)
    assert num == 1
    with open_dataset(path) as dataset:
        assert dataset.names == ["demo_0"]
        arrays, attributes = dataset.episode("demo_0")
    assert len(arrays["actions"]) == attributes["num_samples"] == 12
    assert not attributes["success"]  # nobody lifted the cube
    assert "demo_0: 12 steps; the task does not call it a success" in capsys.readouterr().out
    assert visitor.labels[4] == "not recording · 0 of 9 kept"
    assert visitor.labels[31].startswith("● recording 0.2 s")
    assert visitor.labels[32] == "not recording · 1 of 9 kept"


def test_what_is_kept_is_a_success_where_the_task_measures_none(record):
    script = {2: "begun", 6: "kept"}
    num, visitor, path = record(LIFT.format("Rel"), script, 50, 1, without_success=True)
    assert (num, len(visitor.labels)) == (1, 6)  # it ends with the last one
    with open_dataset(path) as dataset:
        assert dataset.episode("demo_0")[1]["success"]


def test_an_episode_whose_time_is_over_is_not_written(record, capsys):
    num, _, path = record("Isaac-Reach-Franka-IK-Rel-v0", {5: "begun", 40: "kept"}, 45, length=30)
    assert (num, path.exists()) == (0, False)
    assert "Discarded, as its time was over: 30 steps" in capsys.readouterr().out


def test_a_viewer_without_keys_is_refused(monkeypatch: pytest.MonkeyPatch):
    class Window:
        @staticmethod
        def find_problem() -> None:
            return None

    monkeypatch.setattr(viewing, "viewer_class", lambda _: Window)
    env = env_of("Isaac-Reach-Franka-IK-Rel-v0")
    with pytest.raises(ConfigurationError, match=r"native takes no hand's keys. Use --viz web"):
        viewing.start_viewing(
            Flags(viz="native"), env, title="", handles=Hand(env, "").handles, is_played=True
        )
    env.close()


def test_people_have_a_minute():
    env = env_of(LIFT.format("Rel"))
    assert env.max_episode_length == math.ceil(record_hand.LENGTH_S / env.step_dt - 1e-6)
    env.close()
