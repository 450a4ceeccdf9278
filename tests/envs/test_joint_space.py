"""The mass matrix and the gravity of chosen joints are MuJoCo's."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
import pytest
import torch

from envlab.envs import ManagerEnv, mdp
from envlab.envs.joint_space import JOINT_SPACE_FIELDS, JointSpace
from envlab.errors import ConfigurationError
from envlab_tasks.manipulation.franka import ARM
from tests.envs.sliders import make_cfg, rank, terms
from tests.envs.torque_arms import NUM_JOINTS, make_torque_arm, torque_arm

LEGS = ("FL_calf_joint", "FL_hip_joint", "FR_thigh_joint", "FL_thigh_joint")


def mujocos_own(env: ManagerEnv, joints: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return MuJoCo's own mass matrix and gravity of joints in environment 1."""
    model, data = env.sim.model_of(1), env.sim.data_of(1)
    whole = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, whole)
    dofs = [int(model.jnt_dofadr[model.joint(name).id]) for name in joints]
    data.qvel[:] = 0.0
    mujoco.mj_forward(model, data)
    return whole[np.ix_(dofs, dofs)], data.qfrc_bias[dofs]


def assert_equal(env: ManagerEnv, joints: list[str]) -> None:
    space = JointSpace(env, joints)
    matrix, gravity = mujocos_own(env, joints)
    np.testing.assert_allclose(space.mass_matrix()[1].cpu(), matrix, atol=2e-5 * matrix.max())
    np.testing.assert_allclose(space.gravity()[1].cpu(), gravity, atol=2e-5 * abs(gravity).max())


@pytest.mark.parametrize("backend", ["mujoco", "mujoco_warp"])
def test_an_arm_has_mujocos_inertia_and_gravity(backend: str):
    pytest.importorskip(backend, reason="needs mujoco-warp: pip install -e '.[warp]'")
    effort = mdp.JointEffortActionCfg(joint_names=ARM)
    fields = (*JOINT_SPACE_FIELDS, "xpos")
    env = make_torque_arm(effort, backend=backend, data_fields=fields)
    for _ in range(3):
        env.step(torch.linspace(-20.0, 20.0, 2 * NUM_JOINTS).view(2, NUM_JOINTS))
    assert_equal(env, [f"panda_joint{i}" for i in range(1, 8)])


def test_legs_of_a_moving_base_in_any_order_have_them_too():
    cfg = make_cfg(
        2,
        sim={"dt": 0.005, "data_fields": JOINT_SPACE_FIELDS, "model_fields": ("dof_armature",)},
        actions=terms(legs=mdp.JointPositionActionCfg(joint_names=".*_joint", scale=0.5)),
    )
    cfg.scene.model = "envlab_assets:robots/go2.xml"
    env = ManagerEnv(cfg, context=rank(0, 1), seed=0)
    env.sim.params.dof_armature[1] += 0.3
    env.sim.apply_params()
    for _ in range(5):
        env.step(torch.randn(2, 12, generator=torch.Generator().manual_seed(0)))
    assert_equal(env, [*LEGS])


@pytest.mark.parametrize("kind", ["operational", "impedance"])
def test_gravity_is_not_compensated_twice(kind: str):
    action: Any
    if kind == "operational":
        settings = mdp.OperationalSpaceControllerCfg(gravity_compensation=True)
        action = mdp.OperationalSpaceControllerActionCfg(
            joint_names=ARM, body_name="panda_hand", controller_cfg=settings
        )
    else:
        gains = mdp.JointImpedanceControllerCfg(stiffness=10.0, gravity_compensation=True)
        action = mdp.JointImpedanceActionCfg(joint_names=ARM, controller_cfg=gains)
    cfg = torque_arm(action)
    cfg.scene.disable_gravity = ["panda_link7"]
    with pytest.raises(ConfigurationError, match="'panda_link7' has gravcomp=1 already"):
        ManagerEnv(cfg, context=rank(0, 1), seed=0)
