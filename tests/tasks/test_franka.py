"""The Panda stands as its makers say, and its drawer can be opened."""

from __future__ import annotations

import math

import pytest
import torch

from envlab import registry
from envlab.envs import ManagerEnv
from envlab_tasks.manipulation import franka
from tests.tasks.making import make, put

REACH, LIFT, DRAWER = (f"Isaac-{name}-Franka-v0" for name in ("Reach", "Lift-Cube", "Open-Drawer"))
HOME = [0.0, -0.569, 0.0, -2.81, 0.0, 3.037, 0.741, 0.04, 0.04]
OPEN, CLOSE = 1.0, -1.0
DRAWER_JOINT = 9


def rewards(env: ManagerEnv) -> dict[str, torch.Tensor]:
    """Return each reward term of the current state, without its weight."""
    manager = env.reward_manager
    manager.compute()
    return {
        name: values / (manager.get_weight(name) * env.step_dt)
        for name, values in zip(manager.active_terms, manager.step_values, strict=True)
    }


def test_the_hand_is_where_the_denavit_hartenberg_parameters_say():
    env = make(REACH)
    assert env.default_qpos[0, :9].tolist() == pytest.approx(HOME)
    put(env, [0.0, 0.0, 0.0, -math.pi / 2, 0.0, math.pi / 2, 0.0, 0.0, 0.0])
    # Upright to the elbow, then ahead, then down: the elbow's offsets point up and back.
    hand = env.sim.data.xpos[0, env.sim.model.body("panda_hand").id]
    assert hand.tolist() == pytest.approx(
        [0.0825 + 0.384 + 0.088, 0.0, 0.333 + 0.316 + 0.0825 - 0.107], abs=1e-5
    )


def go(env: ManagerEnv, pos: torch.Tensor, quat: list[float], grip: float, steps: int) -> None:
    """Bring the grasp point to a pose in the world."""
    quats = torch.tensor([quat]).expand(len(pos), 4)
    action = torch.cat((pos, quats, torch.full((len(pos), 1), grip)), dim=1)
    for _ in range(steps):
        env.step(action)


def test_the_gripper_pulls_the_drawer_open():
    cfg = registry.load_env_cfg(registry.get_task(DRAWER))
    cfg.actions.arm_action = franka.hand_pose("absolute")
    cfg.sim.data_fields = (*franka.IK_FIELDS, "site_xpos")
    fields = {"scene": franka.stiff_scene("franka_cabinet"), "episode_length_s": 60.0}
    env = make(DRAWER, actions=cfg.actions, sim=cfg.sim, **fields)
    inwards = [0.5, 0.5, 0.5, 0.5]  # z to the world's x, with the left finger above
    handle = env.sim.data.site_xpos[:, env.sim.model.site("drawer_handle_top").id].clone()
    assert handle[0].tolist() == pytest.approx([0.4435, 0.0, 0.7272], abs=1e-4)
    before, ahead = torch.tensor([[-0.12, 0.0, 0.0]]), torch.tensor([[0.0036, 0.0, 0.0]])
    go(env, handle + before - torch.tensor([[0.08, 0.0, 0.1]]), inwards, OPEN, 100)
    go(env, handle + before, inwards, OPEN, 60)
    go(env, handle + ahead, inwards, OPEN, 60)
    assert env.sim.data.qpos[:, DRAWER_JOINT].abs().max() < 1e-3
    go(env, handle + ahead, inwards, CLOSE, 30)
    for step in range(1, 81):
        go(env, handle + ahead - torch.tensor([[0.3 * step / 80, 0.0, 0.0]]), inwards, CLOSE, 1)
    go(env, handle + ahead - torch.tensor([[0.3, 0.0, 0.0]]), inwards, CLOSE, 40)
    drawer = env.sim.data.qpos[:, DRAWER_JOINT]
    assert drawer.min() > 0.25
    terms = {name: values[0].item() for name, values in rewards(env).items()}
    assert terms["align_ee_handle"] > 0.98
    assert terms["align_grasp_around_handle"] == 1.0
    assert terms["multi_stage_open_drawer"] == 1.5  # open by 0.2 m, held
    assert terms["open_drawer_bonus"] == pytest.approx(2.0 * drawer[0].item())
    assert terms["approach_ee_handle"] == pytest.approx(2.0, abs=1e-3)
    fingers = env.sim.data.qpos[0, 7:9]
    assert terms["grasp_handle"] == pytest.approx(0.08 - fingers.sum().item(), abs=1e-6)


def test_a_cube_that_falls_off_the_table_ends_the_episode():
    env = make(LIFT)
    for height, has_fallen in ((-0.04, False), (-0.06, True)):
        put(env, [*HOME, 2.0, 0.0, height, 1.0, 0.0, 0.0, 0.0])
        assert env._get_dones()[0].tolist() == [has_fallen] * 3
