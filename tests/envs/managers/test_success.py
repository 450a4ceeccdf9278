"""Success: once reached it stays; it is logged when episodes end, and survives a resume."""

from __future__ import annotations

import pytest
import torch

from envlab.envs import mdp
from envlab.envs.managers import SuccessTermCfg
from envlab.errors import ConfigurationError
from envlab.registry import get_task, load_env_cfg
from envlab.training.evaluation import evaluate
from tests.tasks.making import make

REACH = "Isaac-Reach-Franka-v0"
STEPS = 4


def reach(num_envs: int = 3, **fields):
    length_s = STEPS * load_env_cfg(get_task(REACH)).step_dt
    return make(REACH, num_envs=num_envs, seed=1, episode_length_s=length_s, **fields)


def put_goals(env, *at_hand: bool) -> None:
    """Put these environments' goals at the hands, and all others elsewhere."""
    hand, base = (env.sim.model.body(f"panda_{name}").id for name in ("hand", "link0"))
    place = env.sim.data.xpos[:, hand] - env.sim.data.xpos[:, base]
    goals = torch.where(torch.tensor(at_hand).unsqueeze(1), place, place + 0.2)
    env.command_manager.get_term("ee_pose").command[:, :3] = goals


def test_an_episode_that_was_once_at_its_goal_has_succeeded():
    env = reach()
    env.reset()
    still = torch.zeros(3, env.single_action_space.shape[0])
    succeeded = []
    for at_hand in ((True, False, False), (False, True, False), *[(False,) * 3] * 3):
        put_goals(env, *at_hand)
        *_, truncated, info = env.step(still)
        succeeded.append(info["success"].tolist())
        if len(succeeded) == STEPS:
            assert truncated.all()
            assert float(info["log"]["Metrics/success_rate"]) == pytest.approx(2 / 3)
    # The last row is of the next episodes.
    assert succeeded == [[1.0, 0.0, 0.0], *[[1.0, 1.0, 0.0]] * 3, [0.0, 0.0, 0.0]]


def test_an_evaluation_reports_its_mean():
    env = reach()

    def policy(obs):
        put_goals(env, True, False, False)
        return torch.zeros(3, env.single_action_space.shape[0])

    result = evaluate(env, policy, episodes_per_env=2)
    assert result.as_dict()["success_rate"] == pytest.approx(1 / 3)
    assert "Success rate 0.333" in result.lines(STEPS)


def test_a_task_without_a_goal_has_none():
    env = make("Isaac-Cartpole-v0", num_envs=2)
    env.reset()
    *_, info = env.step(torch.zeros(2, 1))
    assert env.success is None
    assert "success" not in info
    assert "Metrics/success_rate" not in info["log"]


def test_thresholds_are_isaac_lab_3s():
    for task, thresholds in {
        REACH: {"threshold": 0.05},
        "Isaac-Lift-Cube-Franka-v0": {"threshold": 0.05, "minimal_height": 0.04},
        "Isaac-Open-Drawer-Franka-v0": {"threshold": 0.3},
    }.items():
        params = load_env_cfg(get_task(task)).success.params
        assert {name: params[name] for name in thresholds} == thresholds, task


def test_a_cube_is_at_its_goal_when_it_is_lifted_there():
    env = make("Isaac-Lift-Cube-Franka-v0", num_envs=4, seed=1)
    env.reset()
    goal = env.command_manager.get_command("object_pose")
    goal[:, :3] = torch.tensor([0.5, 0.0, 0.3])
    base = env.sim.data.xpos[:, env.sim.model.body("panda_link0").id]
    root = env.sim.model.joint("object/object").qposadr[0]
    env.sim.data.qpos[:, root : root + 3] = base + torch.tensor(
        [[0.5, 0.0, 0.3], [0.5, 0.04, 0.3], [0.5, 0.06, 0.3], [0.5, 0.0, 0.0]]
    )
    goal[3, 2] = 0.0
    env.sim.data.qpos[3, root + 2] = 0.02
    env.success_manager.compute()
    assert env.success.tolist() == [1.0, 1.0, 0.0, 0.0]


def test_a_term_that_returns_something_else_is_named():
    env = reach(2, success=SuccessTermCfg(func=mdp.joint_pos_rel))
    with pytest.raises(ConfigurationError, match=r"success term 'success'.*\(2, 9\)"):
        env.step(torch.zeros(2, env.single_action_space.shape[0]))
