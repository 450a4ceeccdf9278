"""PhysX's view of contacts, from MuJoCo's sensors of contacts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mujoco
import torch

from envlab.errors import ConfigurationError
from envlab_isaaclab.bodies import paths_of
from envlab_isaaclab.stage import pattern_of
from envlab_isaaclab.world import World


class RigidContactView:
    """Net forces of contacts on bodies, and those by partner."""

    def __init__(self, world: World, names: Sequence[str], filters: Sequence[str]) -> None:
        self._world, self._names = world, list(names)
        self._partners = self._resolve(filters)
        self.sensor_count = self.count = world.num_envs * len(names)
        self.filter_count = len(filters)
        self.sensor_paths = paths_of(world, names)
        self._net: list[int] | None = None
        self._by_partner: list[int] | None = None
        self._columns = self._sensors([""])

    def get_net_contact_forces(self, dt: float = 1.0) -> torch.Tensor:
        """Return forces in the last physics step, in N in the world frame, ``(count, 3)``."""
        readings = self._world.forces.sensordata[:, self._columns]
        return readings.view(self.count, 3)

    def get_contact_force_matrix(self, dt: float = 1.0) -> torch.Tensor:
        """Return forces by partner, ``(count, filter_count, 3)``."""
        if self._by_partner is None:
            self._by_partner = self._sensors([one for ones in self._partners for one in ones])
        readings = self._world.forces.sensordata[:, self._by_partner]
        shape = (self._world.num_envs, len(self._names), -1, 3)
        sizes = [len(ones) for ones in self._partners]
        parts = readings.view(*shape).split(sizes, dim=2)
        return torch.stack([one.sum(dim=2) for one in parts], dim=2).flatten(0, 1)

    def get_contact_data(self, dt: float = 1.0) -> Any:
        """Refuse: single contacts are not read.

        Raises:
            ConfigurationError: Always.
        """
        raise ConfigurationError(
            "A contact sensor has track_contact_points or track_friction_forces, which are not "
            "read from MuJoCo. Set them to False."
        )

    get_friction_data = get_contact_data

    def _resolve(self, filters: Sequence[str]) -> list[list[str]]:
        found = []
        for one in filters:
            pattern, names = pattern_of(one), []
            for body in self._world.spec.bodies:
                if pattern.fullmatch(body.name):
                    names.append(body.name)
            if not names and any(pattern.match(path) for path in self._world.stage.spawned):
                names = ["world"]
            if not names:
                raise ConfigurationError(
                    f"A contact sensor's filter_prim_paths_expr has {one!r}, which is no body."
                )
            found.append(names)
        return found

    def _sensors(self, partners: Sequence[str]) -> list[int]:
        columns: list[int] = []
        unknown = mujoco.mjtObj.mjOBJ_UNKNOWN
        for name in self._names:
            for partner in partners:
                # The second of the pair is what the force acts on; the numbers select the force,
                # its sum over contacts, and one slot.
                found = self._world.add_sensor(
                    f"contact of {name} with {partner or 'anything'}",
                    type=mujoco.mjtSensor.mjSENS_CONTACT,
                    objtype=mujoco.mjtObj.mjOBJ_BODY if partner else unknown,
                    objname=partner,
                    reftype=mujoco.mjtObj.mjOBJ_BODY,
                    refname=name,
                    intprm=[2, 3, 1],
                )
                columns += range(found.start, found.stop)
        return columns
