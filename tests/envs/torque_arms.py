"""A Panda with motors, whose efforts an action computes in each physics step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from envlab.envs import ManagerEnv, ManagerEnvCfg
from envlab.envs.actuators import IdealPDActuatorCfg
from envlab_tasks.manipulation.franka import ARM, HOME, scene
from tests.envs.sliders import make_cfg, rank, terms

GRASP = (0.0, 0.0, 0.1034)
"""Where the fingers meet, in the frame of the hand."""
NUM_JOINTS = len(HOME)


def torque_arm(action: Any, *, backend: str = "mujoco", **sim: Any) -> ManagerEnvCfg:
    """Return the configuration of two Pandas that feel gravity."""
    cfg = make_cfg(2, sim={"dt": 1 / 120, "backend": backend, **sim}, actions=terms(arm=action))
    cfg.decimation, cfg.episode_length_s = 4, 1000.0
    motors = IdealPDActuatorCfg(joint_names_expr=[ARM], stiffness=0.0, damping=0.0)
    cfg.scene = replace(scene("franka_reach", 2), actuators={"arm": motors})
    return cfg


def make_torque_arm(action: Any, **settings: Any) -> ManagerEnv:
    return ManagerEnv(torque_arm(action, **settings), context=rank(0, 1), seed=0)
