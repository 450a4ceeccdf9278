"""Isaac-Repose-Cube-Shadow-OpenAI-{FF,LSTM}-Direct-v0: Isaac Lab 2.3.2's numbers.

Differs from Isaac Lab 2.3.2:

- Gravity and the tendons' stiffness and damping are not randomised; the tendons are limits.
- Friction has one coefficient, from 0.7 to 1.3; Isaac Lab has a static coefficient from 0.7 to 1.3
  and a dynamic coefficient of 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from envlab.envs import (
    GaussianNoiseCfg,
    NoiseCfg,
    NoiseModelWithAdditiveBiasCfg,
    SceneEntityCfg,
    SimulationCfg,
    default,
    mdp,
)
from envlab.envs.managers import EventTermCfg
from envlab_tasks.in_hand.repose_cube_direct.shadow_env_cfg import FIELDS, ShadowHandEnvCfg


def driven() -> SceneEntityCfg:
    """Select the joints that have an actuator."""
    return SceneEntityCfg(
        "robot", joint_names=["robot0_WRJ.", "robot0_(FF|MF|RF|LF)J[1-4]", "robot0_THJ."]
    )


def at_rare_resets(func: Callable[..., None], **params: Any) -> EventTermCfg:
    """Return an event at resets that are at least 720 steps apart."""
    return EventTermCfg(func=func, mode="reset", min_step_count_between_reset=720, params=params)


def friction(name: str) -> EventTermCfg:
    """Return the event that draws the friction of the hand or of the cube."""
    return at_rare_resets(
        mdp.randomize_rigid_body_material, friction_range=(0.7, 1.3), asset_cfg=SceneEntityCfg(name)
    )


@dataclass(kw_only=True)
class EventsCfg:
    """Randomised properties of environments, redrawn every 720 steps at most."""

    robot_physics_material: EventTermCfg = default(friction("robot"))
    robot_joint_stiffness_and_damping: EventTermCfg = default(
        at_rare_resets(
            mdp.randomize_actuator_gains,
            stiffness_distribution_params=(0.75, 1.5),
            damping_distribution_params=(0.3, 3.0),
            operation="scale",
            distribution="log_uniform",
            asset_cfg=driven(),
        )
    )
    robot_joint_pos_limits: EventTermCfg = default(
        at_rare_resets(
            mdp.randomize_joint_parameters,
            lower_limit_distribution_params=(0.0, 0.01),
            upper_limit_distribution_params=(0.0, 0.01),
            operation="add",
            distribution="gaussian",
        )
    )
    object_physics_material: EventTermCfg = default(friction("object"))
    object_scale_mass: EventTermCfg = default(
        at_rare_resets(
            mdp.randomize_rigid_body_mass,
            mass_distribution_params=(0.5, 1.5),
            operation="scale",
            asset_cfg=SceneEntityCfg("object"),
        )
    )


def noise(std: float, bias_std: float) -> NoiseModelWithAdditiveBiasCfg:
    """Return normal noise, with a bias that is drawn when an episode begins."""
    return NoiseModelWithAdditiveBiasCfg(
        noise_cfg=GaussianNoiseCfg(std=std),
        bias_noise_cfg=GaussianNoiseCfg(std=bias_std, operation="abs"),
    )


@dataclass(kw_only=True)
class ShadowHandOpenAIEnvCfg(ShadowHandEnvCfg):
    """Turn it by OpenAI's hand's observations, for 8 seconds at 20 Hz, and 8 more with each goal.

    The critic sees everything (arXiv:1808.00177).
    """

    decimation: int = 3
    episode_length_s: float = 8.0
    observation_space: int | list[int] | None = 42
    state_space: int | list[int] = 187
    asymmetric_obs: bool = True
    obs_type: Literal["full", "openai"] = "openai"
    sim: SimulationCfg = default(
        SimulationCfg(
            dt=1.0 / 60.0,
            data_fields=FIELDS,
            num_contacts_max=64,
            num_constraints_max=256,
        )
    )
    fall_penalty: float = -50.0
    success_tolerance: float = 0.4
    max_consecutive_success: int = 50
    act_moving_average: float = 0.3
    events: EventsCfg | None = field(default_factory=EventsCfg)
    action_noise_model: NoiseCfg | None = default(noise(0.05, 0.015))
    observation_noise_model: NoiseCfg | None = default(noise(0.002, 0.0001))
