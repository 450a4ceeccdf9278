"""Event terms that push bodies: by a change of velocity, or by forces, lasting or short."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from envlab.envs.entities import SceneEntity, SceneEntityCfg
from envlab.envs.managers.function_term import FunctionTermCfg, ManagerTermBase
from envlab.envs.math import quat_apply
from envlab.envs.mdp.events import six_ranges
from envlab.envs.mdp.root import in_root_frame, origin_vel_w
from envlab.envs.random import RandomStream
from envlab.sim.host import on_host
from envlab.state import State

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv
    from envlab.envs.vector_env import VectorEnv

_ROBOT: Any = SceneEntityCfg("robot")


def push_by_setting_velocity(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    velocity_range: dict[str, tuple[float, float]],
    asset_cfg: SceneEntity = _ROBOT,
) -> None:
    """Add uniform draws to the velocity of the root's centre of mass; for interval events.

    Args:
        env: The environment.
        mask: Environments to push, bool ``(num_envs,)``.
        stream: The term's random stream.
        velocity_range: Bounds of ``x``, ``y``, ``z`` in m/s and ``roll``, ``pitch``, ``yaw`` in
            rad/s, in the world frame; the others are not changed.
        asset_cfg: The entity.

    Raises:
        ConfigurationError: For any other name.
    """
    drawn = stream.ranges(six_ranges(velocity_range, "velocity_range"), mask)
    qvel = env.sim.data.qvel.clone()
    moving, turning = drawn.split(3, dim=1)
    # The relation of the two velocities is linear, so it also holds for changes of them.
    qvel[:, asset_cfg.root_lin_vel].add_(origin_vel_w(env, moving, turning, asset_cfg))
    qvel[:, asset_cfg.root_ang_vel].add_(in_root_frame(env, turning, asset_cfg))
    env.sim.set_velocity(mask, qvel)


def apply_external_force_torque(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    force_range: tuple[float, float],
    torque_range: tuple[float, float],
    asset_cfg: SceneEntity = _ROBOT,
) -> None:
    """Apply uniform forces and torques to bodies until the next call or reset; for reset events.

    Args:
        env: The environment.
        mask: Environments to change, bool ``(num_envs,)``.
        stream: The term's random stream.
        force_range: Bounds of each component in the world frame, in N.
        torque_range: Bounds of each component in the world frame, in N m.
        asset_cfg: The bodies; the force acts at their centres of mass.
    """
    if not any((*force_range, *torque_range)):
        return  # in tasks that keep the term only for overrides
    bodies = [env.sim.model.body(name).id for name in asset_cfg.body_names]
    drawn = stream.ranges([force_range] * 3 * len(bodies) + [torque_range] * 3 * len(bodies), mask)
    force, torque = drawn.unflatten(1, (2, len(bodies), 3)).unbind(1)
    env.staged_wrenches.add(mask, bodies, force, torque)


_NOT_DRAWN = -1e9
"""A time that has yet to be drawn."""


class apply_body_impulse(ManagerTermBase):
    """Push bodies for a while, again and again; for the mode ``step``, as mjlab 1.6.0's.

    Each environment waits for a time of ``cooldown_s``, is pushed by one wrench for a time of
    ``duration_s``, and waits again; an episode begins with waiting. Times count to the nearest
    step.
    """

    STATE = State(per_env=("time_left", "is_active"))

    @staticmethod
    def data_fields(params: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the data fields that it reads."""
        return () if params.get("body_point_offset") is None else ("xquat",)

    def __init__(self, cfg: FunctionTermCfg, env: VectorEnv) -> None:
        super().__init__(cfg, env)
        self.time_left = torch.full((env.num_envs,), _NOT_DRAWN, device=env.device)
        """Seconds until the push ends, or the next begins."""
        self.is_active = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
        """Which environments are pushed now."""
        offset = cfg.params.get("body_point_offset")
        self._offset = None if offset is None else torch.tensor(offset, device=env.device)

    def reset(self, mask: torch.Tensor) -> None:
        self.time_left.masked_fill_(mask, _NOT_DRAWN)
        self.is_active.masked_fill_(mask, False)

    def __call__(
        self,
        env: VectorEnv,
        mask: torch.Tensor,
        stream: RandomStream,
        force_range: tuple[float, float],
        torque_range: tuple[float, float],
        duration_s: tuple[float, float],
        cooldown_s: tuple[float, float],
        asset_cfg: SceneEntity = _ROBOT,
        body_point_offset: tuple[float, float, float] | None = None,
    ) -> None:
        """Begin and end pushes.

        Args:
            env: The environment.
            mask: Environments, bool ``(num_envs,)``.
            stream: The term's random stream.
            force_range: Bounds of each component in the world frame, in N.
            torque_range: Bounds of each component in the world frame, in N m.
            duration_s: Bounds of a push's time, in s.
            cooldown_s: Bounds of the time between pushes, in s.
            asset_cfg: The bodies; the force acts at their centres of mass.
            body_point_offset: Instead, that far from them, in m, in the bodies' frames.
        """
        self.time_left -= env.step_dt
        due = self.time_left < 0.5 * env.step_dt
        if on_host(env.device) and not due.any():
            return
        bodies = [env.sim.model.body(name).id for name in asset_cfg.body_names]
        num = 3 * len(bodies)
        drawn = stream.ranges(
            [duration_s, cooldown_s, *[force_range] * num, *[torque_range] * num], due
        )
        is_new = self.time_left < 0.5 * _NOT_DRAWN  # an episode that has just begun
        begins = due & ~self.is_active & ~is_new
        ends = due & self.is_active
        torch.where(begins, drawn[:, 0], self.time_left, out=self.time_left)
        torch.where(due & ~begins, drawn[:, 1], self.time_left, out=self.time_left)
        self.is_active ^= begins | ends
        force, torque = drawn[:, 2:].unflatten(1, (2, len(bodies), 3)).unbind(1)
        if self._offset is not None:
            quat = env.sim.data.xquat[:, env.sim.body_index(bodies)]
            arm = quat_apply(quat, self._offset.expand_as(force))
            torque = torque + torch.linalg.cross(arm, force)
        force, torque = (values * begins[:, None, None] for values in (force, torque))
        env.staged_wrenches.add(begins | ends, bodies, force, torque)
