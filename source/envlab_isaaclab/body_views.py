"""PhysX's views of bodies: their properties, which robots have too, and bodies on their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from envlab_isaaclab.bodies import Bodies, Root, as_index, paths_of
from envlab_isaaclab.things import combined
from envlab_isaaclab.world import World


class BodyView:
    """Common part of views of robots and bodies: properties of bodies and their shapes."""

    _backend = "mujoco"  # Isaac Lab only asks whether there is one

    def __init__(self, world: World, names: Sequence[str], material_of: str) -> None:
        self._world, self._bodies = world, Bodies(world, names)
        self._shapes = self._bodies.geoms()
        self._shape_ids = as_index(self._shapes, world.device)
        self._material = world.materials.get(material_of, world.ground)
        material = (self._material.static, self._material.dynamic, self._material.restitution)
        self._materials = torch.tensor(material).repeat(world.num_envs, len(self._shapes), 1)
        self._offsets = torch.zeros(world.num_envs, len(self._shapes))

    @property
    def max_shapes(self) -> int:
        """Number of shapes that touch others."""
        return len(self._shapes)

    def check(self) -> bool:
        """Return True: the simulation exists."""
        return True

    def get_masses(self) -> torch.Tensor:
        """Return masses in kg."""
        return self._bodies.masses()

    def set_masses(self, masses: torch.Tensor, indices: torch.Tensor) -> None:
        """Change masses."""
        self._write("body_mass", self._bodies.ids, masses, indices)

    def get_inertias(self) -> torch.Tensor:
        """Return inertias, row by row."""
        return self._bodies.inertias()

    def set_inertias(self, inertias: torch.Tensor, indices: torch.Tensor) -> None:
        """Change moments of inertia; products, which MuJoCo's frame does not have, are ignored."""
        diagonal = inertias.view(self._world.num_envs, -1, 9)[..., [0, 4, 8]]
        self._write("body_inertia", self._bodies.ids, diagonal, indices)

    def get_coms(self) -> torch.Tensor:
        """Return poses of the centres of mass in the bodies."""
        return self._bodies.coms()

    def set_coms(self, coms: torch.Tensor, indices: torch.Tensor) -> None:
        """Move centres of mass."""
        coms = coms.view(self._world.num_envs, -1, 7)
        self._write("body_ipos", self._bodies.ids, coms[..., :3], indices)
        self._write("body_iquat", self._bodies.ids, coms[..., 3:].roll(1, dims=-1), indices)

    def get_material_properties(self) -> torch.Tensor:
        """Return friction, static and dynamic, and restitution, ``(num_envs, num_shapes, 3)``."""
        return self._materials.clone()

    def set_material_properties(self, materials: torch.Tensor, indices: torch.Tensor) -> None:
        """Change friction; MuJoCo has one coefficient, which is the static one."""
        rows = indices.cpu().long()
        self._materials[rows] = materials.cpu()[rows]
        static = combined(self._materials[..., 0], self._material.combine, self._world.ground)
        envs = rows.to(self._world.device)
        columns = (self._shape_ids, 0)
        self._world.write_field("geom_friction", envs, columns, static[rows])

    def get_rest_offsets(self) -> torch.Tensor:
        """Return zeros: MuJoCo has no rest offset."""
        return self._offsets.clone()

    get_contact_offsets = get_rest_offsets

    def set_rest_offsets(self, offsets: torch.Tensor, indices: torch.Tensor) -> None:
        """Do nothing: MuJoCo has no such offset."""

    set_contact_offsets = set_rest_offsets

    def apply_forces_and_torques_at_position(
        self,
        force_data: torch.Tensor | None,
        torque_data: torch.Tensor | None,
        position_data: torch.Tensor | None,
        indices: torch.Tensor,
        is_global: bool,
    ) -> None:
        """Apply wrenches in the next step."""
        self._bodies.push(force_data, torque_data, position_data, is_global)

    def _write(self, name: str, columns: Any, values: torch.Tensor, indices: torch.Tensor) -> None:
        envs = indices.to(self._world.device).long()
        values = values.view(self._world.num_envs, -1, *values.shape[2:])
        self._world.write_field(name, envs, columns, values.to(self._world.device)[envs])


class RigidBodyView(BodyView):
    """Bodies in all environments, by environment and then by body."""

    def __init__(self, world: World, names: Sequence[str]) -> None:
        super().__init__(world, names, names[0])
        self._names = list(names)
        self.count = world.num_envs * len(names)
        self.prim_paths = paths_of(world, names)
        self._roots = [Root(world, name) for name in names]
        self._are_free = all(one.is_free or one.mocap >= 0 for one in self._roots)

    def get_transforms(self) -> torch.Tensor:
        """Return poses, ``(count, 7)``."""
        if self._are_free:
            return torch.stack([one.transforms() for one in self._roots], dim=1).flatten(0, 1)
        return self._bodies.transforms().flatten(0, 1)

    def set_transforms(self, poses: torch.Tensor, indices: torch.Tensor) -> None:
        """Move bodies."""
        for body, envs in self._split(indices):
            self._roots[body].place(poses[body :: len(self._roots)], envs)

    def get_velocities(self) -> torch.Tensor:
        """Return velocities of the centres of mass, ``(count, 6)``."""
        if self._are_free:
            return torch.stack([one.velocities() for one in self._roots], dim=1).flatten(0, 1)
        return self._bodies.velocities().flatten(0, 1)

    def set_velocities(self, velocities: torch.Tensor, indices: torch.Tensor) -> None:
        """Change velocities."""
        for body, envs in self._split(indices):
            self._roots[body].speed(velocities[body :: len(self._roots)], envs)

    def get_accelerations(self) -> torch.Tensor:
        """Return accelerations of the centres of mass, ``(count, 6)``."""
        return self._bodies.accelerations().flatten(0, 1)

    def get_masses(self) -> torch.Tensor:
        return super().get_masses().flatten()[:, None]

    def get_inertias(self) -> torch.Tensor:
        return super().get_inertias().flatten(0, 1)

    def get_coms(self) -> torch.Tensor:
        return super().get_coms().flatten(0, 1)

    def _split(self, indices: torch.Tensor) -> list[tuple[int, torch.Tensor]]:
        """Return indices of rows as environments of each body."""
        indices, count = indices.to(self._world.device).long(), len(self._roots)
        return [(body, indices[indices % count == body] // count) for body in range(count)]

    def _write(self, name: str, columns: Any, values: torch.Tensor, indices: torch.Tensor) -> None:
        count = len(self._roots)
        values = values.reshape(self._world.num_envs, count, *values.shape[1:][-1:])
        if name == "body_mass":
            values = values.reshape(self._world.num_envs, count)
        envs = torch.unique(indices.to(self._world.device).long() // count)
        super()._write(name, columns, values, envs)
