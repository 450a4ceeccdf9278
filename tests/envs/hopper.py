"""A free block with an arm above a floor, whose forces and velocities follow by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from envlab.envs import ManagerEnv, ManagerEnvCfg, SceneCfg, SceneEntityCfg, SimulationCfg, mdp
from envlab.envs.contact_sensor import ContactSensorCfg
from envlab.envs.managers import ObservationTermCfg
from tests.envs.sliders import group, rank, terms

MODEL = str(Path(__file__).parent / "hopper.xml")
DT = 0.01
MASS, ARM_MASS, GRAVITY = 2.0, 0.5, 10.0
LEVEL = [1.0, 0.0, 0.0, 0.0]
LEFT = [2**-0.5, 0.0, 0.0, 2**-0.5]  # turned by 90 degrees to the left
ROLLED = [2**-0.5, 2**-0.5, 0.0, 0.0]  # turned by 90 degrees about x


def bodies(*names: str) -> SceneEntityCfg:
    """Select bodies of the contact sensor."""
    return SceneEntityCfg("contact_forces", body_names=list(names))


def make_env(
    num_envs: int = 1,
    *,
    seed: int = 0,
    index: int = 0,
    world_size: int = 1,
    sim: dict[str, Any] | None = None,
    **fields: Any,
) -> ManagerEnv:
    """Return an environment; ``fields`` are those of its configuration, ``sim`` of the physics."""
    defaults: dict[str, Any] = {
        "episode_length_s": 100.0,
        "observations": terms(policy=group(pos=ObservationTermCfg(func=mdp.joint_pos))),
        "actions": terms(arm=mdp.JointPositionActionCfg(joint_names="arm")),
        "sensors": terms(contact_forces=ContactSensorCfg()),
        "scene": SceneCfg(num_envs=num_envs, model=MODEL),
    }
    cfg = ManagerEnvCfg(
        sim=SimulationCfg(**{"dt": DT, "data_fields": ("sensordata",), **(sim or {})}),
        **(defaults | fields),
    )
    return ManagerEnv(cfg, context=rank(index, world_size), seed=seed)


def place(
    env: ManagerEnv,
    *,
    height: float = 1.0,
    quat: list[float] = LEVEL,
    arm: float = 0.0,
    lin_vel: tuple[float, float, float] = (0.0, 0.0, 0.0),
    ang_vel: tuple[float, float, float] = (0.0, 0.0, 0.0),
    arm_vel: float = 0.0,
) -> None:
    """Put all environments into one state; ``ang_vel`` is in the body's frame."""
    qpos = torch.tensor([[0.0, 0.0, height, *quat, arm]]).repeat(env.num_envs, 1)
    qvel = torch.tensor([[*lin_vel, *ang_vel, arm_vel]]).repeat(env.num_envs, 1)
    env.sim.reset(torch.ones(env.num_envs, dtype=torch.bool), qpos, qvel)


def step(env: ManagerEnv, steps: int = 1) -> Any:
    """Step with the arm held still."""
    for _ in range(steps):
        result = env.step(torch.zeros(env.num_envs, 1))
    return result
