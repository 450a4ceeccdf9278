"""``env.scene["robot"]``: a thing's data and writers under Isaac Lab's names.

Each value is computed on request, and then only once until the state changes. Poses of bodies need
``xpos`` and ``xquat`` in ``env.sim.data_fields``, their velocities also ``cvel`` and
``subtree_com``, their centres of mass ``xipos``. Velocities without a frame's name in theirs are
those of centres of mass, as in Isaac Lab 2.3; ``link`` are those of bodies' origins.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from envlab.envs.entities import (
    Names,
    SceneEntity,
    SceneEntityCfg,
    columns,
    resolve_entity,
)
from envlab.envs.entity_names import own_name, things_of
from envlab.envs.math import gravity_in_body, quat_apply, quat_apply_inverse, yaw_from_quat

Env = Any
"""A :class:`envlab.envs.VectorEnv`, which makes a :class:`Scene`, so that it is not imported."""
Get = Callable[["EntityData"], torch.Tensor]


def _once(compute: Get) -> property:
    """Make a property whose value is computed once for all who ask before the state changes."""

    @functools.wraps(compute)
    def kept(data: EntityData) -> torch.Tensor:
        value: torch.Tensor = data.env.once((compute, data.key), lambda: compute(data))
        return value

    return property(kept)


def _part(whole: str, start: int, stop: int, doc: str) -> property:
    """Make a property that is a view of the last columns of another."""
    return property(lambda data: getattr(data, whole)[..., start:stop], doc=doc)


def _view(source: str, ids: str, doc: str) -> property:
    """Make a property that has a thing's columns of a tensor of the environment."""
    get, get_ids = operator.attrgetter(source), operator.attrgetter(ids)
    return property(lambda data: columns(get(data.env), get_ids(data.parts)), doc=doc)


class EntityData:
    """State of a thing: tensors ``(num_envs, ...)`` to be read, world frame where not ``_b``."""

    def __init__(self, env: Env, parts: SceneEntity) -> None:
        self.env, self.parts = env, parts
        self.key = (parts.name, *parts.joint_names)

    # Joints ---------------------------------------------------------------------------------------

    joint_pos = _view("sim.data.qpos", "qpos_ids", "Positions of hinges and slides, in rad and m.")
    joint_vel = _view("sim.data.qvel", "qvel_ids", "Their velocities.")
    joint_acc = _view("sim.data.qacc", "qvel_ids", "Accelerations in the last physics step.")
    default_joint_pos = _view("default_qpos_rows", "qpos_ids", "Positions as episodes start.")
    applied_torque = _view("sim.data.actuator_force", "actuator_ids", "Actuators' forces, N, N m.")
    joint_pos_target = _view("sim.ctrl", "actuator_ids", "What is written to the actuators.")

    @property
    def default_joint_vel(self) -> torch.Tensor:
        """Velocities as episodes start: 0."""
        return torch.zeros_like(self.joint_vel)

    @property
    def joint_pos_limits(self) -> torch.Tensor:
        """Lower and upper limits, ``(num_joints, 2)``; 0 and 0 without any."""
        limits: torch.Tensor = self.env.nominal("jnt_range")[self.parts.joint_ids]
        return limits

    # The root -------------------------------------------------------------------------------------

    @property
    def root_link_pose_w(self) -> torch.Tensor:
        """Pose of the topmost body in the world: position in m, and (w, x, y, z)."""
        start, data = self.parts.root_qpos_start, self.env.sim.data
        if start is not None:
            return data.qpos[:, start : start + 7]
        if (row := self.parts.mocap_id) is not None:
            return torch.cat((self.env.sim.mocap_pos[:, row], self.env.sim.mocap_quat[:, row]), 1)
        root = self.parts.root_body
        return torch.cat((data.xpos[:, root], data.xquat[:, root]), dim=1)

    @_once
    def root_link_vel_w(self) -> torch.Tensor:
        """Velocity of its origin in m/s and rad/s, world frame, ``(num_envs, 6)``."""
        start, qvel = self.parts.root_qvel_start, self.env.sim.data.qvel
        if start is None:
            return qvel.new_zeros(len(qvel), 6)
        turning = quat_apply(self.root_quat_w, qvel[:, start + 3 : start + 6])
        return torch.cat((qvel[:, start : start + 3], turning), dim=1)

    @_once
    def root_com_vel_w(self) -> torch.Tensor:
        """Velocity of its centre of mass in m/s and rad/s, world frame, ``(num_envs, 6)``."""
        velocity, turning = self.root_link_vel_w.split(3, dim=1)
        arm = quat_apply(self.root_quat_w, self.body_com_pos_b_of(self.parts.root_body))
        return torch.cat((velocity + torch.linalg.cross(turning, arm), turning), dim=1)

    def body_com_pos_b_of(self, body: int) -> torch.Tensor:
        """Return a body's centre of mass in its own frame, in m, ``(num_envs, 3)``."""
        own = vars(self.env.sim.params).get("body_ipos")
        if own is not None:
            return own[:, body]
        return self.env.nominal("body_ipos")[body].expand(self.env.num_envs, 3)

    root_pose_w = root_link_pose_w
    root_vel_w = root_com_vel_w
    root_link_pos_w = root_pos_w = _part("root_link_pose_w", 0, 3, "Position of the root, in m.")
    root_link_quat_w = root_quat_w = _part("root_link_pose_w", 3, 7, "Its orientation.")
    root_link_lin_vel_w = _part("root_link_vel_w", 0, 3, "Velocity of the root's origin, in m/s.")
    root_com_lin_vel_w = root_lin_vel_w = _part(
        "root_com_vel_w", 0, 3, "Velocity of the root's centre of mass, in m/s."
    )
    root_link_ang_vel_w = root_com_ang_vel_w = root_ang_vel_w = _part(
        "root_link_vel_w", 3, 6, "Angular velocity of the root, in rad/s, world frame."
    )

    @_once
    def root_state_w(self) -> torch.Tensor:
        """Pose of the root and velocity of its centre of mass, ``(num_envs, 13)``."""
        return torch.cat((self.root_link_pose_w, self.root_com_vel_w), dim=1)

    @property
    def default_root_state(self) -> torch.Tensor:
        """The same as episodes start, without the environment's origin."""
        start, rows = self.parts.root_qpos_start, self.env.default_qpos_rows
        pose = self.root_link_pose_w if start is None else rows[:, start : start + 7]
        return torch.cat((pose, pose.new_zeros(len(pose), 6)), dim=1)

    @_once
    def root_lin_vel_b(self) -> torch.Tensor:
        """Velocity of the root's centre of mass in its own frame, in m/s."""
        return quat_apply_inverse(self.root_quat_w, self.root_lin_vel_w)

    @_once
    def root_ang_vel_b(self) -> torch.Tensor:
        """Angular velocity of the root in its own frame, in rad/s."""
        return quat_apply_inverse(self.root_quat_w, self.root_ang_vel_w)

    @_once
    def projected_gravity_b(self) -> torch.Tensor:
        """Direction of gravity in the root's frame."""
        return gravity_in_body(self.root_quat_w)

    @_once
    def heading_w(self) -> torch.Tensor:
        """Direction of the root's x axis in the world, in rad, ``(num_envs,)``."""
        return yaw_from_quat(self.root_quat_w)

    # Bodies ---------------------------------------------------------------------------------------

    body_pos_w = body_link_pos_w = _view(
        "sim.data.xpos", "body_ids", "Positions of bodies, in m, ``(num_envs, num_bodies, 3)``."
    )
    body_quat_w = body_link_quat_w = _view("sim.data.xquat", "body_ids", "Their orientations.")
    body_com_pos_w = _view("sim.data.xipos", "body_ids", "Their centres of mass, in m.")
    body_vel = _view("sim.data.cvel", "body_ids", "MuJoCo's ``cvel`` of bodies.")
    body_ang_vel_w = body_link_ang_vel_w = body_com_ang_vel_w = _part(
        "body_vel", 0, 3, "Angular velocities of bodies, in rad/s."
    )

    @_once
    def body_lin_vel_w(self) -> torch.Tensor:
        """Velocities of bodies' centres of mass, in m/s, world frame."""
        return self._velocity_at(self.body_com_pos_w)

    @_once
    def body_link_lin_vel_w(self) -> torch.Tensor:
        """Velocities of bodies' origins, in m/s, world frame."""
        return self._velocity_at(self.body_pos_w)

    @_once
    def body_lin_vel_b(self) -> torch.Tensor:
        """Velocities of bodies' centres of mass in their own frames, in m/s."""
        return quat_apply_inverse(self.body_quat_w, self.body_lin_vel_w)

    @_once
    def body_ang_vel_b(self) -> torch.Tensor:
        """Angular velocities of bodies in their own frames, in rad/s."""
        return quat_apply_inverse(self.body_quat_w, self.body_ang_vel_w)

    body_com_lin_vel_w = body_lin_vel_w

    def _velocity_at(self, points: torch.Tensor) -> torch.Tensor:
        """Return velocities of points of the bodies; MuJoCo's are those at their tree's centre."""
        data, ids = self.env.sim.data, self.parts.body_ids
        roots = torch.as_tensor(self.env.sim.model.body_rootid, device=points.device).long()[ids]
        turning, velocity = self.body_vel.split(3, dim=-1)
        return velocity + torch.linalg.cross(turning, points - data.subtree_com[:, roots])


class Entity:
    """A thing of the scene: its names, :attr:`data`, and writers.

    Writers take values of all environments and a mask, bool ``(num_envs,)``, of those to change. In
    a reset's terms they stage what the reset writes; elsewhere they reset the simulation of these
    environments to a state that differs only in what is written, with controls and wrenches 0.
    """

    def __init__(self, env: Env, name: str) -> None:
        self._env = env
        self.parts = resolve_entity(SceneEntityCfg(name), env.sim.model, env.device)
        self.data = EntityData(env, self.parts)
        self.joint_names = [own_name(one) for one in self.parts.joint_names]
        """Hinges and slides, under the names in its file."""
        self.body_names = [own_name(one) for one in self.parts.body_names]
        """Bodies, under the names in its file."""
        self.is_fixed = self.parts.root_qpos_start is None and self.parts.mocap_id is None
        """Whether its root is where the model has it."""

    def find(self, **names: Names) -> SceneEntity:
        """Return the parts with names that match, such as ``joint_names="elbow"``."""
        cfg = SceneEntityCfg(self.parts.name, **names)
        return resolve_entity(cfg, self._env.sim.model, self._env.device)

    def write_root_pose_to_sim(self, pose: torch.Tensor, mask: torch.Tensor) -> None:
        """Write position in m and orientation of the root, ``(num_envs, 7)``, world frame.

        That of a mocap body counts from the next step, or the reset at hand, on.
        """
        if (row := self.parts.mocap_id) is not None:
            pos, quat = self._env.sim.mocap_pos[:, row], self._env.sim.mocap_quat[:, row]
            pos.copy_(torch.where(mask.unsqueeze(1), pose[:, :3], pos))
            quat.copy_(torch.where(mask.unsqueeze(1), pose[:, 3:], quat))
            self._env.sim.num_changes += 1
            return
        start = self.parts.root_pos.start
        self._write({"qpos": (slice(start, start + 7), pose)}, mask)

    def write_root_velocity_to_sim(self, velocity: torch.Tensor, mask: torch.Tensor) -> None:
        """Write velocities of the root's centre of mass, m/s and rad/s, world frame."""
        start = self.parts.root_lin_vel.start
        moving, turning = velocity.split(3, dim=1)
        first = self.parts.root_qpos_start or 0
        qpos = self._env.reset_qpos if self._env.is_staging else self._env.sim.data.qpos
        quat = qpos[:, first + 3 : first + 7]
        arm = quat_apply(quat, self.data.body_com_pos_b_of(self.parts.root_body))
        moving = moving - torch.linalg.cross(turning, arm)
        written = torch.cat((moving, quat_apply_inverse(quat, turning)), dim=1)
        self._write({"qvel": (slice(start, start + 6), written)}, mask)

    def write_root_state_to_sim(self, state: torch.Tensor, mask: torch.Tensor) -> None:
        """Write both, ``(num_envs, 13)``."""
        self.write_root_pose_to_sim(state[:, :7], mask)
        self.write_root_velocity_to_sim(state[:, 7:], mask)

    def write_joint_state_to_sim(
        self,
        position: torch.Tensor,
        velocity: torch.Tensor,
        mask: torch.Tensor,
        joint_names: Names = None,
    ) -> None:
        """Write positions and velocities of joints, in rad and m, ``(num_envs, num_joints)``."""
        parts = self.parts if joint_names is None else self.find(joint_names=joint_names)
        written = {"qpos": (parts.qpos_ids, position), "qvel": (parts.qvel_ids, velocity)}
        self._write(written, mask)

    def set_joint_position_target(self, target: torch.Tensor, joint_names: Names = None) -> None:
        """Write controls of the joints' actuators, ``(num_envs, num_actuators)``."""
        parts = self.parts if joint_names is None else self.find(joint_names=joint_names)
        self._env.sim.ctrl[:, parts.actuator_ids] = target

    def set_external_force_and_torque(
        self,
        forces: torch.Tensor,
        torques: torch.Tensor,
        mask: torch.Tensor,
        body_names: Names = None,
    ) -> None:
        """Apply forces in N and torques in N m to bodies, world frame, until the next reset.

        They are ``(num_envs, num_bodies, 3)`` and act at centres of mass.
        """
        parts = self.parts if body_names is None else self.find(body_names=body_names)
        bodies = [self._env.sim.model.body(name).id for name in parts.body_names]
        self._env.staged_wrenches.add(mask, bodies, forces, torques)
        if not self._env.is_staging:
            self._env.staged_wrenches.apply()

    def get_state(self) -> dict[str, torch.Tensor]:
        """Return ``root_pose`` and ``root_velocity``, and those of joints, if it has any.

        ``root_velocity`` is that of the centre of mass; ``joint_position`` and ``joint_velocity``
        are in rad and m, rad/s and m/s. A root fixed to the world is where the model has it.
        """
        data, root = self.data, self.parts.root_body
        if self.is_fixed:
            pos, quat = (self._env.nominal(name)[root] for name in ("body_pos", "body_quat"))
            pose = torch.cat((pos, quat)).expand(self._env.num_envs, 7)
            velocity = pose.new_zeros(len(pose), 6)
        else:
            pose, velocity = data.root_link_pose_w, data.root_com_vel_w
        state = {"root_pose": pose, "root_velocity": velocity}
        if self.joint_names:
            state |= {"joint_position": data.joint_pos, "joint_velocity": data.joint_vel}
        return {name: values.clone() for name, values in state.items()}

    def _write(
        self,
        values: Mapping[str, tuple[slice | torch.Tensor, torch.Tensor]],
        mask: torch.Tensor,
    ) -> None:
        env = self._env
        staged = {"qpos": env.reset_qpos, "qvel": env.reset_qvel}
        if not env.is_staging:
            staged = {name: env.sim.data[name].clone() for name in staged}
        for name, (ids, new) in values.items():
            kept = staged[name][:, ids]
            staged[name][:, ids] = torch.where(mask.unsqueeze(1), new, kept)
        if not env.is_staging:
            env.sim.reset(mask, staged["qpos"], staged["qvel"])


class Scene(Mapping[str, Any]):
    """The things of an environment by name, and its sensors."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._entities: dict[str, Entity] = {}

    @property
    def env_origins(self) -> torch.Tensor:
        """Each environment's origin in the world, in m, ``(num_envs, 3)``."""
        return self._env.env_origins

    def __getitem__(self, name: str) -> Any:
        sensors = getattr(self._env, "sensor_manager", None)
        if sensors is not None and name in sensors.active_terms:
            return sensors.get_term(name)
        return self._entity(name)

    def get_state(self, is_relative: bool = False) -> dict[str, dict[str, Any]]:
        """Return the state of all things, as Isaac Lab's: ``articulation``, then ``rigid_object``.

        Each holds the things by name, see :meth:`Entity.get_state`. Those without joints are rigid
        objects, unless they never move, and then they are in neither.

        Args:
            is_relative: Whether poses are from the environments' origins.
        """
        state: dict[str, dict[str, Any]] = {"articulation": {}, "rigid_object": {}}
        for name in self:
            entity = self._entity(name)
            if entity.is_fixed and not entity.joint_names:
                continue
            kind = "articulation" if entity.joint_names else "rigid_object"
            state[kind][name] = entity.get_state()
            if is_relative and not entity.is_fixed:
                state[kind][name]["root_pose"][:, :3] -= self.env_origins
        return state

    def reset_to(
        self, state: Mapping[str, Mapping[str, Any]], mask: torch.Tensor, is_relative: bool = False
    ) -> None:
        """Put the environments of ``mask``, bool ``(num_envs,)``, into a state.

        Args:
            state: As of :meth:`get_state`; things that it does not name stay as they are.
            mask: The environments.
            is_relative: Whether poses are from the environments' origins.
        """
        for kind in state.values():
            for name, values in kind.items():
                entity = self._entity(name)
                if not entity.is_fixed:
                    pose = values["root_pose"].clone()
                    if is_relative:
                        pose[:, :3] += self.env_origins
                    entity.write_root_pose_to_sim(pose, mask)
                    if entity.parts.mocap_id is None:
                        entity.write_root_velocity_to_sim(values["root_velocity"], mask)
                if entity.joint_names:
                    joints = values["joint_position"], values["joint_velocity"]
                    entity.write_joint_state_to_sim(*joints, mask)

    def _entity(self, name: str) -> Entity:
        if name not in self._entities:
            self._entities[name] = Entity(self._env, name)
        return self._entities[name]

    def __iter__(self) -> Iterator[str]:
        return iter(things_of(self._env.sim.model))

    def __len__(self) -> int:
        return len(list(iter(self)))
