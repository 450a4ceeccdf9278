"""Controllers of joints beside Isaac Lab's and mjlab's own, on the same random states."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from envlab.envs import ManagerEnv, mdp
from envlab.envs.joint_space import JointSpace
from envlab.envs.math import normalize
from envlab.envs.mdp.events import position_limits
from envlab.envs.mdp.ik_actions import DifferentialIKAction
from envlab.envs.operational_space import Motion, OperationalSpaceController
from envlab_tasks.manipulation.franka import ARM
from tests.envs.mdp.test_weighted_ik_action import franka_cfg
from tests.envs.sliders import rank
from tests.envs.torque_arms import make_torque_arm
from tests.peers.sources import TermBase, functions_of, module_of

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
N, JOINTS = 16, 7
WRENCH = {
    "target_types": ["pose_abs", "wrench_abs"],
    "motion_control_axes_task": (1, 1, 0, 1, 1, 1),
    "contact_wrench_control_axes_task": (0, 0, 1, 0, 0, 0),
}
DECOUPLED = {"inertial_dynamics_decoupling": True}
OPERATIONAL: list[tuple[dict[str, Any], bool]] = [
    ({}, False),
    ({"target_types": ["pose_rel"], "motion_damping_ratio_task": 0.7}, True),
    ({**DECOUPLED, "gravity_compensation": True}, True),
    ({**DECOUPLED, "partial_inertial_dynamics_decoupling": True}, False),
    ({**DECOUPLED, "nullspace_control": "position"}, True),
    ({"nullspace_control": "position", "nullspace_stiffness": 3.0}, False),
    ({"impedance_mode": "variable_kp", "motion_stiffness_limits_task": (10.0, 60.0)}, True),
    ({**DECOUPLED, "impedance_mode": "variable"}, True),
    (WRENCH, True),
    ({**WRENCH, "contact_wrench_stiffness_task": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]}, True),
]


def draws(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def poses(seed: int) -> torch.Tensor:
    return torch.cat((draws(N, 3, seed=seed), normalize(draws(N, 4, seed=seed + 1))), dim=1)


def pair(pose: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return pose[:, :3], pose[:, 3:]


def everything(**settings: Any) -> SimpleNamespace:
    """Return settings of ours as the peer's configuration, which has the same names."""
    ours = vars(mdp.OperationalSpaceControllerCfg(**settings))
    # Isaac Lab adds a row to what it calls a row, so its numbers are lists.
    lists = {k: [v] * 6 for k, v in ours.items() if k.endswith("_task") and isinstance(v, float)}
    return SimpleNamespace(**{**ours, **lists})


@pytest.mark.parametrize(("settings", "has_task_frame"), OPERATIONAL)
def test_operational_space_is_isaac_labs(
    isaac: Path, settings: dict[str, Any], has_task_frame: bool
):
    maths = vars(module_of(isaac / "utils/math.py"))
    known = functions_of(isaac / "controllers/operational_space.py", **maths)
    theirs = known["OperationalSpaceController"](everything(**settings), N, "cpu")
    ours = OperationalSpaceController(
        mdp.OperationalSpaceControllerCfg(**settings), JOINTS, torch.device("cpu")
    )
    assert sum(ours.sizes) == theirs.action_dim
    command = draws(N, theirs.action_dim, seed=1)
    if command.shape[1] > theirs.target_dim:
        command[:, theirs.target_dim :] *= 50.0
    if "pose_rel" not in settings.get("target_types", []):
        command[:, 3:7] = normalize(command[:, 3:7])
    pose, task = poses(2), poses(4) if has_task_frame else None
    spread = draws(N, JOINTS, JOINTS, seed=6)
    state = {
        "jacobian": draws(N, 6, JOINTS, seed=7),
        "velocity": draws(N, 6, seed=8),
        "mass_matrix": spread @ spread.mT + 3.0 * torch.eye(JOINTS),
        "gravity": draws(N, JOINTS, seed=9),
        "joint_pos": draws(N, JOINTS, seed=10),
        "joint_vel": draws(N, JOINTS, seed=11),
        "contact_force": draws(N, 3, seed=12),
    }
    posture = draws(N, JOINTS, seed=13)
    theirs.set_command(command.clone(), pose, task)
    expected = theirs.compute(
        state["jacobian"],
        pose,
        state["velocity"],
        state["contact_force"],
        state["mass_matrix"],
        state["gravity"],
        state["joint_pos"],
        state["joint_vel"],
        posture,
    )
    ours.set_command(command, pair(pose), None if task is None else pair(task))
    found = ours.compute(Motion(pose=pair(pose), **state), posture)
    scale = float(expected.abs().max())
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5 * scale)


@pytest.mark.parametrize("mode", ["fixed", "variable_kp", "variable"])
@pytest.mark.parametrize("kind", ["p_abs", "p_rel"])
def test_joint_impedance_is_isaac_labs(isaac: Path, mode: str, kind: str):
    """But for inertial compensation, where Isaac Lab multiplies matrices by a matrix of rows."""
    settings: dict[str, Any] = {
        "impedance_mode": mode,
        "command_type": kind,
        "stiffness": [20.0 + i for i in range(JOINTS)],
        "dof_pos_offset": [0.1 * i for i in range(JOINTS)],
        "gravity_compensation": True,
        "damping_ratio": 0.8,
    }
    cfg = mdp.JointImpedanceControllerCfg(**settings)
    action = mdp.JointImpedanceActionCfg(joint_names=ARM, controller_cfg=cfg)
    env = make_torque_arm(action)
    size = env.actions.shape[1]
    env.step(0.1 * draws(2, size))
    names = [f"panda_joint{i + 1}" for i in range(JOINTS)]
    limits = torch.stack(position_limits(env, names), dim=1).expand(2, JOINTS, 2)
    known = functions_of(
        isaac / "controllers/joint_impedance.py",
        configclass=lambda cls: cls,
        Sequence=Sequence,
        MISSING=None,
    )
    peer = known["JointImpedanceController"](SimpleNamespace(**vars(cfg)), 2, limits, "cpu")
    # Isaac Lab looks bounds up by environment, where it means the lower and the upper one.
    for name, bounds in (
        ("_p_gains_limits", cfg.stiffness_limits),
        ("_damping_ratio_limits", cfg.damping_ratio_limits),
    ):
        setattr(peer, name, torch.tensor(bounds).view(2, 1, 1).expand(2, 2, JOINTS))
    command = draws(2, size, seed=3)
    command[:, JOINTS : 2 * JOINTS] *= 100.0
    term = env.action_manager.get_term("arm")
    term.apply(command)
    term.control()
    peer.set_command(command.clone())
    data, gravity = env.sim.data, JointSpace(env, names).gravity()
    expected = peer.compute(data.qpos[:, :JOINTS], data.qvel[:, :JOINTS], gravity=gravity)
    torch.testing.assert_close(env.sim.ctrl[:, :JOINTS], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"use_relative_mode": False, "damping": 0.2, "max_dq": 0.1},
        {"orientation_weight": 0.0, "posture_weight": 0.3, "posture_target": {ARM: 0.2}},
        {"position_weight": 2.0, "orientation_weight": 0.5, "joint_limit_weight": 1.5},
    ],
)
def test_weighted_inverse_kinematics_is_mjlabs(peers: Path, isaac: Path, settings: dict[str, Any]):
    values = {"joint_names": ARM, "frame_type": "site", "frame_name": "ee", **settings}
    cfg = franka_cfg(**values)
    env = ManagerEnv(cfg, context=rank(0, 1), seed=0)
    qpos = env.sim.data.qpos.clone()
    qpos[:, 3] = torch.tensor([0.2, -1.0])  # beyond its limit, and within
    env.sim.reset(torch.ones(2, dtype=torch.bool), qpos)
    term = env.action_manager.get_term("arm")
    assert isinstance(term, DifferentialIKAction)
    maths = vars(module_of(isaac / "utils/math.py"))
    known = functions_of(
        peers / "mjlab/envs/mdp/actions/differential_ik.py",
        **maths,
        ActionTerm=TermBase,
        ActionTermCfg=object,
        dataclass=lambda **_: lambda cls: cls,
    )
    names = term.frame.joint_names
    low, high = position_limits(env, names)
    jacobian = term.frame.jacobian(term.frame.pose()[0])
    posture = env.default_qpos[:, :JOINTS].expand(2, JOINTS)
    if "posture_target" in settings:
        posture = torch.full((2, JOINTS), 0.2)
    peer = known["DifferentialIKAction"].__new__(known["DifferentialIKAction"])
    defaults = vars(mdp.DifferentialIKActionCfg(**values))
    attributes = {
        "cfg": SimpleNamespace(**defaults),
        "_action_dim": term.dim,
        "_raw_actions": torch.zeros(2, term.dim),
        "_desired_pos": torch.zeros(2, 3),
        "_desired_quat": torch.zeros(2, 4),
        "_point_torch": torch.zeros(2, 3),
        "_jacp_torch": jacobian[:, :3],
        "_jacr_torch": jacobian[:, 3:],
        "_joint_dof_ids": slice(None),
        "_joint_ids": slice(None),
        "_joint_lower": low,
        "_joint_upper": high,
        "_posture_target": posture,
        "_entity": SimpleNamespace(data=SimpleNamespace(joint_pos=term.frame.joint_pos)),
        "_get_frame_pose": term.frame.pose,
        "_compute_jacobian": lambda: None,
    }
    for name, value in attributes.items():
        setattr(peer, name, value)
    actions = 0.3 * draws(2, term.dim, seed=5)
    if term.dim == 7:
        actions[:, 3:] = normalize(actions[:, 3:])
    peer.process_actions(actions)
    term.apply(actions)
    term.control()
    found = env.sim.ctrl[:, :JOINTS] - term.frame.joint_pos
    torch.testing.assert_close(found, peer.compute_dq(), rtol=1e-4, atol=1e-5)
