"""Common part of direct tasks of hands: a hand, and the object that it turns or throws."""

from __future__ import annotations

import math
from typing import Any

import torch

from envlab.envs import SceneEntityCfg, VectorEnv
from envlab.envs.entities import SceneEntity, joint_actuators, resolve_entity
from envlab.envs.masks import assign
from envlab.envs.math import quat_apply, quat_from_euler_xyz, quat_mul
from envlab.envs.mdp.events import joint_limits
from envlab.state import State


class Hand:
    """One hand of the model: its joints, fingertips and motors, with the motors' targets.

    The model has the sensors ``<link>_lin_vel`` and ``<link>_ang_vel`` of each fingertip's link.

    Attributes:
        joints: All joints.
        driven: The joints moved by actions.
        tips: The links at the ends of the fingers.
        limits: Lower and upper limits of all joints, in rad, ``(num_joints,)`` each.
        targets: Targets of the driven joints, in rad, ``(num_envs, num_driven)``.
    """

    STATE = State(per_env=("targets",))

    def __init__(
        self,
        env: VectorEnv,
        name: str,
        actuated_joint_names: str | list[str],
        fingertip_body_names: str | list[str],
    ) -> None:
        """Look up the hand.

        Args:
            env: The environment, whose simulation exists.
            name: The hand's topmost body.
            actuated_joint_names: Joints that actions move; regular expressions.
            fingertip_body_names: Links at the ends of the fingers; regular expressions.
        """
        self._env, self._name = env, name
        self.joints = self._find()
        self.driven = self._find(joint_names=actuated_joint_names)
        self.tips = self._find(body_names=fingertip_body_names)
        self.limits, self._targets_within = (
            joint_limits(env, one) for one in (self.joints, self.driven)
        )
        actuators = joint_actuators(env.sim.model, self.driven.joint_names)
        self._actuators = torch.tensor(actuators, device=env.device)
        self._velocities = self.sensors("lin_vel", "ang_vel")
        self.targets = torch.zeros(env.num_envs, len(actuators), device=env.device)

    def _find(self, **names: Any) -> SceneEntity:
        cfg = SceneEntityCfg(self._name, **names)
        return resolve_entity(cfg, self._env.sim.model, self._env.device)

    def sensors(self, *kinds: str) -> slice | torch.Tensor:
        """Return the columns of the fingertips' sensors, a link's own next to one another."""
        names = [f"{body}_{kind}" for body in self.tips.body_names for kind in kinds]
        return self._find(sensor_names=names).sensor_ids

    def drive(self, actions: torch.Tensor, moving_average: float) -> None:
        """Move the targets towards actions, whose -1 and 1 are the joints' limits."""
        low, high = self._targets_within
        targets = low + 0.5 * (actions + 1.0) * (high - low)
        self.targets.lerp_(targets, moving_average)
        self.targets.clamp_(low, high)
        self._env.sim.ctrl.index_copy_(1, self._actuators, self.targets)

    def start(self, mask: torch.Tensor, stream: str, pos_noise: float, vel_noise: float) -> None:
        """Stage the joints' initial positions, and set the targets to them.

        Args:
            mask: Environments to reset, bool ``(num_envs,)``.
            stream: The random stream to draw from.
            pos_noise: Largest offset from the default pose, as a share of the joints' range.
            vel_noise: Largest speed, in rad/s.
        """
        env, (low, high), num = self._env, self.limits, len(self.joints.joint_names)
        bounds = [(-1.0, 1.0)] * num + [(-vel_noise, vel_noise)] * num
        drawn = env.random.stream(stream).ranges(bounds, mask)
        default = env.default_qpos[:, self.joints.qpos_ids]
        # As in Isaac Lab, from the lower limit rather than from the middle of the range.
        away = (low - default) + 0.5 * (high - low) * drawn[:, :num]
        env.reset_qpos[:, self.joints.qpos_ids] = (default + pos_noise * away).clamp(low, high)
        env.reset_qvel[:, self.joints.qvel_ids] = drawn[:, num:]
        assign(self.targets, mask, env.reset_qpos[:, self.driven.qpos_ids])

    def joint_state(self, vel_scale: float) -> list[torch.Tensor]:
        """Return the joints' positions, from -1 to 1 within their limits, and their velocities."""
        data, (low, high) = self._env.sim.data, self.limits
        positions = data.qpos[:, self.joints.qpos_ids]
        return [
            (2.0 * positions - high - low) / (high - low),
            vel_scale * data.qvel[:, self.joints.qvel_ids],
        ]

    def tip_state(self) -> list[torch.Tensor]:
        """Return the fingertips' positions, orientations and velocities, tip by tip in each."""
        data = self._env.sim.data
        return [
            data.xpos[:, self.tips.body_ids].flatten(1),
            data.xquat[:, self.tips.body_ids].flatten(1),
            data.sensordata[:, self._velocities],
        ]


def object_state(env: VectorEnv, thing: SceneEntity, vel_scale: float) -> list[torch.Tensor]:
    """Return an object's position, orientation and velocities in the world's frame."""
    data = env.sim.data
    quat = data.qpos[:, thing.root_quat]
    return [
        data.qpos[:, thing.root_pos],
        quat,
        data.qvel[:, thing.root_lin_vel],
        vel_scale * quat_apply(quat, data.qvel[:, thing.root_ang_vel]),
    ]


def start_object(
    env: VectorEnv, thing: SceneEntity, mask: torch.Tensor, stream: str, reach: float
) -> None:
    """Stage an object at its default place, within ``reach`` (m) along each axis, and turned."""
    bounds = [(-reach, reach)] * 3 + [(-math.pi, math.pi)] * 2
    drawn = env.random.stream(stream).ranges(bounds, mask)
    env.reset_qpos[:, thing.root_pos] = env.default_qpos[:, thing.root_pos] + drawn[:, :3]
    env.reset_qpos[:, thing.root_quat] = _turned(drawn[:, 3], drawn[:, 4])


def draw_goals(env: VectorEnv, stream: str) -> torch.Tensor:
    """Return orientations, (w, x, y, z), ``(num_envs, 4)``."""
    x, y = env.random.stream(stream).uniform(-math.pi, math.pi, 2).unbind(1)
    return _turned(x, y)


def _turned(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return rotations by ``y`` about the y axis, then by ``x`` about the x axis, ``(..., 4)``.

    These are Isaac Lab's, which are not quite uniform over rotations.
    """
    zero = torch.zeros_like(x)
    return quat_mul(quat_from_euler_xyz(x, zero, zero), quat_from_euler_xyz(zero, y, zero))
