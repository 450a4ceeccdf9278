"""A manager environment on four sliders, built term by term, whose numbers follow by hand."""

from __future__ import annotations

from dataclasses import make_dataclass
from pathlib import Path
from typing import Any

import torch

from envlab.distributed.context import DistributedContext
from envlab.envs import ManagerEnv, ManagerEnvCfg, SceneCfg, SceneEntityCfg, SimulationCfg, mdp
from envlab.envs.entities import SceneEntity, resolve_entity
from envlab.envs.managers import ObservationGroupCfg
from envlab.envs.terms import observation, termination

MODEL = str(Path(__file__).parent / "sliders.xml")
DT = 0.1
EPISODE_LENGTH_S = 1.0  # ten steps
PUSH, SERVO, DRIVE, LOOSE = range(4)  # columns of qpos and qvel
CTRL_DRIVE, CTRL_PUSH, CTRL_SERVO = range(3)  # columns of ctrl
HOME = [0.0, 0.5, 0.0, -0.25]
PUSH_MASS = 2.0


def terms(**named: Any) -> Any:
    """Return a container of terms, as a task's dataclass would be."""
    return make_dataclass("Terms", named)(**named)


def group(*, enable_corruption: bool = False, **named: Any) -> Any:
    cls = make_dataclass("Group", named, bases=(ObservationGroupCfg,), kw_only=True)
    return cls(enable_corruption=enable_corruption, **named)


def joint(*names: str) -> SceneEntityCfg:
    return SceneEntityCfg(joint_names=list(names))


def select(env: ManagerEnv, name: str = "robot", **names: Any) -> SceneEntity:
    """Look up parts of an environment's scene."""
    return resolve_entity(SceneEntityCfg(name, **names), env.sim.model, env.device)


def rank(index: int, world_size: int) -> DistributedContext:
    """Return the context of one of several ranks, without a process group."""
    return DistributedContext(rank=index, world_size=world_size, num_threads=1)


def make_cfg(num_envs: int = 4, sim: dict[str, Any] | None = None, **fields: Any) -> ManagerEnvCfg:
    """Return a configuration; ``fields`` replace the default ones, ``sim`` those of the physics."""
    defaults: dict[str, Any] = {
        "episode_length_s": EPISODE_LENGTH_S,
        "observations": terms(
            policy=group(
                pos=observation(mdp.joint_pos),
                vel=observation(mdp.joint_vel),
            )
        ),
        "actions": terms(force=mdp.JointEffortActionCfg(joint_names="push")),
        "terminations": terms(time_out=termination(mdp.time_out, time_out=True)),
    }
    return ManagerEnvCfg(
        sim=SimulationCfg(**{"dt": DT, **(sim or {})}),
        scene=SceneCfg(num_envs=num_envs, model=MODEL),
        **(defaults | fields),
    )


def make_env(
    num_envs: int = 4, *, seed: int = 0, context: DistributedContext | None = None, **fields: Any
) -> ManagerEnv:
    """Return an environment; ``fields`` are those of :func:`make_cfg`."""
    cfg = make_cfg(num_envs, **fields)
    return ManagerEnv(cfg, context=context or rank(0, 1), seed=seed)


def place(env: ManagerEnv, positions: list[list[float]], velocities: list[list[float]]) -> None:
    """Put the sliders of all environments somewhere."""
    everyone = torch.ones(env.num_envs, dtype=torch.bool)
    env.sim.reset(everyone, torch.tensor(positions), torch.tensor(velocities))


def push(env: ManagerEnv, *forces: float) -> Any:
    """Step with one force per environment."""
    return env.step(torch.tensor(forces).unsqueeze(1))


def assert_spans(values: torch.Tensor, low: float, high: float, *, margin: float = 0.05) -> None:
    """Check that draws are within a range, and come as close as ``margin`` of it to both ends."""
    least, greatest, room = float(values.min()), float(values.max()), margin * (high - low)
    assert low - 1e-6 <= least < low + room
    assert high - room < greatest <= high + 1e-6
