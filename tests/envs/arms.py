"""An environment with one arm on a turned base and a loose ball, whose poses follow by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch

from envlab.envs import ManagerEnv, SceneCfg, mdp
from tests.envs.sliders import make_cfg, rank, terms

MODEL = str(Path(__file__).parent / "arm.xml")
FIELDS = ("xpos", "xquat", "xanchor", "xaxis", "site_xpos")
HINGE, LEFT, RIGHT, BALL = 0, 1, 2, slice(3, 6)  # columns of qpos
QUARTER = math.sqrt(0.5)
"""Scalar part, and length of the vector part, of a quaternion that turns by a quarter."""


def make_arm(num_envs: int = 2, **fields: Any) -> ManagerEnv:
    """Return an environment; ``fields`` replace those of its configuration."""
    defaults = {"actions": terms(turn=mdp.JointPositionActionCfg(joint_names="hinge"))}
    cfg = make_cfg(num_envs, sim={"dt": 0.01, "data_fields": FIELDS}, **(defaults | fields))
    cfg.scene = SceneCfg(num_envs=num_envs, model=MODEL)
    cfg.episode_length_s = 100.0
    return ManagerEnv(cfg, context=rank(0, 1), seed=0)


def pose(env: ManagerEnv, hinge: float = 0.0, ball: tuple[float, ...] = (1.0, 2.0, 0.0)) -> None:
    """Put the arm and the ball of all environments somewhere, at rest."""
    qpos = env.default_qpos.repeat(env.num_envs, 1)
    qpos[:, HINGE], qpos[:, BALL] = hinge, torch.tensor(ball)
    env.sim.reset(torch.ones(env.num_envs, dtype=torch.bool), qpos)
