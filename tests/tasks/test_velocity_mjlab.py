"""Mjlab-Velocity-Flat-Unitree-G1 has the numbers of mjlab 1.6.0's own configuration."""

from __future__ import annotations

import math

import pytest

from envlab.config import to_dict
from envlab.envs import ManagerEnv
from envlab.registry import get_task, load_agent_values
from envlab_tasks.locomotion.velocity.g1_29.flat_env_cfg import (
    RUNNING,
    WALKING,
    G1FlatEnvCfg,
    G1FlatPlayEnvCfg,
)

CFG = to_dict(G1FlatEnvCfg())


def test_weights_are_mjlabs():
    assert {name: term["weight"] for name, term in CFG["rewards"].items()} == {
        "track_linear_velocity": 2.0,
        "track_angular_velocity": 2.0,
        "upright": 1.0,
        "pose": 1.0,
        "body_ang_vel": -0.05,
        "angular_momentum": -0.02,
        "dof_pos_limits": -1.0,
        "action_rate_l2": -0.1,
        "foot_clearance": -2.0,
        "foot_swing_height": -0.25,
        "foot_slip": -0.1,
        "soft_landing": -1e-5,
        "self_collisions": -1.0,
    }
    params = {name: term["params"] for name, term in CFG["rewards"].items()}
    assert params["track_linear_velocity"]["std"] == pytest.approx(math.sqrt(0.25))
    assert params["track_angular_velocity"]["std"] == pytest.approx(math.sqrt(0.5))
    assert params["upright"]["std"] == pytest.approx(math.sqrt(0.2))
    assert params["pose"]["std_standing"] == {".*": 0.05}
    assert (params["pose"]["walking_threshold"], params["pose"]["running_threshold"]) == (0.05, 1.5)
    for name in ("foot_clearance", "foot_swing_height"):
        assert params[name]["target_height"] == 0.1
    for name in ("foot_clearance", "foot_swing_height", "foot_slip", "soft_landing"):
        assert params[name]["command_threshold"] == 0.05


def test_commands_and_noise_are_mjlabs():
    twist = CFG["commands"]["twist"]
    assert twist["resampling_time_range"] == [3.0, 8.0]
    shares = [twist[f"rel_{kind}_envs"] for kind in ("standing", "heading", "forward")]
    assert shares == [0.1, 0.3, 0.2]
    assert twist["ranges"]["lin_vel_x"] == twist["ranges"]["lin_vel_y"] == [-1.0, 1.0]
    assert twist["ranges"]["ang_vel_z"] == [-0.5, 0.5]
    noise = {
        name: term["noise"]["n_max"]
        for name, term in CFG["observations"]["policy"].items()
        if isinstance(term, dict) and term["noise"] is not None
    }
    assert noise == {
        "base_lin_vel": 0.5,
        "base_ang_vel": 0.2,
        "projected_gravity": 0.05,
        "joint_pos": 0.01,
        "joint_vel": 1.5,
    }


def test_speeds_grow_in_mjlabs_stages():
    assert CFG["curriculum"]["command_vel"]["params"]["velocity_stages"] == [
        {"step": 0, "lin_vel_x": [-1.0, 1.0], "ang_vel_z": [-0.5, 0.5]},
        {"step": 120000, "lin_vel_x": [-1.5, 2.0], "ang_vel_z": [-0.7, 0.7]},
        {"step": 240000, "lin_vel_x": [-2.0, 3.0]},
    ]
    assert G1FlatPlayEnvCfg().curriculum is None


def test_widths_of_postures_are_mjlabs():
    assert (WALKING[".*_knee_joint"], RUNNING[".*_knee_joint"]) == (0.35, 0.6)
    assert (WALKING["waist_pitch_joint"], RUNNING["waist_pitch_joint"]) == (0.1, 0.2)
    assert (WALKING[".*_wrist_.*"], RUNNING[".*_wrist_.*"]) == (0.3, 0.3)
    assert RUNNING[".*_shoulder_pitch_joint"] == 0.5


def test_observations_are_as_wide_as_mjlabs():
    env = ManagerEnv(G1FlatEnvCfg(), num_envs=2, seed=0)
    # Three of the pelvis, twice, and of gravity; three times 29 of the joints; the command.
    assert env.obs_buf["policy"].shape == (2, 9 + 87 + 3)
    # Heights, times and touches of two feet, and their forces.
    assert env.obs_buf["critic"].shape == (2, 99 + 3 * 2 + 6)


def test_the_agent_is_mjlabs():
    values = load_agent_values(get_task("Mjlab-Velocity-Flat-Unitree-G1"), "rsl_rl")
    assert values is not None
    assert values["actor"]["hidden_dims"] == values["critic"]["hidden_dims"] == [512, 256, 128]
    assert values["algorithm"]["entropy_coef"] == 0.01
    assert (values["num_steps_per_env"], values["max_iterations"]) == (24, 30000)
    tracked = load_agent_values(get_task("Mjlab-Tracking-Flat-Unitree-G1"), "rsl_rl")
    assert tracked is not None
    assert tracked["algorithm"]["entropy_coef"] == 0.005
