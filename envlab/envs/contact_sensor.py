"""Contact forces on bodies, and how long each has been in the air or on the ground.

Forces come from MuJoCo's contact sensors. A configuration that names what to measure adds them to
the model; otherwise the file has one for each body that a term asks for::

    ContactSensorCfg(primary=ContactMatch(pattern=".*_foot"))
    <contact body2="..." data="force" reduce="netforce"/>

They are read in every physics step, as Isaac Lab's ``ContactSensor`` with a history is updated, so
that touches within a control step count.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import mujoco
import numpy as np
import torch

from envlab.config import PositiveInt
from envlab.envs.checks import positive
from envlab.envs.contact_match import ContactColumns, ContactMatch, ContactQuery
from envlab.envs.entities import Names, SceneEntityCfg, as_index, columns
from envlab.envs.entity_names import matching
from envlab.envs.managers.sensor import SensorTerm, SensorTermCfg
from envlab.envs.masks import clear
from envlab.errors import ConfigurationError, did_you_mean
from envlab.state import State

if TYPE_CHECKING:
    from envlab.envs.vector_env import VectorEnv

_NET_FORCE = (1 << int(mujoco.mjtConDataField.mjCONDATA_FORCE), 3)
"""The compiled form of ``data="force" reduce="netforce"``."""
_MOST_STEPS = 8
"""Physics steps whose effects on times are looked up together: two to this power are known."""


@dataclass(kw_only=True)
class ContactSensorCfg(SensorTermCfg):
    """Contact forces on bodies or geoms.

    They are those of ``primary``, or, without it, the bodies with a contact sensor in the file.
    """

    DATA_FIELDS: ClassVar[tuple[str, ...]] = ("sensordata",)
    SUBSTEP_FIELDS: ClassVar[tuple[str, ...]] = ("sensordata",)

    force_threshold: float = 1.0
    """Force above which a body counts as touching, in N."""
    history_length: int = 3
    """Number of the latest physics steps whose largest force counts; 3 in Isaac Lab's tasks."""
    primary: ContactMatch | None = None
    """What to measure; null: the bodies that have a contact sensor in the model's file."""
    secondary: ContactMatch | None = None
    """The partners whose contacts count, each separately (Isaac Lab's ``filter_prim_paths_expr``);
    null: all contacts, together."""
    fields: tuple[str, ...] = ("found", "force")
    """What is read of each contact: ``found`` (number of contacts of the pair), ``force`` and
    ``torque`` on the primary in N and N m, ``dist`` (negative: penetration, in m), ``pos`` in m,
    ``normal`` (from partner to primary), ``tangent``; vectors are in the world frame."""
    reduce: Literal["none", "mindist", "maxforce", "netforce"] = "netforce"
    """``netforce`` adds up all contacts of a pair; the others list ``num_slots`` of them: any, the
    deepest or those of most force."""
    num_slots: PositiveInt = 1
    """Number of single contacts that are listed for each pair."""

    @property
    def query(self) -> ContactQuery | None:
        """The MuJoCo sensors to add, None where the model's file has them.

        Raises:
            ConfigurationError: For settings that need a ``primary``, which is missing.
        """
        if self.primary is not None:
            fields = tuple(self.fields)
            return ContactQuery(
                primary=self.primary,
                secondary=self.secondary,
                fields=fields,
                reduce=self.reduce,
                num_slots=self.num_slots,
            )
        for name in ("secondary", "fields", "reduce", "num_slots"):
            if getattr(self, name) != getattr(ContactSensorCfg, name):
                raise ConfigurationError(
                    f"A contact sensor has {name}={getattr(self, name)!r}, but no primary, without "
                    "which it reads the sensors of the model's file. Name in primary what to "
                    "measure."
                )
        return None

    def add_to(self, spec: mujoco.MjSpec) -> None:
        if self.query is not None:
            self.query.add_to(spec)

    def build(self, env: VectorEnv) -> ContactSensor:
        positive("env.sensors.*.history_length", self.history_length)
        return ContactSensor(self, env)


class ContactSensor(SensorTerm):
    """See :class:`ContactSensorCfg`. Rows are environments, columns :attr:`body_names`.

    A sensor with a ``primary`` also has :meth:`contacts`, and what follows from these.

    Attributes:
        body_names: The bodies, in the order of the model's sensors; or geoms, if these are primary.
        partner_names: The partners, each measured separately; ``[""]``: anything.
        net_forces_w: Force on each body in the last physics step, world frame, in N,
            ``(num_envs, num_bodies, 3)``.
        force_norms: The largest magnitude in the physics steps of the history,
            ``(num_envs, num_bodies)``.
        current_air_time: Time since the body left the ground, in s; 0 while it touches.
        last_air_time: Time in the air before the last touch, in s.
        current_contact_time: Time since the body touched down, in s; 0 in the air.
        last_contact_time: Time on the ground before it last left, in s.
    """

    STATE = State(
        per_env=(
            *("current_air_time", "last_air_time", "current_contact_time", "last_contact_time"),
            "_history",
            "_latest",
        )
    )
    _latest: torch.Tensor | None = None
    """Readings in the physics steps of the history, the latest first."""

    def __init__(self, cfg: ContactSensorCfg, env: VectorEnv) -> None:
        self.partner_names = [""]
        self._columns: ContactColumns | None = None
        if cfg.query is None:
            self.body_names, readings = _contact_sensors(env.sim.model)
            self._readings = as_index(readings, env.sim.model.nsensordata, env.device)
        else:
            self._columns = cfg.query.columns(env.model_spec, env.sim.model, env.device)
            self.body_names, self.partner_names = self._columns.primaries, self._columns.partners
            self._latest = torch.zeros(
                env.num_envs, cfg.history_length, *self._columns.shape, device=env.device
            )
        self._threshold, self._sim, self._device = cfg.force_threshold, env.sim, env.device
        self._step_dt, self._rounding = env.step_dt, 0.5 * env.physics_dt
        shape = (env.num_envs, len(self.body_names))
        self.net_forces_w = torch.zeros(*shape, 3, device=env.device)
        # What the same operation clears: times in the air and on the ground, which the same
        # operations count, and forces.
        self._memory = torch.zeros(5 + cfg.history_length, *shape, device=env.device)
        self._current, self._last = self._memory[:2], self._memory[2:4]
        self.force_norms = self._memory[4]
        self._history = self._memory[5:].transpose(0, 1)
        self._once, self._num_changes = env.once, 0
        self.current_air_time, self.current_contact_time = self._current.unbind()
        self.last_air_time, self.last_contact_time = self._last.unbind()

    def update(self, dt: float) -> None:
        forces = self._forces()
        norms = torch.linalg.vector_norm(forces, dim=3)
        self.net_forces_w.copy_(forces[:, -1])
        num_steps, num_kept = norms.shape[1], self._history.shape[1]
        if num_steps >= num_kept:  # earlier steps do not count
            latest = norms[:, -num_kept:]
        else:
            latest = torch.cat((self._history, norms), dim=1)[:, -num_kept:]
            self._history.copy_(latest)
        torch.amax(latest, dim=1, out=self.force_norms)
        self._count(norms > self._threshold, dt / num_steps)
        self._num_changes += 1

    def _forces(self) -> torch.Tensor:
        """Return the forces in each physics step, ``(num_envs, num_steps, num_bodies, 3)``."""
        sensordata = self._sim.substeps.sensordata
        if self._columns is None or self._latest is None:
            return sensordata[..., self._readings].unflatten(2, (-1, 3))
        contacts = self._columns.read(sensordata)
        latest = torch.cat((contacts.flip(1), self._latest), dim=1)
        self._latest.copy_(latest[:, : self._latest.shape[1]])
        return self._columns.forces(contacts).sum(dim=3)

    @property
    def in_contact(self) -> torch.Tensor:
        """Whether the largest force is above the threshold, bool ``(num_envs, num_bodies)``."""
        found: torch.Tensor = self._once(
            (self, "in_contact"), lambda: self.force_norms > self._threshold, self._num_changes
        )
        return found

    @property
    def first_contact(self) -> torch.Tensor:
        """Whether the contact began in this control step, bool ``(num_envs, num_bodies)``."""
        found: torch.Tensor = self._once(
            (self, "first_contact"),
            lambda: self.compute_first_contact(self._step_dt),
            self._num_changes,
        )
        return found

    def compute_first_contact(self, dt: float, abs_tol: float | None = None) -> torch.Tensor:
        """Return which bodies touched down within the last ``dt`` seconds, and touch still.

        Args:
            dt: In s; a control step's for :attr:`first_contact`.
            abs_tol: Room for rounding, in s; None: half a physics step.

        Returns:
            Bool ``(num_envs, num_bodies)``.
        """
        return self._began(self.current_contact_time, dt, abs_tol)

    def compute_first_air(self, dt: float, abs_tol: float | None = None) -> torch.Tensor:
        """Return which bodies left the ground within the last ``dt`` seconds, and are in the air.

        See :meth:`compute_first_contact`.
        """
        return self._began(self.current_air_time, dt, abs_tol)

    @property
    def first_air(self) -> torch.Tensor:
        """Whether the body left the ground in this control step, ``(num_envs, num_bodies)``."""
        return self.compute_first_air(self._step_dt)

    def _began(self, time: torch.Tensor, dt: float, abs_tol: float | None) -> torch.Tensor:
        # A time is never negative, and counts as true where it is not 0.
        return torch.logical_and(time, time < dt + (self._rounding if abs_tol is None else abs_tol))

    def contacts(self, name: str) -> torch.Tensor:
        """Return one of the sensor's ``fields`` in the last physics step, zero without a contact.

        Returns:
            ``(num_envs, num_bodies, num_partners * num_slots, 3)``, without the last dimension for
            ``found`` and ``dist``; the contacts with a partner are together.

        Raises:
            ConfigurationError: For a field that the sensor does not have.
        """
        columns, latest = self._own("contacts()")
        return columns.part(latest[:, 0], name)

    def history(self, name: str) -> torch.Tensor:
        """Return one of the ``fields`` in the physics steps of the history, the latest first.

        Returns:
            As :meth:`contacts`, with a dimension of ``history_length`` after that of environments.
        """
        columns, latest = self._own("history()")
        return columns.part(latest, name)

    @property
    def force_matrix_w(self) -> torch.Tensor:
        """Forces on each body by each partner, ``(num_envs, num_bodies, num_partners, 3)``."""
        columns, latest = self._own("force_matrix_w")
        return columns.forces(latest[:, 0])

    @property
    def force_matrix_w_history(self) -> torch.Tensor:
        """These in the physics steps of the history, the latest first, in a second dimension."""
        columns, latest = self._own("force_matrix_w_history")
        return columns.forces(latest)

    @property
    def net_forces_w_history(self) -> torch.Tensor:
        """Forces in the physics steps, ``(num_envs, history_length, num_bodies, 3)``."""
        return self.force_matrix_w_history.sum(dim=3)

    @property
    def friction_forces_w(self) -> torch.Tensor:
        """The part of :attr:`force_matrix_w` along surfaces; needs single contacts' ``normal``."""
        columns, latest = self._own("friction_forces_w")
        return columns.friction(latest[:, 0])

    @property
    def contact_pos_w(self) -> torch.Tensor:
        """Mean place of the contacts with each partner, in m in the world, nan without one.

        ``(num_envs, num_bodies, num_partners, 3)``; needs the fields ``pos`` and ``found``.
        """
        columns, latest = self._own("contact_pos_w")
        return columns.places(latest[:, 0])

    def _own(self, what: str) -> tuple[ContactColumns, torch.Tensor]:
        if self._columns is None or self._latest is None:
            raise ConfigurationError(
                f"A term asks a contact sensor for {what}, which only a sensor with a primary has. "
                "Name in env.sensors.<name>.primary what to measure."
            )
        return self._columns, self._latest

    def _count(self, touches: torch.Tensor, dt: float) -> None:
        """Add physics steps of ``dt`` seconds to the times in the air and on the ground.

        Args:
            touches: Which bodies touch after each step, bool
                ``(num_envs, num_steps, num_bodies)``.
            dt: In s.
        """
        for part in touches.split(_MOST_STEPS, dim=1):
            bits, effects = _effects_of_touches(part.shape[1], dt, self._device)
            which = (part * bits).sum(dim=1)
            found = effects.index_select(1, which.flatten()).view(5, *self._current.shape)
            keep, add, kept, added, least = found
            over = self._current > least
            torch.where(over, torch.addcmul(added, self._current, kept), self._last, out=self._last)
            torch.addcmul(add, self._current, keep, out=self._current)

    def reset(self, mask: torch.Tensor) -> None:
        clear(self.net_forces_w, mask)
        self._num_changes += 1
        clear(self._memory.transpose(0, 1), mask)
        if self._latest is not None:
            clear(self._latest, mask)

    def select(self, cfg: SceneEntityCfg) -> ContactBodies:
        """Return the bodies that ``cfg.body_names`` matches, or geoms by ``cfg.geom_names``.

        Raises:
            ConfigurationError: For a name that matches none of the sensor's bodies.
        """
        return ContactBodies(self, self._ids(cfg.geom_names or cfg.body_names))

    def _ids(self, patterns: Names) -> slice | torch.Tensor:
        if patterns is None:
            return as_index(list(range(len(self.body_names))), len(self.body_names), self._device)
        chosen: set[int] = set()
        for pattern in [patterns] if isinstance(patterns, str) else patterns:
            chosen_names = {*matching(pattern, self.body_names)}
            found = {i for i, name in enumerate(self.body_names) if name in chosen_names}
            if not found:
                advice = '<contact body2="..." data="force" reduce="netforce"/> to the MJCF.'
                if self._columns is not None:
                    advice = "it to the sensor's primary."
                raise ConfigurationError(
                    f"No body with a contact sensor matches {pattern!r}; those that have one are "
                    f"{', '.join(self.body_names)}.{did_you_mean(pattern, self.body_names)} Or add "
                    f"{advice}"
                )
            chosen |= found
        return as_index(sorted(chosen), len(self.body_names), self._device)


class ContactBodies:
    """Some bodies of a :class:`ContactSensor`: a term's ``sensor_cfg`` when resolved."""

    def __init__(self, sensor: ContactSensor, ids: slice | torch.Tensor) -> None:
        self._sensor, self._ids = sensor, ids
        names = np.array(sensor.body_names)
        self.body_names: list[str] = list(names[ids if isinstance(ids, slice) else ids.cpu()])
        """The bodies, in the sensor's order."""

    def contacts(self, name: str) -> torch.Tensor:
        """Return one of the sensor's ``fields``; see :meth:`ContactSensor.contacts`."""
        return columns(self._sensor.contacts(name), self._ids)

    @property
    def force_matrix_w(self) -> torch.Tensor:
        """Forces by each partner, in N, ``(num_envs, num_bodies, num_partners, 3)``."""
        return columns(self._sensor.force_matrix_w, self._ids)

    def history(self, name: str) -> torch.Tensor:
        """Return one of the ``fields`` in the past; see :meth:`ContactSensor.history`."""
        return columns(self._sensor.history(name).transpose(1, 2), self._ids).transpose(1, 2)

    @property
    def net_forces_w(self) -> torch.Tensor:
        """Forces in the last physics step, world frame, in N, ``(num_envs, num_bodies, 3)``."""
        return columns(self._sensor.net_forces_w, self._ids)

    @property
    def force_norms(self) -> torch.Tensor:
        """Largest forces of the history, in N, ``(num_envs, num_bodies)``."""
        return columns(self._sensor.force_norms, self._ids)

    @property
    def in_contact(self) -> torch.Tensor:
        """Whether these forces are above the threshold, bool ``(num_envs, num_bodies)``."""
        return columns(self._sensor.in_contact, self._ids)

    @property
    def first_contact(self) -> torch.Tensor:
        """Whether the contact began in this control step, bool ``(num_envs, num_bodies)``."""
        return columns(self._sensor.first_contact, self._ids)

    @property
    def first_air(self) -> torch.Tensor:
        """Whether the body left the ground in this control step, ``(num_envs, num_bodies)``."""
        return columns(self._sensor.first_air, self._ids)

    def compute_first_contact(self, dt: float, abs_tol: float | None = None) -> torch.Tensor:
        """See :meth:`ContactSensor.compute_first_contact`."""
        return columns(self._sensor.compute_first_contact(dt, abs_tol), self._ids)

    def compute_first_air(self, dt: float, abs_tol: float | None = None) -> torch.Tensor:
        """See :meth:`ContactSensor.compute_first_air`."""
        return columns(self._sensor.compute_first_air(dt, abs_tol), self._ids)

    @property
    def current_air_time(self) -> torch.Tensor:
        """Time in the air, in s, 0 while touching, ``(num_envs, num_bodies)``."""
        return columns(self._sensor.current_air_time, self._ids)

    @property
    def last_air_time(self) -> torch.Tensor:
        """Time in the air before the last touch, in s, ``(num_envs, num_bodies)``."""
        return columns(self._sensor.last_air_time, self._ids)

    @property
    def current_contact_time(self) -> torch.Tensor:
        """Time on the ground, in s, 0 in the air, ``(num_envs, num_bodies)``."""
        return columns(self._sensor.current_contact_time, self._ids)

    @property
    def last_contact_time(self) -> torch.Tensor:
        """Time on the ground before it last left, in s, ``(num_envs, num_bodies)``."""
        return columns(self._sensor.last_contact_time, self._ids)


@functools.cache
def _effects_of_touches(
    num_steps: int, dt: float, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what physics steps do to the times in the air and on the ground.

    A touch ends the time in the air, its absence the time on the ground. So which of the steps
    touch decides all: looked up here, it takes the same few operations for any number of steps.

    Args:
        num_steps: Number of physics steps.
        dt: Their duration in s.
        device: Device of the tensors.

    Returns:
        A factor for each step, ``(num_steps, 1)``, such that sums over those that touch number
        their sets; and by these numbers, for the air and then for the ground, ``(10, num_sets)``:
        with which factor and summand a time continues (2 rows each), with which it ends (2 and 2),
        and above which it does: -1 for any time, infinite if none ends.
    """
    columns_ = []
    for touching in range(1 << num_steps):
        rows = []
        for is_air in (True, False):
            keep, add = 1.0, np.float32(0.0)
            kept, added, least = 0.0, np.float32(0.0), math.inf
            had_ended = False
            for step in range(num_steps):
                ends = bool(touching >> step & 1) == is_air
                add += np.float32(dt)
                if ends and not had_ended:
                    # Before the first step, a time that has ended is 0.
                    kept, added, least = keep, add, -1.0 if step else 0.0
                if ends:
                    keep, add = 0.0, np.float32(0.0)
                had_ended = ends
            rows.append((keep, add, kept, added, least))
        columns_.append(np.array(rows, dtype=np.float32).T.flatten())
    bits = torch.tensor([[1 << step] for step in range(num_steps)], device=device)
    return bits, torch.as_tensor(np.stack(columns_, axis=1), device=device)


def _contact_sensors(model: mujoco.MjModel) -> tuple[list[str], list[int]]:
    """Return the bodies with a contact sensor, and the three ``sensordata`` columns of each.

    Raises:
        ConfigurationError: If there is none.
    """
    names: list[str] = []
    readings: list[int] = []
    for i in range(model.nsensor):
        if (
            model.sensor_type[i] == mujoco.mjtSensor.mjSENS_CONTACT
            and tuple(model.sensor_intprm[i, :2]) == _NET_FORCE
            and model.sensor_objtype[i] == mujoco.mjtObj.mjOBJ_UNKNOWN
            and model.sensor_reftype[i] == mujoco.mjtObj.mjOBJ_BODY
        ):
            names.append(model.body(model.sensor_refid[i]).name)
            readings += range(int(model.sensor_adr[i]), int(model.sensor_adr[i]) + 3)
    if not names:
        raise ConfigurationError(
            "The task has a contact sensor (env.sensors), but the model has no MuJoCo sensor for "
            'it. Name in its primary what to measure, or add <contact body2="..." data="force" '
            'reduce="netforce"/> for each body to the MJCF.'
        )
    return names, readings
