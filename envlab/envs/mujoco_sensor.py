"""MuJoCo's own sensors, added to the model by a configuration: ``MujocoSensorCfg``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import mujoco
import torch

from envlab.envs.entities import as_index, columns
from envlab.envs.managers.sensor import SensorTerm, SensorTermCfg
from envlab.envs.spec_sensors import KINDS, add_sensor, columns_of, matches, names_of
from envlab.errors import ConfigurationError, did_you_mean

if TYPE_CHECKING:
    from envlab.envs.vector_env import VectorEnv

_FRAMES = ("xbody", "body", "geom", "site", "camera")
_SHAPES = ("geom", "body")


class _Type(NamedTuple):
    """The quantity that a type of sensor measures."""

    kinds: tuple[str, ...] = ()
    """Kinds in :data:`KINDS`; none: the simulation as a whole."""
    reference_kinds: tuple[str, ...] = ()
    needs_reference: bool = False
    name: str = ""
    """Its name in ``mjtSensor``, if it differs from that in MJCF."""


TYPES = {
    **dict.fromkeys(("touch", "accelerometer", "velocimeter", "gyro"), _Type(("site",))),
    **dict.fromkeys(("force", "torque", "magnetometer"), _Type(("site",))),
    "rangefinder": _Type(("site",)),
    "camprojection": _Type(("site",), ("camera",), needs_reference=True),
    **dict.fromkeys(("jointpos", "jointvel", "ballquat", "ballangvel"), _Type(("joint",))),
    **dict.fromkeys(("jointlimitpos", "jointlimitvel", "jointlimitfrc"), _Type(("joint",))),
    "jointactuatorfrc": _Type(("joint",), name="jointactfrc"),
    **dict.fromkeys(("tendonpos", "tendonvel"), _Type(("tendon",))),
    **dict.fromkeys(("tendonlimitpos", "tendonlimitvel", "tendonlimitfrc"), _Type(("tendon",))),
    "tendonactuatorfrc": _Type(("tendon",), name="tendonactfrc"),
    **dict.fromkeys(("actuatorpos", "actuatorvel", "actuatorfrc"), _Type(("actuator",))),
    **dict.fromkeys(("framepos", "framequat"), _Type(_FRAMES, _FRAMES)),
    **dict.fromkeys(("framexaxis", "frameyaxis", "framezaxis"), _Type(_FRAMES, _FRAMES)),
    **dict.fromkeys(("framelinvel", "frameangvel"), _Type(_FRAMES, _FRAMES)),
    **dict.fromkeys(("framelinacc", "frameangacc"), _Type(_FRAMES)),
    **dict.fromkeys(("subtreecom", "subtreelinvel", "subtreeangmom"), _Type(("body",))),
    "insidesite": _Type(_FRAMES, ("site",), needs_reference=True),
    "distance": _Type(_SHAPES, _SHAPES, needs_reference=True, name="geomdist"),
    "normal": _Type(_SHAPES, _SHAPES, needs_reference=True, name="geomnormal"),
    "fromto": _Type(_SHAPES, _SHAPES, needs_reference=True, name="geomfromto"),
    **dict.fromkeys(("e_potential", "e_kinetic", "clock"), _Type()),
}
"""MuJoCo's types of sensors by their names in MJCF. Contacts have a
:class:`envlab.envs.contact_sensor.ContactSensorCfg`; plugins, user and tactile sensors, which need
more than names, are written into the MJCF."""


@dataclass(kw_only=True)
class MujocoSensorCfg(SensorTermCfg):
    """One of MuJoCo's sensors, or one for each object that a pattern matches.

    Terms read it as ``mdp.sensor`` does those of the MJCF: by ``SceneEntityCfg`` of the name in
    ``env.sensors``, or by ``sensor_names``.
    """

    DATA_FIELDS: ClassVar[tuple[str, ...]] = ("sensordata",)

    type: str = ""
    """A name in :data:`TYPES`, such as ``gyro``; MJCF's words."""
    name: str = ""
    """Name of the sensor in the model, to which the object's is added; empty: its type."""
    site: str | list[str] = ""
    """Sites that it is at, by regular expressions that match in full. Which of these fields is
    needed is a matter of the type."""
    xbody: str | list[str] = ""
    """Bodies, for the frames that the file gives them."""
    body: str | list[str] = ""
    """Bodies, for their inertial frames, subtrees or geoms."""
    geom: str | list[str] = ""
    """Geoms."""
    joint: str | list[str] = ""
    """Joints."""
    tendon: str | list[str] = ""
    """Tendons."""
    actuator: str | list[str] = ""
    """Actuators."""
    camera: str | list[str] = ""
    """Cameras."""
    reference: str = ""
    """Name of what it is measured in or against: a frame, a camera, a geom; empty: the world."""
    reference_kind: str = ""
    """Kind of the reference; empty: the first that the type allows, mostly ``xbody``."""
    cutoff: float = 0.0
    """Where above 0, the largest magnitude of a reading, and the range of ``distance``."""

    def add_to(self, spec: mujoco.MjSpec) -> None:
        one = self._type()
        settings: dict[str, object] = {"cutoff": self.cutoff}
        if self.reference:
            kind = self.reference_kind or one.reference_kinds[0]
            what = f"The reference of a {self.type} sensor is the {kind}"
            matches(what, [self.reference], names_of(spec, kind))
            settings |= {"reftype": KINDS[kind], "refname": self.reference}
        if self.type == "rangefinder":
            settings["intprm"] = [1, 0, 0]  # the distance alone
        number = mujoco.mjtSensor.__members__[f"mjSENS_{(one.name or self.type).upper()}"]
        kind, objects = self._objects(spec, one)
        for name in objects:
            at = {"objtype": KINDS[kind], "objname": name} if name else {}
            add_sensor(spec, self._name_for(name), type=number, **at, **settings)

    def build(self, env: VectorEnv) -> MujocoSensor:
        objects = self._objects(env.model_spec, self._type())[1]
        return MujocoSensor(env, [self._name_for(name) for name in objects])

    def _name_for(self, name: str) -> str:
        return "_".join(filter(None, (self.name or self.type, name)))

    def _objects(self, spec: mujoco.MjSpec, one: _Type) -> tuple[str, list[str]]:
        """Return the kind and the names of what the sensors measure."""
        kinds = [kind for kind in KINDS if getattr(self, kind)]
        if not one.kinds and not kinds:
            return "", [""]
        if len(kinds) != 1 or kinds[0] not in one.kinds:
            needed = f"one of {', '.join(one.kinds)}" if one.kinds else "none"
            raise ConfigurationError(
                f"A {self.type} sensor is given {' and '.join(kinds) or 'nothing to measure'}, but "
                f"needs {needed}."
            )
        what = f"A {self.type} sensor names the {kinds[0]}"
        return kinds[0], matches(what, getattr(self, kinds[0]), names_of(spec, kinds[0]))

    def _type(self) -> _Type:
        if self.type not in TYPES:
            raise ConfigurationError(
                f"A sensor has the type {self.type!r}, but must have one of {', '.join(TYPES)}."
                f"{did_you_mean(self.type, TYPES)}"
            )
        one = TYPES[self.type]
        kind = self.reference_kind
        if one.needs_reference and not self.reference:
            raise ConfigurationError(
                f"A {self.type} sensor needs a reference: a {' or '.join(one.reference_kinds)}."
            )
        if (self.reference and not one.reference_kinds) or (kind not in ("", *one.reference_kinds)):
            given = f"{kind} {self.reference}".strip()
            raise ConfigurationError(
                f"A {self.type} sensor has the reference {given!r}, but can have one of "
                f"{', '.join(one.reference_kinds) or '(none)'}."
            )
        return one


class MujocoSensor(SensorTerm):
    """See :class:`MujocoSensorCfg`.

    Attributes:
        sensor_names: Names in the model.
        sensor_ids: Columns of ``sensordata``.
    """

    def __init__(self, env: VectorEnv, names: list[str]) -> None:
        model, self._sim = env.sim.model, env.sim
        self.sensor_names = names
        readings = [column for name in names for column in columns_of(model, name)]
        self.sensor_ids = as_index(readings, model.nsensordata, env.device)

    def update(self, dt: float) -> None:
        pass

    def reset(self, mask: torch.Tensor) -> None:
        pass

    @property
    def data(self) -> torch.Tensor:
        """Readings, in MuJoCo's units, ``(num_envs, num_columns)``."""
        return columns(self._sim.data.sensordata, self.sensor_ids)
