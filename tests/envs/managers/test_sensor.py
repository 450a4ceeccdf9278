"""Sensors that measure less often than each step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from envlab.envs import ManagerEnv, mdp
from envlab.envs.frame_transformer import FrameCfg, FrameTransformerCfg
from envlab.envs.inertial_sensors import ImuCfg, JointWrenchCfg
from envlab.envs.ray_sensor import RayCastSensorCfg
from envlab.envs.terms import at_reset, termination
from envlab.errors import ConfigurationError
from tests.envs.hopper import DT, make_env, step
from tests.envs.sliders import terms

READ: dict[str, tuple[Any, Any]] = {
    "imu": (ImuCfg(body_name="block"), lambda it: torch.cat((it.pos_w, it.lin_vel_b), dim=1)),
    "load": (JointWrenchCfg(body_names="arm"), lambda it: it.wrenches_b.flatten(1)),
    "frames": (
        FrameTransformerCfg(body_name="world", target_frames=[FrameCfg(body_name="block")]),
        lambda it: it.target_pos_source.flatten(1),
    ),
    "rays": (
        RayCastSensorCfg(
            body_names="block",
            pattern_cfg=mdp.GridPatternCfg(size=(0.0, 0.0), resolution=0.1),
            ray_alignment="world",
        ),
        lambda it: it.distances,
    ),
}


def make(update_period: float) -> ManagerEnv:
    """Return blocks that fall from random heights, whose episodes end at 0.5 m."""
    sensors = {name: replace(one, update_period=update_period) for name, (one, _) in READ.items()}
    heights = {"z": (0.6, 1.6)}
    return make_env(
        8,
        sensors=terms(**sensors),
        events=terms(
            root=at_reset(mdp.reset_root_state_uniform, pose_range=heights, velocity_range={})
        ),
        terminations=terms(low=termination(mdp.root_height_below_minimum, minimum_height=0.5)),
    )


def readings(env: ManagerEnv) -> dict[str, torch.Tensor]:
    return {name: read(env.sensor_manager.get_term(name)) for name, (_, read) in READ.items()}


def test_with_a_period_sensors_keep_what_they_measured_last():
    now, late = make(0.0), make(3 * DT)
    now.reset(), late.reset()
    kept, age, ages = readings(late), torch.zeros(8), set()
    for _ in range(60):
        _, _, ended, *_ = step(now)
        step(late)
        age = torch.where(ended | (age == 2), 0.0, age + 1)
        is_new = (age == 0).unsqueeze(1)
        kept = {
            name: torch.where(is_new, values, kept[name]) for name, values in readings(now).items()
        }
        for name, values in readings(late).items():
            assert torch.equal(values, kept[name]), name
        ages.add(tuple(age.tolist()))
    assert len(ages) > 3  # episodes that ended at different times


def test_a_period_below_a_step_is_each_step():
    now, often = make(0.0), make(0.4 * DT)
    for _ in range(3):
        step(now), step(often)
        assert all(
            torch.equal(values, readings(now)[name]) for name, values in readings(often).items()
        )


def test_a_negative_period_is_refused():
    with pytest.raises(ConfigurationError, match=r"update_period.* -0\.1"):
        make(-0.1)
