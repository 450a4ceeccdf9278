"""Sensors: measurements of each step that keep a memory and serve several terms."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import mujoco
import numpy as np
import torch

from envlab.config import Range
from envlab.envs.entities import SceneEntityCfg
from envlab.envs.managers.term import TermCfg, terms_of
from envlab.envs.masks import assign
from envlab.envs.vector_env import VectorEnv
from envlab.sim.host import on_host
from envlab.sim.simulation import SimulationCfg
from envlab.state import State


@dataclass(kw_only=True)
class SensorTermCfg(TermCfg):
    """Configuration of a sensor; :meth:`build` makes the term."""

    DATA_FIELDS: ClassVar[tuple[str, ...]] = ()
    """Data fields that it reads; they are added to ``env.sim.data_fields``."""
    SUBSTEP_FIELDS: ClassVar[tuple[str, ...]] = ()
    """Data fields that it reads in every physics step (``env.sim.substeps``)."""

    def add_to(self, spec: mujoco.MjSpec) -> None:
        """Add what it needs to the model, such as MuJoCo's sensors and sites."""

    def build(self, env: VectorEnv) -> SensorTerm:
        """Return the term for ``env``, whose ``spec`` is the model that :meth:`add_to` got."""
        raise NotImplementedError


def with_sensor_fields(sim: SimulationCfg, cfg: Any) -> SimulationCfg:
    """Return the settings of the physics with the data fields that the sensors of a task read."""
    sensors = terms_of(cfg, SensorTermCfg).values()
    data = [name for sensor in sensors for name in sensor.DATA_FIELDS]
    substeps = [name for sensor in sensors for name in sensor.SUBSTEP_FIELDS]
    return dataclasses.replace(
        sim,
        data_fields=tuple(dict.fromkeys((*sim.data_fields, *data))),
        substep_fields=tuple(dict.fromkeys((*sim.substep_fields, *substeps))),
    )


def add_sensors(cfg: Any, spec: mujoco.MjSpec) -> None:
    """Add what the sensors of a task need to its model."""
    for term in terms_of(cfg, SensorTermCfg).values():
        term.add_to(spec)


class SensorTerm:
    """Something that is measured once per step, before terminations and rewards."""

    def update(self, dt: float) -> None:
        """Measure, ``dt`` seconds after the last time."""
        raise NotImplementedError

    def reset(self, mask: torch.Tensor) -> None:
        """Forget the ended episodes of ``mask``."""
        raise NotImplementedError

    def select(self, cfg: SceneEntityCfg) -> Any:
        """Return the part of the sensor that a term's ``sensor_cfg`` names: all of it, as here."""
        return self

    def preview(self, index: int) -> np.ndarray | None:
        """Return a picture of what it measures in one environment, uint8 ``(height, width, 3)``.

        None, as here, if there is none.
        """
        return None


@dataclass(kw_only=True)
class PeriodicSensorCfg(SensorTermCfg):
    """Configuration of a sensor that may measure less often than in each step."""

    update_period: Annotated[float, Range(at_least=0.0)] = 0.0
    """Time from one measurement to the next in s, rounded to steps; 0: in every step. The
    first reading of an episode is a new one."""


class PeriodicSensor(SensorTerm):
    """A sensor that measures once in a period, and when an episode is first read."""

    STATE = State(per_env=("_age", "_stale"))

    def __init__(self, cfg: PeriodicSensorCfg, env: VectorEnv) -> None:
        self._period = max(1, round(cfg.update_period / env.step_dt))
        self._age = torch.zeros(env.num_envs, dtype=torch.int32, device=env.device)
        """Steps since the last measurement."""
        self._stale = torch.ones(env.num_envs, dtype=torch.bool, device=env.device)
        """Which episodes are not measured yet."""

    def measure(self, mask: torch.Tensor) -> None:
        """Measure the present state of the environments of ``mask``, bool ``(num_envs,)``."""
        raise NotImplementedError

    def update(self, dt: float) -> None:
        self._age += 1
        self._take((self._age >= self._period) | self._stale)

    def reset(self, mask: torch.Tensor) -> None:
        self._stale |= mask

    def refresh(self) -> None:
        """Measure the episodes that have begun since the last measurement."""
        if not on_host(self._stale.device) or self._stale.any():
            self._take(self._stale)

    def _take(self, mask: torch.Tensor) -> None:
        self.measure(mask)
        self._age.masked_fill_(mask, 0)
        self._stale.fill_(False)


class InstantSensor(PeriodicSensor):
    """A sensor of what the physics has at any time, which is measured when a term reads it.

    Only with a period of several steps it has a memory: it keeps what it measured last.
    """

    STATE = State(per_env_by_name=("_kept",))

    def __init__(self, cfg: PeriodicSensorCfg, env: VectorEnv) -> None:
        self._env = env
        self._kept: dict[str, torch.Tensor] | None = None
        if round(cfg.update_period / env.step_dt) > 1:
            super().__init__(cfg, env)
            self._kept = {}

    def present(self) -> dict[str, torch.Tensor]:
        """Return what there is to measure now, ``(num_envs, ...)`` by name."""
        raise NotImplementedError

    def measured(self) -> dict[str, torch.Tensor]:
        """Return what was measured last, ``(num_envs, ...)`` by name; not to be written to."""
        if self._kept is None:
            present: dict[str, torch.Tensor] = self._env.once((self, "present"), self.present)
            return present
        self.refresh()
        return self._kept

    def measure(self, mask: torch.Tensor) -> None:
        assert self._kept is not None
        if on_host(mask.device) and not mask.any():
            return
        for name, values in self.present().items():
            if name in self._kept:
                assign(self._kept[name], mask, values)
            else:  # the first of all measurements
                self._kept[name] = values.clone()

    def update(self, dt: float) -> None:
        if self._kept is not None:
            super().update(dt)

    def reset(self, mask: torch.Tensor) -> None:
        if self._kept is not None:
            super().reset(mask)


class SensorManager:
    """Keeps the sensors; a term reaches one by a :class:`SceneEntityCfg` of the sensor's name."""

    STATE = State(parts=("_terms",))

    def __init__(self, cfg: Any, env: VectorEnv) -> None:
        self._terms = {name: term.build(env) for name, term in terms_of(cfg, SensorTermCfg).items()}

    @property
    def active_terms(self) -> list[str]:
        """Names of the sensors."""
        return list(self._terms)

    def get_term(self, name: str) -> SensorTerm:
        """Return a sensor of :attr:`active_terms`."""
        return self._terms[name]

    def previews(self, index: int) -> dict[str, np.ndarray]:
        """Return what sensors see of one environment, by their names; see ``preview``."""
        seen = {name: term.preview(index) for name, term in self._terms.items()}
        return {name: picture for name, picture in seen.items() if picture is not None}

    def update(self, dt: float) -> None:
        """Measure with all sensors, ``dt`` seconds after the last time."""
        for term in self._terms.values():
            term.update(dt)

    def reset(self, mask: torch.Tensor) -> None:
        """Forget the ended episodes of ``mask``."""
        for term in self._terms.values():
            term.reset(mask)
