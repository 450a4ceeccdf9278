"""Sensors: measurements of each step that keep a memory and serve several terms."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import mujoco
import numpy as np
import torch

from envlab.envs.entities import SceneEntityCfg
from envlab.envs.managers.term import TermCfg, terms_of
from envlab.envs.vector_env import VectorEnv
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
        """Return the part of the sensor that a term's ``sensor_cfg`` names."""
        raise NotImplementedError

    def preview(self, index: int) -> np.ndarray | None:
        """Return a picture of what it measures in one environment, uint8 ``(height, width, 3)``.

        None, as here, if there is none.
        """
        return None


class StatelessSensorTerm(SensorTerm):
    """A sensor without a memory, which is measured when a term reads it."""

    def update(self, dt: float) -> None:
        pass

    def reset(self, mask: torch.Tensor) -> None:
        pass

    def select(self, cfg: SceneEntityCfg) -> Any:
        return self


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
