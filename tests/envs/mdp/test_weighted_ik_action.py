"""Inverse kinematics in each physics step, with limits, a posture and bounded steps."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from envlab.envs import ManagerEnv, ManagerEnvCfg, mdp
from envlab.envs.math import matrix_from_quat, quat_error_magnitude
from envlab.envs.mdp.ik_actions import DifferentialIKAction
from envlab_tasks.manipulation.franka import ARM, stiff_scene
from tests.envs.promises import assert_keeps_promises
from tests.envs.refusals import assert_refused
from tests.envs.sliders import make_cfg, rank, terms

DOWN = [0.0, 0.0, 1.0, 0.0]
GOALS = torch.tensor([[0.5, 0.2, 0.3, *DOWN], [0.4, -0.3, 0.5, *DOWN]])


def franka_cfg(backend: str = "mujoco", **changes: Any) -> ManagerEnvCfg:
    values = {"joint_names": ARM, "frame_type": "site", "frame_name": "ee", **changes}
    action = mdp.DifferentialIKActionCfg(**values)
    sim = {"dt": 1 / 60, "backend": backend}
    cfg = make_cfg(2, sim=sim, actions=terms(arm=action))
    cfg.decimation, cfg.episode_length_s = 2, 1000.0
    cfg.scene = stiff_scene("franka_reach", 2)
    return cfg


def franka(backend: str = "mujoco", **changes: Any) -> ManagerEnv:
    return ManagerEnv(franka_cfg(backend, **changes), context=rank(0, 1), seed=0)


def term(env: ManagerEnv) -> DifferentialIKAction:
    found = env.action_manager.get_term("arm")
    assert isinstance(found, DifferentialIKAction)
    return found


@pytest.mark.parametrize("backend", ["mujoco", "mujoco_warp"])
def test_the_arm_converges_to_a_pose_in_the_world(backend: str):
    pytest.importorskip(backend, reason="needs mujoco-warp: pip install -e '.[warp]'")
    env = franka(backend, use_relative_mode=False)
    for _ in range(120):
        env.step(GOALS)
    pos, quat = term(env).frame.pose()
    assert (pos - GOALS[:, :3]).norm(dim=1).max() < 2e-3
    assert quat_error_magnitude(quat, GOALS[:, 3:]).max() < 2e-2


def test_the_frame_of_a_site_is_mujocos():
    env = franka()
    site, data = env.sim.model.site("ee").id, env.sim.data_of(0)
    pos, quat = term(env).frame.pose()
    assert pos[0].tolist() == pytest.approx(data.site_xpos[site].tolist(), abs=1e-6)
    turned = torch.from_numpy(data.site_xmat[site]).view(3, 3).float()
    torch.testing.assert_close(matrix_from_quat(quat)[0], turned, rtol=0.0, atol=1e-5)


def test_the_posture_draws_the_elbow_and_the_limits_bound_it():
    """Only the position is requested, so the posture is free."""
    free = franka(use_relative_mode=False, orientation_weight=0.0)
    drawn = franka(
        use_relative_mode=False,
        orientation_weight=0.0,
        posture_weight=0.05,
        posture_target={"panda_joint1": 1.0},
    )
    assert term(free).dim == 3
    start = term(free).frame.pose()[0].clone()
    for _ in range(120):
        free.step(start)
        drawn.step(start)
    assert drawn.sim.data.qpos[0, 0] > free.sim.data.qpos[0, 0] + 0.1
    assert (term(drawn).frame.pose()[0] - start).norm(dim=1).max() < 0.05


def test_joints_beyond_their_limits_come_back():
    env = franka(joint_limit_weight=1.0, damping=0.01)
    qpos = env.sim.data.qpos.clone()
    qpos[:, 3] = 0.2  # of -3.07 to -0.07
    env.sim.reset(torch.ones(2, dtype=torch.bool), qpos)
    term(env).apply(torch.zeros(2, 6))
    with_weight = term(env).moves()[0, 3]
    free = franka(damping=0.01)
    free.sim.reset(torch.ones(2, dtype=torch.bool), qpos)
    term(free).apply(torch.zeros(2, 6))
    assert term(free).moves()[0, 3].abs() < 1e-4
    assert with_weight < -0.01


def test_targets_are_within_a_step_of_the_joints():
    env = franka(use_relative_mode=False, max_dq=0.01)
    term(env).apply(GOALS)
    term(env).control()
    moves = env.sim.ctrl[:, :7] - env.sim.data.qpos[:, :7]
    assert moves.abs().max().item() == pytest.approx(0.01, rel=1e-3)


def test_it_keeps_the_promises_of_every_task():
    cfg = franka_cfg(delta_pos_scale=0.05, delta_ori_scale=0.1, posture_weight=0.1)
    assert_keeps_promises(cfg)


def test_what_makes_no_sense_is_refused():
    assert_refused(
        {
            "frame_type is 'joint', but must be one of 'body', 'site', 'geom'": lambda: franka(
                frame_type="joint"
            ),
            r"The body 'panda_link\.\*' of an inverse kinematics action matches": lambda: franka(
                frame_type="body", frame_name="panda_link.*"
            ),
        }
    )
