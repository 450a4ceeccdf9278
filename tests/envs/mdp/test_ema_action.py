"""Smoothed targets within the joints' limits."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from envlab.envs import ManagerEnv, SceneCfg, mdp
from envlab.errors import ConfigurationError
from tests.envs.sliders import CTRL_SERVO, HOME, MODEL, SERVO, make_cfg, rank, terms

START = HOME[SERVO]


@pytest.fixture
def limited(tmp_path) -> str:
    """Return the sliders' model, in which the servo's joint has limits."""
    path, limits = tmp_path / "limited.xml", '<joint name="servo" range="-1 3" limited="true"/>'
    path.write_text(Path(MODEL).read_text().replace('<joint name="servo"/>', limits))
    return str(path)


def make(model: str, **cfg) -> ManagerEnv:
    term = mdp.EMAJointPositionToLimitsActionCfg(joint_names="servo", **cfg)
    env_cfg = make_cfg(2, actions=terms(target=term))
    env_cfg.scene = SceneCfg(num_envs=2, model=model)
    return ManagerEnv(env_cfg, context=rank(0, 1), seed=0)


def targets(env: ManagerEnv, *actions: float) -> list[float]:
    """Return the first environment's target after each action."""
    found = []
    for action in actions:
        env.step(torch.full((2, 1), action))
        found.append(env.sim.ctrl[0, CTRL_SERVO].item())
    return found


def test_actions_span_the_limits(limited):
    assert targets(make(limited), -1.0, 0.0, 0.5, 1.0, 4.0) == [-1.0, 1.0, 2.0, 3.0, 3.0]


def test_the_average_starts_where_the_joint_is(limited):
    first = 0.25 * 3.0 + 0.75 * START
    second = 0.25 * 1.0 + 0.75 * first
    assert targets(make(limited, alpha=0.25), 1.0, 0.0) == pytest.approx([first, second])


def test_positions_may_be_given_as_they_are_and_are_cut_at_the_limits(limited):
    env = make(limited, rescale_to_limits=False, scale=2.0)
    assert targets(env, 0.25, 1.0, 9.0) == pytest.approx([0.5, 2.0, 3.0])


def test_averages_that_cannot_be_taken_are_refused(limited):
    with pytest.raises(ConfigurationError, match="limits of joints, but some have none"):
        make(MODEL)
    with pytest.raises(ConfigurationError, match=r"alpha 1\.5"):
        make(limited, alpha=1.5)
