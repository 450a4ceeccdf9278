"""Tensors that need more than a copy: force sensors, Jacobians and mass matrices, all batched.

MuJoCo has a floating body's angular velocity in the body's frame, Isaac Gym in the world's; so the
three columns of a floating root's rotation are turned.
"""

from __future__ import annotations

import mujoco
import numpy as np
import torch

from envlab.sim.simulation import Fields
from envlab_isaacgym.rotations import rotate, rotate_inverse
from envlab_isaacgym.scene import Scene
from envlab_isaacgym.world import Env


class ForceSensors:
    """Net forces (N) and torques (N m) on bodies, at the sensors, gravity included.

    A body at rest has none, as Isaac Gym's documentation says. They are mass times acceleration
    in the last physics step.

    Attributes:
        values: ``(num_envs * num_sensors, 6)``, force first, in the sensors' frames.
    """

    FIELDS = ("sensordata", "xipos", "ximat", "xpos", "xquat", "cvel")

    def __init__(self, num_envs: int, env: Env, device: torch.device) -> None:
        self._sensors = [
            (number, sensor)
            for number, actor in enumerate(env.actors)
            for sensor in actor.asset.force_sensors
        ]
        self._env, self._num_envs = env, num_envs
        self.values = torch.zeros(num_envs * len(self._sensors), 6, device=device)

    def index(self, scene: Scene, device: torch.device) -> None:
        """Note where the sensors lie in a model."""
        if not self._sensors:  # tasks may still acquire the tensor
            return
        model, names = scene.model, []
        for number, sensor in self._sensors:
            names.append(f"{number}/{self._env.actors[number].asset.body_names[sensor.body]}")
        bodies = [model.body(name).id for name in names]
        addresses = [
            [model.sensor(f"{kind}{name}").adr[0] + axis for axis in range(3)]
            for name in names
            for kind in ("LIN", "ANG")
        ]
        self._bodies = torch.tensor(bodies, device=device)
        self._columns = torch.tensor(addresses, device=device).reshape(-1)
        mass, inertia = (
            torch.as_tensor(scene.fields.get(name, getattr(model, name)[None]), device=device)
            for name in ("body_mass", "body_inertia")
        )
        self._mass = mass[:, bodies, None].float()
        self._inertia = inertia[:, bodies].float()
        self._gravity = torch.tensor(model.opt.gravity, dtype=torch.float32, device=device)
        poses = [sensor.pose for _, sensor in self._sensors]
        self._places = torch.tensor([[p.p.x, p.p.y, p.p.z] for p in poses], device=device)
        self._turns = torch.tensor([[p.r.x, p.r.y, p.r.z, p.r.w] for p in poses], device=device)
        self._in_world = torch.tensor(
            [[sensor.properties.use_world_frame] for _, sensor in self._sensors], device=device
        )

    def refresh(self, data: Fields) -> None:
        """Rewrite :attr:`values`."""
        if not self._sensors:
            return
        shape = (self._num_envs, len(self._sensors), 2, 3)
        acceleration = data.sensordata[:, self._columns].view(shape)
        # MuJoCo's acceleration is that of a body that falls freely, taken as rest.
        force = self._mass * (acceleration[:, :, 0] + self._gravity)
        frame = data.ximat[:, self._bodies].view(*shape[:2], 3, 3)
        inertia = frame * self._inertia[..., None, :] @ frame.transpose(-1, -2)
        spin = data.cvel[:, self._bodies, :3]
        momentum = (inertia @ spin[..., None])[..., 0]
        torque = (inertia @ acceleration[:, :, 1, :, None])[..., 0]
        torque = torque + torch.linalg.cross(spin, momentum)
        quats = data.xquat[:, self._bodies].roll(-1, dims=-1)
        places = data.xpos[:, self._bodies] + rotate(quats, self._places.expand(*shape[:2], 3))
        centres = data.xipos[:, self._bodies]
        torque = torque + torch.linalg.cross(centres - places, force)
        turns = self._turns.expand(*shape[:2], 4)
        out = self.values.view(self._num_envs, -1, 6)
        for vector, part in ((force, out[..., :3]), (torque, out[..., 3:])):
            local = rotate_inverse(turns, rotate_inverse(quats, vector))
            part.copy_(torch.where(self._in_world, vector, local))


class _OfActor:
    """Common part of Jacobians and mass matrices: the columns of one actor."""

    def __init__(self, num_envs: int, env: Env, actor: int) -> None:
        self._num_envs, self._actor = num_envs, actor
        asset = env.actors[actor].asset
        self._is_floating = asset.is_floating
        self._num_columns = len(asset.dof_names) + 6 * asset.is_floating
        self._first, self._num_bodies = env.first_body(actor), len(asset.body_names)

    def index(self, scene: Scene, device: torch.device) -> None:
        """Note where the actor lies in a model."""
        model = scene.model
        dofs = [
            int(model.jnt_dofadr[joint])
            for joint, owner in zip(scene.dof_joints, scene.dof_actors, strict=True)
            if owner == self._actor
        ]
        if self._is_floating:
            first = int(model.jnt_dofadr[scene.free_joints[self._actor]])
            dofs = [*range(first, first + 6), *dofs]
        self._dofs = torch.tensor(dofs, device=device)
        self._root = scene.roots[self._actor]

    def _turned(self, rows: torch.Tensor, data: Fields) -> torch.Tensor:
        """Return rows ``(num_envs, m, num_columns)`` by the root's angular velocity in the world.

        ``v = J w_body = J R^T w_world``, so each row of the three columns is rotated by ``R``.
        """
        if not self._is_floating:
            return rows
        quats = data.xquat[:, None, self._root].roll(-1, dims=-1)
        turned = rotate(quats.expand(*rows.shape[:2], 4), rows[..., 3:6])
        return torch.cat((rows[..., :3], turned, rows[..., 6:]), dim=-1)


class Jacobian(_OfActor):
    """Linear (rows 0 to 2) and angular velocities of an actor's bodies by those of its joints.

    Attributes:
        values: ``(num_envs, num_bodies, 6, num_columns)``; a fixed root, which does not move, is
            omitted, and a floating root has six columns in front.
    """

    FIELDS = ("xpos", "xquat", "cdof", "subtree_com")

    def __init__(self, num_envs: int, env: Env, actor: int, device: torch.device) -> None:
        super().__init__(num_envs, env, actor)
        self._skipped = 0 if self._is_floating else 1
        count = self._num_bodies - self._skipped
        self.values = torch.zeros(num_envs, count, 6, self._num_columns, device=device)

    def index(self, scene: Scene, device: torch.device) -> None:
        super().index(scene, device)
        model = scene.model
        bodies = scene.bodies[self._first + self._skipped : self._first + self._num_bodies]
        self._bodies = torch.tensor(bodies, device=device)
        self._tree = int(model.body_rootid[bodies[0]]) if bodies else 0
        moves = np.array([[_is_above(model, dof, body) for dof in self._dofs] for body in bodies])
        self._moves = torch.from_numpy(moves).to(device)[:, None]

    def refresh(self, data: Fields) -> None:
        """Rewrite :attr:`values`."""
        motion = data.cdof[:, self._dofs]
        angular, linear = motion[..., :3], motion[..., 3:]
        # Motions are those of the point at the tree's centre of mass.
        offset = data.xpos[:, self._bodies] - data.subtree_com[:, self._tree, None]
        angular, linear = (
            values[:, None].expand(-1, offset.shape[1], -1, -1) for values in (angular, linear)
        )
        moved = linear + torch.linalg.cross(angular, offset[:, :, None].expand_as(angular))
        rows = torch.cat((moved, angular), dim=-1).transpose(-1, -2)
        rows = torch.where(self._moves, rows, 0.0)
        self.values.copy_(self._turned(rows.flatten(1, 2), data).view_as(self.values))


class MassMatrix(_OfActor):
    """The inertia of an actor's joints.

    Attributes:
        values: ``(num_envs, num_columns, num_columns)``; six columns for a floating root come
            first.
    """

    FIELDS = ("M", "xquat")

    def __init__(self, num_envs: int, env: Env, actor: int, device: torch.device) -> None:
        super().__init__(num_envs, env, actor)
        size = self._num_columns
        self.values = torch.zeros(num_envs, size, size, device=device)

    def index(self, scene: Scene, device: torch.device) -> None:
        super().index(scene, device)
        model = scene.model
        rows = np.repeat(np.arange(model.nv), model.M_rownnz)
        columns = np.concatenate(
            [model.M_colind[a : a + n] for a, n in zip(model.M_rowadr, model.M_rownnz, strict=True)]
        )
        places = np.concatenate(
            [np.arange(a, a + n) for a, n in zip(model.M_rowadr, model.M_rownnz, strict=True)]
        )
        # The matrix has its lower triangle; a zero follows its last number.
        address = np.full((model.nv, model.nv), -1)
        address[rows, columns] = address[columns, rows] = places
        own = self._dofs.cpu().numpy()
        chosen = address[np.ix_(own, own)]
        self._is_there = torch.from_numpy(chosen >= 0).to(device)
        self._places = torch.from_numpy(np.maximum(chosen, 0)).to(device)

    def refresh(self, data: Fields) -> None:
        """Rewrite :attr:`values`."""
        matrix = torch.where(self._is_there, data.M[:, self._places], 0.0)
        matrix = self._turned(matrix, data).transpose(-1, -2)
        self.values.copy_(self._turned(matrix, data))


def _is_above(model: mujoco.MjModel, dof: int, body: int) -> bool:
    """Return whether a degree of freedom moves a body."""
    owner = int(model.dof_bodyid[int(dof)])
    while body > 0:
        if body == owner:
            return True
        body = int(model.body_parentid[body])
    return False
