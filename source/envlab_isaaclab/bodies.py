"""Bodies of a :class:`~envlab_isaaclab.world.World` by PhysX's conventions.

Links and joints are breadth first, quaternions (x, y, z, w), velocities of links those of their
centres of mass, in the world frame; rows by environment, then by body.
"""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np
import torch

from envlab.envs.math import quat_apply, quat_apply_inverse
from envlab_isaaclab.world import World

_POSES = ("xpos", "xquat")
_SPEEDS = ("cvel", "subtree_com", "xipos")


def as_index(values: Sequence[int] | np.ndarray, device: torch.device) -> torch.Tensor:
    """Return numbers of things of the model as an index on a device."""
    return torch.as_tensor(np.asarray(values, dtype=np.int64), device=device)


def paths_of(world: World, names: Sequence[str]) -> list[str]:
    """Return the paths of bodies in all environments, by environment."""
    if not any("/env_0" in name for name in names):
        return list(names)
    return [
        name.replace("/env_0", f"/env_{number}", 1)
        for number in range(world.num_envs)
        for name in names
    ]


class Bodies:
    """Reads and writes some bodies of each environment.

    Attributes:
        names: Their names in the model, which are their paths in environment 0.
    """

    def __init__(self, world: World, names: Sequence[str]) -> None:
        self._world, self.names = world, list(names)
        model = world.model
        self.device = world.device
        ids = [model.body(name).id for name in names]
        self.ids = as_index(ids, self.device)
        self._trees = as_index([model.body_rootid[body] for body in ids], self.device)
        self._speed_frame = -1
        self._last_speeds: torch.Tensor | None = None
        self._accelerations: torch.Tensor | None = None

    def transforms(self) -> torch.Tensor:
        """Return positions and quaternions, ``(num_envs, k, 7)``."""
        self._world.want(_POSES)
        data = self._world.data
        pos = data.xpos[:, self.ids] + self._world.origins[:, None]
        return torch.cat((pos, data.xquat[:, self.ids].roll(-1, dims=-1)), dim=-1)

    def velocities(self) -> torch.Tensor:
        """Return velocities of the centres of mass, then angular ones, ``(num_envs, k, 6)``."""
        self._world.want(_SPEEDS)
        data = self._world.data
        motion = data.cvel[:, self.ids]
        angular = motion[..., :3]
        # Motions are those of the point at the tree's centre of mass.
        offset = data.xipos[:, self.ids] - data.subtree_com[:, self._trees]
        linear = motion[..., 3:] + torch.linalg.cross(angular, offset)
        return torch.cat((linear, angular), dim=-1)

    def accelerations(self) -> torch.Tensor:
        """Return changes of velocities in the last physics step, over its time.

        They are zero when first asked for, and follow steps from then on.
        """
        frame = self._world.frame
        if frame != self._speed_frame:
            speeds = self.velocities()
            if self._last_speeds is None or frame != self._speed_frame + 1:
                self._accelerations = torch.zeros_like(speeds)
            else:
                self._accelerations = (speeds - self._last_speeds) / self._world.dt
            self._last_speeds, self._speed_frame = speeds, frame
        assert self._accelerations is not None
        return self._accelerations.clone()

    def coms(self) -> torch.Tensor:
        """Return poses of the centres of mass in the bodies, ``(num_envs, k, 7)``."""
        pos = self._world.read_field("body_ipos")[:, self.ids]
        quat = self._world.read_field("body_iquat")[:, self.ids]
        return torch.cat((pos, quat.roll(-1, dims=-1)), dim=-1).cpu()

    def masses(self) -> torch.Tensor:
        """Return masses in kg, ``(num_envs, k)``."""
        return self._world.read_field("body_mass")[:, self.ids].cpu().clone()

    def inertias(self) -> torch.Tensor:
        """Return inertias about the centres of mass, in their frames, ``(num_envs, k, 9)``."""
        return (
            torch.diag_embed(self._world.read_field("body_inertia")[:, self.ids]).flatten(2).cpu()
        )

    def push(
        self,
        force: torch.Tensor | None,
        torque: torch.Tensor | None,
        position: torch.Tensor | None,
        is_global: bool,
    ) -> None:
        """Apply wrenches ``(num_envs * k, 3)`` in the next step, at positions or the centres.

        Isaac Lab's assets ask for it in each physics step once an event has drawn a wrench, also of
        zeros, which need no poses of bodies.
        """
        if not any(given is not None and bool(given.any()) for given in (force, torque)):
            return
        shape = (self._world.num_envs, len(self.names), 3)
        zero = torch.zeros(shape, device=self.device)
        force = zero if force is None else force.view(shape).to(self.device)
        torque = zero if torque is None else torque.view(shape).to(self.device)
        if not is_global or position is not None:
            self._world.want((*_POSES, *_SPEEDS))
        data = self._world.data
        if not is_global:
            quats = data.xquat[:, self.ids]
            force, torque = quat_apply(quats, force), quat_apply(quats, torque)
        if position is not None:
            place = position.view(shape).to(self.device)
            if is_global:
                place = place - self._world.origins[:, None]
            else:
                place = data.xpos[:, self.ids] + quat_apply(data.xquat[:, self.ids], place)
            arm = place - data.xipos[:, self.ids]
            torque = torque + torch.linalg.cross(arm, force)
        self._world.push(self.ids, force, torque)

    def geoms(self) -> list[int]:
        """Return the shapes that touch others."""
        model = self._world.model
        of = set(self.ids.tolist())
        touching = (model.geom_contype != 0) | (model.geom_conaffinity != 0)
        return [one for one in range(model.ngeom) if model.geom_bodyid[one] in of and touching[one]]


class Root:
    """Poses and velocities of one body that moves freely, is placed, or is fixed."""

    def __init__(self, world: World, name: str) -> None:
        self._world, model = world, world.model
        body = self._body = model.body(name).id
        joint = int(model.body_jntadr[body])
        is_free = joint >= 0 and model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE
        self.mocap = int(model.body_mocapid[body])
        self.is_free = bool(is_free)
        if is_free:
            self._pos = as_index(
                range(model.jnt_qposadr[joint], model.jnt_qposadr[joint] + 7), world.device
            )
            self._vel = as_index(
                range(model.jnt_dofadr[joint], model.jnt_dofadr[joint] + 6), world.device
            )
        self._id = as_index([body], world.device)

    def transforms(self) -> torch.Tensor:
        """Return positions and quaternions, ``(num_envs, 7)``."""
        if self.is_free:
            pose = self._world.qpos[:, self._pos]
        elif self.mocap >= 0:
            simulation = self._world.simulation
            pose = torch.cat(
                (simulation.mocap_pos[:, self.mocap], simulation.mocap_quat[:, self.mocap]), dim=-1
            )
        else:
            fields = (
                self._world.read_field(f"body_{name}")[:, self._body] for name in ("pos", "quat")
            )
            pose = torch.cat(tuple(fields), dim=-1)
        place = pose[:, :3] + self._world.origins
        return torch.cat((place, pose[:, 3:].roll(-1, dims=-1)), dim=-1)

    def velocities(self) -> torch.Tensor:
        """Return velocities of the centre of mass, and angular ones, ``(num_envs, 6)``."""
        if not self.is_free:
            return torch.zeros(self._world.num_envs, 6, device=self._world.device)
        motion, quat = self._world.qvel[:, self._vel], self._world.qpos[:, self._pos[3:]]
        angular = quat_apply(quat, motion[:, 3:])  # MuJoCo has it in the body's frame
        arm = quat_apply(quat, self._world.read_field("body_ipos")[:, self._body])
        return torch.cat((motion[:, :3] + torch.linalg.cross(angular, arm), angular), dim=-1)

    def place(self, poses: torch.Tensor, envs: torch.Tensor) -> None:
        """Write poses of environments, of ``(num_envs, 7)``."""
        poses = poses.to(self._world.device)[envs]
        pos = poses[:, :3] - self._world.origins[envs]
        quat = poses[:, 3:].roll(1, dims=-1)
        if self.is_free:
            self._world.move(envs, self._pos, torch.cat((pos, quat), dim=-1))
        elif self.mocap >= 0:
            simulation = self._world.simulation
            simulation.mocap_pos[envs, self.mocap] = pos
            simulation.mocap_quat[envs, self.mocap] = quat
        else:
            self._world.write_field("body_pos", envs, self._id, pos[:, None])
            self._world.write_field("body_quat", envs, self._id, quat[:, None])

    def speed(self, velocities: torch.Tensor, envs: torch.Tensor) -> None:
        """Write velocities of environments, of ``(num_envs, 6)``."""
        if not self.is_free:
            return
        rows = velocities.to(self._world.device)[envs]
        quat = self._world.qpos[envs][:, self._pos[3:]]
        angular = rows[:, 3:]
        arm = quat_apply(quat, self._world.read_field("body_ipos")[envs, self._body])
        linear = rows[:, :3] - torch.linalg.cross(angular, arm)
        motion = torch.cat((linear, quat_apply_inverse(quat, angular)), dim=-1)
        self._world.speed(envs, self._vel, motion)
