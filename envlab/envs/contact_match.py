"""Which contacts a sensor measures, and MuJoCo's sensors for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import mujoco
import torch

from envlab.envs.entities import as_index
from envlab.envs.entity_names import matching
from envlab.envs.spec_sensors import add_sensor, columns_of, matches, names_of
from envlab.errors import ConfigurationError, did_you_mean

SIZES = {"found": 1, "force": 3, "torque": 3, "dist": 1, "pos": 3, "normal": 3, "tangent": 3}
"""What can be known of a contact, in MuJoCo's order, with the numbers of each."""
REDUCTIONS = ("none", "mindist", "maxforce", "netforce")
"""Ways to choose among the contacts of a pair, in MuJoCo's order."""
_MODES = {
    "geom": mujoco.mjtObj.mjOBJ_GEOM,
    "body": mujoco.mjtObj.mjOBJ_BODY,
    "subtree": mujoco.mjtObj.mjOBJ_XBODY,
}


@dataclass(kw_only=True)
class ContactMatch:
    """Geoms, bodies, or bodies with all below them, by name; mjlab's words."""

    mode: Literal["geom", "body", "subtree"] = "body"
    """The kind of part to match. The body ``world`` holds the ground and all that is fixed."""
    pattern: str | list[str] = ".*"
    """Regular expressions that match in full."""
    entity: str = ""
    """A thing of a composed scene, or a body, among which and below which to look; empty: in the
    whole model."""
    exclude: list[str] = field(default_factory=list)
    """Regular expressions of those to leave out."""

    def names(self, spec: mujoco.MjSpec, side: str) -> list[str]:
        """Return the names in the model; ``side`` is ``primary`` or ``secondary``.

        Raises:
            ConfigurationError: If there are none.
        """
        kind = "geom" if self.mode == "geom" else "body"
        what = f"A contact sensor's {side} names the {kind}"
        found = matches(what, self.pattern, names_of(spec, kind, self.entity))
        kept = [name for name in found if not any(matching(one, [name]) for one in self.exclude)]
        if not kept:
            raise ConfigurationError(f"A contact sensor's {side} excludes all of {found}.")
        return kept


@dataclass(frozen=True, kw_only=True)
class ContactQuery:
    """MuJoCo's contact sensors of a configuration: one for each pair of primary and partner."""

    primary: ContactMatch
    secondary: ContactMatch | None
    fields: tuple[str, ...]
    reduce: str
    num_slots: int

    @property
    def data(self) -> dict[str, int]:
        """The sizes of what is read of each contact, by field.

        The force is always read, and single contacts' axes, in which it is given.
        """
        needed = {*self.fields, "force"}
        if self.reduce != "netforce":
            needed |= {"normal", "tangent"}
        return {name: size for name, size in SIZES.items() if name in needed}

    def check(self) -> None:
        """Refuse settings that are unknown or have no effect.

        Raises:
            ConfigurationError: With the first of them.
        """
        for name in self.fields:
            if name not in SIZES:
                raise ConfigurationError(
                    f"A contact sensor's fields name {name!r}, but must be of {', '.join(SIZES)}."
                    f"{did_you_mean(name, SIZES)}"
                )
        of_one = {"dist", "normal", "tangent"} & set(self.fields)
        if self.reduce == "netforce" and (of_one or self.num_slots > 1):
            asked = f"num_slots={self.num_slots}" if self.num_slots > 1 else f"{min(of_one)!r}"
            raise ConfigurationError(
                f"A contact sensor asks for {asked}, which a sum over contacts does not have. Set "
                "reduce='maxforce', 'mindist' or 'none'."
            )

    def add_to(self, spec: mujoco.MjSpec) -> None:
        """Add the sensors to a model."""
        self.check()
        bits = sum(1 << index for index, name in enumerate(SIZES) if name in self.data)
        unknown = mujoco.mjtObj.mjOBJ_UNKNOWN
        for primary in self.primary.names(spec, "primary"):
            for partner in self._partners(spec):
                # The second of the pair is the primary, so that the force acts on it.
                add_sensor(
                    spec,
                    self._name(primary, partner),
                    type=mujoco.mjtSensor.mjSENS_CONTACT,
                    objtype=_MODES[self.secondary.mode] if self.secondary else unknown,
                    objname=partner,
                    reftype=_MODES[self.primary.mode],
                    refname=primary,
                    intprm=[bits, REDUCTIONS.index(self.reduce), self.num_slots],
                )

    def columns(
        self, spec: mujoco.MjSpec, model: mujoco.MjModel, device: torch.device
    ) -> ContactColumns:
        """Return where the compiled model has the readings."""
        primaries = self.primary.names(spec, "primary")
        partners = self._partners(spec)
        readings = [
            column
            for primary in primaries
            for partner in partners
            for column in columns_of(model, self._name(primary, partner))
        ]
        index = as_index(readings, model.nsensordata, device)
        return ContactColumns(self, primaries, partners, index)

    def _partners(self, spec: mujoco.MjSpec) -> list[str]:
        return self.secondary.names(spec, "secondary") if self.secondary else [""]

    def _name(self, primary: str, partner: str) -> str:
        """Return a sensor's name, which says all about it, so that equal ones are one."""
        kind = f"{self.primary.mode} {primary}"
        other = f" by {self.secondary.mode} {partner}" if self.secondary else ""
        return f"contact of {kind}{other}, {self.num_slots} {self.reduce} {' '.join(self.data)}"


class ContactColumns:
    """Reads contacts from ``sensordata``, in the world frame.

    Attributes:
        primaries: Names of what is measured, ``num_primaries``.
        partners: Names of what it touches; ``[""]``: anything.
    """

    def __init__(
        self,
        query: ContactQuery,
        primaries: list[str],
        partners: list[str],
        index: slice | torch.Tensor,
    ) -> None:
        self.primaries, self.partners = primaries, partners
        self._query, self._index = query, index
        start, self._parts = 0, {}
        for name, size in query.data.items():
            self._parts[name] = slice(start, start + size)
            start += size
        self.size = start
        """Numbers of each contact."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Primaries; partners times slots, those of a partner together; numbers of each contact."""
        slots = 1 if self._query.reduce == "netforce" else self._query.num_slots
        return len(self.primaries), len(self.partners) * slots, self.size

    def read(self, sensordata: torch.Tensor) -> torch.Tensor:
        """Return ``(..., *shape)`` of ``(..., nsensordata)``."""
        return sensordata[..., self._index].unflatten(-1, self.shape)

    def part(self, contacts: torch.Tensor, name: str) -> torch.Tensor:
        """Return a field of :meth:`read`'s result; scalars have no trailing dimension.

        Raises:
            ConfigurationError: For a field that the sensor does not have.
        """
        if name not in self._parts:
            raise ConfigurationError(
                f"A term asks a contact sensor for {name!r}, but its fields are "
                f"{', '.join(self._parts)}. Add it to the sensor's fields."
            )
        values = contacts[..., self._parts[name]]
        if SIZES[name] == 1:
            return values[..., 0]
        if name in ("force", "torque") and self._query.reduce != "netforce":
            return self._in_world(contacts, values)
        return values

    def forces(self, contacts: torch.Tensor) -> torch.Tensor:
        """Return the sums of forces by partner, ``(..., num_primaries, num_partners, 3)``."""
        forces = self.part(contacts, "force")
        return forces.unflatten(-2, (len(self.partners), -1)).sum(dim=-2)

    def friction(self, contacts: torch.Tensor) -> torch.Tensor:
        """Return the sums of forces along surfaces by partner, as :meth:`forces`."""
        force, normal = self.part(contacts, "force"), self.part(contacts, "normal")
        along = force - (force * normal).sum(dim=-1, keepdim=True) * normal
        return along.unflatten(-2, (len(self.partners), -1)).sum(dim=-2)

    def places(self, contacts: torch.Tensor) -> torch.Tensor:
        """Return the mean places of contacts by partner, nan without one, as :meth:`forces`."""
        listed = (self.part(contacts, "found") > 0.0).unsqueeze(-1)
        split = (len(self.partners), -1)
        places = (self.part(contacts, "pos") * listed).unflatten(-2, split).sum(dim=-2)
        return places / listed.unflatten(-2, split).sum(dim=-2)

    def _in_world(self, contacts: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Return vectors in the frames of contacts: normal, tangent and their product."""
        normal = contacts[..., self._parts["normal"]]
        tangent = contacts[..., self._parts["tangent"]]
        third = torch.linalg.cross(normal, tangent)
        return values[..., :1] * normal + values[..., 1:2] * tangent + values[..., 2:] * third
