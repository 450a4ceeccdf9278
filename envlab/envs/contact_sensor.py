"""Contact forces on bodies, and how long each has been in the air or on the ground.

Forces come from the model's MuJoCo sensors, one for each body that a term asks for::

    <contact body2="..." data="force" reduce="netforce"/>

They are read in every physics step, as Isaac Lab's ``ContactSensor`` with a history is updated, so
that touches within a control step count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import mujoco
import numpy as np
import torch

from envlab.envs.checks import positive
from envlab.envs.entities import Names, SceneEntityCfg, as_index, columns
from envlab.envs.managers.sensor import SensorTerm, SensorTermCfg
from envlab.envs.masks import clear
from envlab.errors import ConfigurationError, did_you_mean
from envlab.state import State

if TYPE_CHECKING:
    from envlab.envs.vector_env import VectorEnv

_NET_FORCE = (1 << int(mujoco.mjtConDataField.mjCONDATA_FORCE), 3)
"""The compiled form of ``data="force" reduce="netforce"``."""


@dataclass(kw_only=True)
class ContactSensorCfg(SensorTermCfg):
    """Net contact forces on all bodies that have a contact sensor in the model."""

    SUBSTEP_FIELDS: ClassVar[tuple[str, ...]] = ("sensordata",)

    force_threshold: float = 1.0
    """Force above which a body counts as touching, in N."""
    history_length: int = 3
    """Number of the latest physics steps whose largest force counts; 3 in Isaac Lab's tasks."""

    def build(self, env: VectorEnv) -> ContactSensor:
        positive("env.sensors.*.history_length", self.history_length)
        return ContactSensor(self, env)


class ContactSensor(SensorTerm):
    """See :class:`ContactSensorCfg`. Rows are environments, columns :attr:`body_names`.

    Attributes:
        body_names: The bodies, in the order of the model's sensors.
        net_forces_w: Force on each body in the last physics step, world frame, in N,
            ``(num_envs, num_bodies, 3)``.
        force_norms: The largest magnitude in the physics steps of the history,
            ``(num_envs, num_bodies)``.
        in_contact: Whether this force is above the threshold, bool.
        first_contact: Whether the contact began in this control step, bool.
        current_air_time: Time since the body left the ground, in s; 0 while it touches.
        last_air_time: Time in the air before the last touch, in s.
        current_contact_time: Time since the body touched down, in s; 0 in the air.
        last_contact_time: Time on the ground before it last left, in s.
    """

    STATE = State(
        per_env=(
            *("current_air_time", "last_air_time", "current_contact_time", "last_contact_time"),
            "_history",
        )
    )

    def __init__(self, cfg: ContactSensorCfg, env: VectorEnv) -> None:
        self.body_names, readings = _contact_sensors(env.sim.model)
        self._readings = as_index(readings, env.sim.model.nsensordata, env.device)
        self._threshold, self._sim, self._device = cfg.force_threshold, env.sim, env.device
        shape = (env.num_envs, len(self.body_names))
        self.net_forces_w = torch.zeros(*shape, 3, device=env.device)
        self.force_norms = torch.zeros(shape, device=env.device)
        self._history = torch.zeros(
            env.num_envs, cfg.history_length, len(self.body_names), device=env.device
        )
        self._contacts = torch.zeros(2, *shape, dtype=torch.bool, device=env.device)
        self.in_contact, self.first_contact = self._contacts.unbind()
        # Of times in the air and on the ground, which the same operations count.
        self._times = torch.zeros(2, 2, *shape, device=env.device)
        self._current, self._last = self._times.unbind()
        self.current_air_time, self.current_contact_time = self._current.unbind()
        self.last_air_time, self.last_contact_time = self._last.unbind()

    def update(self, dt: float) -> None:
        forces = self._sim.substeps.sensordata[..., self._readings].unflatten(2, (-1, 3))
        norms = torch.linalg.vector_norm(forces, dim=3)
        self.net_forces_w.copy_(forces[:, -1])
        num_steps, num_kept = norms.shape[1], self._history.shape[1]
        latest = norms if num_steps >= num_kept else torch.cat((self._history, norms), dim=1)
        self._history.copy_(latest[:, -num_kept:])
        torch.amax(self._history, dim=1, out=self.force_norms)
        torch.gt(self.force_norms, self._threshold, out=self.in_contact)
        physics_dt = dt / num_steps
        self._count(norms > self._threshold, physics_dt)
        contact = self.current_contact_time
        # Half a physics step is room for rounding.
        torch.logical_and(contact > 0.0, contact < dt + 0.5 * physics_dt, out=self.first_contact)

    def _count(self, touches: torch.Tensor, dt: float) -> None:
        """Add physics steps of ``dt`` seconds to the times in the air and on the ground.

        Args:
            touches: Which bodies touch after each step, bool
                ``(num_envs, num_steps, num_bodies)``.
            dt: In s.
        """
        # A touch ends the time in the air, its absence the time on the ground. A time that ends in
        # this step but not in the one before has lasted until now.
        ends = torch.stack((touches, ~touches))
        had_ended = torch.cat(((self._current == 0.0).unsqueeze(2), ends[:, :, :-1]), dim=2)
        for ends_now, is_over in zip(ends.unbind(2), (ends > had_ended).unbind(2), strict=True):
            self._current += dt
            torch.where(is_over, self._current, self._last, out=self._last)
            self._current.masked_fill_(ends_now, 0.0)

    def reset(self, mask: torch.Tensor) -> None:
        for values in (self.net_forces_w, self.force_norms, self._history):
            clear(values, mask)
        clear(self._contacts.movedim(1, 0), mask)
        clear(self._times.movedim(2, 0), mask)

    def select(self, cfg: SceneEntityCfg) -> ContactBodies:
        """Return the bodies that ``cfg.body_names`` matches.

        Raises:
            ConfigurationError: For a name that matches none of the sensor's bodies.
        """
        return ContactBodies(self, self._ids(cfg.body_names))

    def _ids(self, patterns: Names) -> slice | torch.Tensor:
        if patterns is None:
            return as_index(list(range(len(self.body_names))), len(self.body_names), self._device)
        chosen: set[int] = set()
        for pattern in [patterns] if isinstance(patterns, str) else patterns:
            found = {i for i, name in enumerate(self.body_names) if re.fullmatch(pattern, name)}
            if not found:
                raise ConfigurationError(
                    f"No body with a contact sensor matches {pattern!r}; those that have one are "
                    f"{', '.join(self.body_names)}.{did_you_mean(pattern, self.body_names)} Or add "
                    '<contact body2="..." data="force" reduce="netforce"/> to the MJCF.'
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
            'it. Add <contact body2="..." data="force" reduce="netforce"/> for each body to the '
            "MJCF."
        )
    return names, readings
