"""Actions at their bound are counted, and warned of once where they are many for long."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch
from gymnasium import spaces

from envlab.envs.action_use import STRIDE, WINDOW, WINDOWS, ActionBound, ActionUse, clip_bound
from tests.scripted import ScriptedEnv
from tests.tasks.making import make

NAMES = ["hip", "knee", "ankle"]


def use_of(half_width: float | np.ndarray = 2.0, middle: float = 0.0) -> ActionUse:
    settings = {"setting": "agent.limit=2", "frees": "agent.limit=4"}
    bound = ActionBound(half_width=half_width, middle=middle, **settings)
    return ActionUse(bound, np.isfinite(np.broadcast_to(half_width, 3)), NAMES, torch.device("cpu"))


def step(use: ActionUse, actions: list[float], windows: int = 1) -> None:
    """Take these actions in 10 environments, like training, for windows of steps."""
    for _ in range(windows):
        for _ in range(WINDOW):
            use.add(torch.tensor([actions] * 10))
        use.check()


def test_a_policy_at_its_bound_is_told_once_and_the_joints_are_named(caplog):
    use = use_of()
    step(use, [0.0, -1.95, 1.0], windows=2 * WINDOWS)
    step(use, [0.0, 0.0, 0.0])
    step(use, [2.0, 2.0, 2.0], windows=WINDOWS)
    (told,) = caplog.records
    assert told.levelno == logging.WARNING
    assert told.getMessage() == (
        "33 % of the actions lie within 5 % of their bound (agent.limit=2), most often those of "
        "knee 100 %. There, the policy cannot act more strongly where the task needs it. To free "
        "them, train with agent.limit=4."
    )


def test_a_policy_within_its_bound_is_not_told(caplog: pytest.LogCaptureFixture):
    for actions, middle in (([1.85, -1.85, 0.0], 0.0), ([2.0, 0.5, 1.0], 0.5)):
        use = use_of(middle=middle)
        step(use, actions, windows=2 * WINDOWS)
        use.report()
        assert not caplog.records, actions


def test_exploration_at_the_beginning_is_not_told(caplog: pytest.LogCaptureFixture):
    use = use_of()
    step(use, [2.0, 2.0, 2.0], windows=WINDOWS - 1)
    step(use, [0.0, 0.0, 0.0])
    step(use, [2.0, 2.0, 2.0], windows=WINDOWS - 1)
    assert not caplog.records
    step(use, [2.0, 2.0, 2.0])
    assert len(caplog.records) == 1


def test_a_play_is_told_of_all_its_steps(caplog: pytest.LogCaptureFixture):
    use = use_of()
    use.report()
    for _ in range(STRIDE):
        use.add(torch.tensor([[2.0, 0.0, 0.0]]))
    use.report()
    assert "hip 100 %" in caplog.text


def test_actions_without_a_bound_do_not_count(caplog: pytest.LogCaptureFixture):
    use = use_of(np.array([2.0, np.inf, np.inf]))
    step(use, [2.0, 9.0, 9.0], WINDOWS)
    assert "100 % of the actions" in caplog.text
    assert "most often those of hip 100 %." in caplog.text


def test_bounds_of_the_task_itself_are_not_counted():
    for high, limit, is_counted in (
        *((np.inf, 1.0, True), (1.0, 0.5, True), (1.0, 1.0, False), (np.inf, np.inf, False)),
    ):
        env = ScriptedEnv(space=spaces.Box(-high, high, (2,), np.float32))
        assert (ActionUse.of(env, clip_bound(limit)) is not None) == is_counted, (high, limit)


def test_actions_are_named_by_their_joints_where_the_task_knows_them():
    panda = [f"panda_joint{i}" for i in range(1, 8)]
    for task, names in {
        "Isaac-Cartpole-v0": ["slider_to_cart"],
        "Isaac-Cartpole-Direct-v0": ["action 0"],
        "Isaac-Open-Drawer-Franka-v0": [*panda, "gripper"],
    }.items():
        env = make(task, num_envs=1)
        assert [name.removesuffix("_action") for name in env.action_names()] == names
        assert len(names) == env.actions.shape[1]
        env.close()
