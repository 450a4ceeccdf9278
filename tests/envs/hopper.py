"""A free block with an arm above a floor, whose forces and velocities follow by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from envlab.envs import ManagerEnv, ManagerEnvCfg, SceneCfg, SceneEntityCfg, SimulationCfg, mdp
from envlab.envs.contact_sensor import ContactSensorCfg
from envlab.envs.terms import observation
from tests.envs.sliders import group, rank, terms

MODEL = str(Path(__file__).parent / "hopper.xml")
DT = 0.01
MASS, ARM_MASS, GRAVITY = 2.0, 0.5, 10.0
LEVEL = [1.0, 0.0, 0.0, 0.0]
LEFT = [2**-0.5, 0.0, 0.0, 2**-0.5]  # turned by 90 degrees to the left
ROLLED = [2**-0.5, 2**-0.5, 0.0, 0.0]  # turned by 90 degrees about x


def bodies(*names: str) -> SceneEntityCfg:
    return SceneEntityCfg("contact_forces", body_names=list(names))


def make_env(
    num_envs: int = 1, *, seed: int = 0, sim: dict[str, Any] | None = None, **fields: Any
) -> ManagerEnv:
    """Return an environment; ``fields`` are those of its configuration, ``sim`` of the physics."""
    defaults: dict[str, Any] = {
        "episode_length_s": 100.0,
        "observations": terms(policy=group(pos=observation(mdp.joint_pos))),
        "actions": terms(arm=mdp.JointPositionActionCfg(joint_names="arm")),
        "sensors": terms(contact_forces=ContactSensorCfg()),
        "scene": SceneCfg(num_envs=num_envs, model=MODEL),
    }
    sim_cfg = SimulationCfg(**{"dt": DT, "data_fields": ("sensordata",), **(sim or {})})
    cfg = ManagerEnvCfg(sim=sim_cfg, **(defaults | fields))
    return ManagerEnv(cfg, context=rank(0, 1), seed=seed)


def place(
    env: ManagerEnv,
    *,
    height: float = 1.0,
    quat: list[float] = LEVEL,
    arm: float = 0.0,
    lin_vel: tuple[float, ...] = (0.0, 0.0, 0.0),
    ang_vel: tuple[float, ...] = (0.0, 0.0, 0.0),
    arm_vel: float = 0.0,
) -> None:
    """Put all environments into one state; ``ang_vel`` is in the body's frame."""
    qpos, qvel = [0.0, 0.0, height, *quat, arm], [*lin_vel, *ang_vel, arm_vel]
    rows = (torch.tensor([values]).repeat(env.num_envs, 1) for values in (qpos, qvel))
    env.sim.reset(torch.ones(env.num_envs, dtype=torch.bool), *rows)


def step(env: ManagerEnv, steps: int = 1) -> Any:
    """Step with the arm held still."""
    for _ in range(steps):
        result = env.step(torch.zeros(env.num_envs, 1))
    return result
