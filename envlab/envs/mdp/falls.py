"""Episodes that begin with a robot lying on the ground after a fall."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import mujoco
import numpy as np
import torch

from envlab.envs.entities import SceneEntity, SceneEntityCfg, columns, resolve_entity
from envlab.envs.masks import assign
from envlab.envs.math import quat_apply, quat_mul
from envlab.envs.random import RandomStream
from envlab.errors import ConfigurationError
from envlab.sim.simulation import SimulationCfg, create_simulation

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv

_ROBOT: Any = SceneEntityCfg("robot")
_CPU = torch.device("cpu")


class Falls(NamedTuple):
    """Settings for dropping robots."""

    drop_height: float
    """Height of the root in the air, in m."""
    drop_prob: float
    """Share of robots that are dropped, with a random orientation and any joint positions within
    their limits; the others start in the default pose."""
    max_velocity: float
    """Bound of each component of the root's initial velocity, in m/s and rad/s."""
    settle_time_s: float
    """Time during which motors hold the joints in place, in s."""
    num_states: int
    """Number of robots that are dropped."""


def reset_to_fallen_state(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    drop_height: float,
    drop_prob: float = 0.6,
    max_velocity: float = 0.5,
    settle_time_s: float = 0.5,
    num_states: int = 512,
    asset_cfg: SceneEntity = _ROBOT,
) -> None:
    """Reset the robot to one of the states in which it came to rest, turned about the vertical.

    Robots are dropped once, before the first episode: a reset must not simulate, as the other
    environments of the batch cannot wait. The states are the same in every process, for every seed
    and after a resume; each episode begins with one at random. For flat ground.

    Args:
        env: The environment.
        mask: Environments to reset, bool ``(num_envs,)``.
        stream: The term's random stream.
        drop_height: See :class:`Falls`, also for the following ones.
        drop_prob: Share of states after a drop; the others come from standing.
        max_velocity: In m/s and rad/s.
        settle_time_s: In s.
        num_states: States to choose from.
        asset_cfg: The robot; its free joint, and the joints that motors hold.

    Raises:
        ConfigurationError: If there is nothing to choose from.
    """
    if num_states < 1 or settle_time_s <= 0.0:
        raise ConfigurationError(
            f"reset_to_fallen_state has num_states {num_states} and settle_time_s {settle_time_s}, "
            "but both must be positive: it begins with states that were simulated before."
        )
    falls = Falls(drop_height, drop_prob, max_velocity, settle_time_s, num_states)
    key = ("falls", falls, asset_cfg.root_body)
    if key not in env.constants:
        env.constants[key] = _states_on(env, falls, asset_cfg)
    reset_to_one_of(env.constants[key], env, mask, stream, asset_cfg)


def reset_to_one_of(
    states: torch.Tensor,
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    asset_cfg: SceneEntity,
) -> None:
    """Reset to one of the states ``(k, nq + nv)``, at random, turned about the vertical."""
    chosen = states.index_select(0, stream.integers(0, len(states)))
    yaw = stream.uniform(-np.pi, np.pi, 1)
    qpos, qvel = chosen.split([env.sim.model.nq, env.sim.model.nv], dim=1)
    qpos, qvel = _turned(qpos.clone(), qvel.clone(), yaw, asset_cfg)
    qpos[:, asset_cfg.root_pos] += env.env_origins
    assign(env.reset_qpos, mask, qpos)
    assign(env.reset_qvel, mask, qvel)


def _turned(
    qpos: torch.Tensor, qvel: torch.Tensor, yaw: torch.Tensor, asset_cfg: SceneEntity
) -> tuple[torch.Tensor, torch.Tensor]:
    """Turn states by ``yaw``, ``(num_envs, 1)``, about the vertical through the origin."""
    zero = torch.zeros_like(yaw)
    turn = torch.cat((torch.cos(0.5 * yaw), zero, zero, torch.sin(0.5 * yaw)), dim=1)
    qpos[:, asset_cfg.root_pos] = quat_apply(turn, qpos[:, asset_cfg.root_pos])
    qpos[:, asset_cfg.root_quat] = quat_mul(turn, qpos[:, asset_cfg.root_quat])
    qvel[:, asset_cfg.root_lin_vel] = quat_apply(turn, qvel[:, asset_cfg.root_lin_vel])
    return qpos, qvel  # angular velocities are in the root's own frame


def _states_on(env: ManagerEnv, falls: Falls, asset_cfg: SceneEntity) -> torch.Tensor:
    model = env.sim.model
    buffer = np.empty(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, buffer)
    default = env.default_qpos[0].cpu().numpy().tobytes()
    robot = SceneEntityCfg(asset_cfg.name, joint_names=list(asset_cfg.joint_names))
    states = fallen_states(buffer.tobytes(), default, falls, robot.name, *asset_cfg.joint_names)
    return states.to(env.device)


@functools.lru_cache(maxsize=4)
def fallen_states(
    saved_model: bytes, default_qpos: bytes, falls: Falls, robot: str, *joint_names: str
) -> torch.Tensor:
    """Return states after falls, ``(k, nq + nv)``, of robots that did not break down.

    They depend on the arguments alone, so a process simulates them only once.
    """
    model = mujoco.MjModel.from_binary_path("falls.mjb", {"falls.mjb": saved_model})
    entity = resolve_entity(SceneEntityCfg(robot, joint_names=list(joint_names)), model, _CPU)
    sim = create_simulation(
        SimulationCfg(backend="mujoco", dt=float(model.opt.timestep)),
        model,
        falls.num_states,
        decimation=max(1, round(falls.settle_time_s / model.opt.timestep)),
        device=_CPU,
    )
    generator = np.random.default_rng(0)
    default = torch.from_numpy(np.frombuffer(default_qpos, np.float32).copy())
    qpos = default.repeat(falls.num_states, 1)
    dropped = torch.from_numpy(generator.random(falls.num_states) < falls.drop_prob)
    quat = generator.normal(size=(falls.num_states, 4))
    quat /= np.linalg.norm(quat, axis=1, keepdims=True)
    ids = [model.joint(name).id for name in entity.joint_names]
    low, high = model.jnt_range[ids].T
    joints = generator.uniform(low, high, size=(falls.num_states, len(ids)))
    qpos[dropped, entity.root_pos.start + 2] = falls.drop_height
    _set(qpos, dropped, entity.root_quat, quat)
    _set(qpos, dropped, entity.qpos_ids, joints)
    qvel = torch.zeros(falls.num_states, model.nv)
    bound, start = falls.max_velocity, entity.root_lin_vel.start
    qvel[:, start : start + 6] = torch.from_numpy(
        generator.uniform(-bound, bound, size=(falls.num_states, 6))
    ).float()
    sim.reset(torch.ones(falls.num_states, dtype=torch.bool), qpos, qvel)
    sim.ctrl[:, entity.actuator_ids] = columns(qpos, entity.qpos_ids)
    sim.step()
    states = torch.cat((sim.data.qpos, sim.data.qvel), dim=1)
    fine = ~sim.bad() & torch.isfinite(states).all(dim=1)
    sim.close()
    if not fine.any():
        raise ConfigurationError(
            f"Physics failed in all {falls.num_states} falls from {falls.drop_height} m. A smaller "
            "env.sim.dt or a smaller drop_height usually helps."
        )
    return states[fine].clone()


def _set(
    qpos: torch.Tensor, rows: torch.Tensor, ids: slice | torch.Tensor, values: np.ndarray
) -> None:
    """Write values to the columns ``ids`` of the rows of a mask."""
    new = qpos.clone()
    new[:, ids] = torch.from_numpy(values).float()
    qpos[rows] = new[rows]
