"""The common part of direct tasks of one agent and of several, in Isaac Lab's order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import mujoco
import torch

from envlab.envs.cfg import EnvCfg
from envlab.envs.managers.event import EventManager, edit_spec, with_event_fields
from envlab.envs.managers.function_term import ManagerTermBase
from envlab.envs.managers.sensor import (
    SensorManager,
    SensorTermCfg,
    add_sensors,
    with_sensor_fields,
)
from envlab.envs.managers.term import terms_of
from envlab.envs.vector_env import VectorEnv
from envlab.sim.simulation import SimulationCfg
from envlab.state import State


class DirectEvents(VectorEnv):
    """An environment whose configuration may have ``events`` and sensors, and no other terms.

    A sensor is a field of the configuration, such as ``tiled_camera: CameraCfg``, and is
    ``self.sensor("tiled_camera")``.
    """

    STATE = State(parts=("event_manager", "sensor_manager", "memories"))
    cfg: Any
    sensor_manager: SensorManager | None = None
    """None without sensors."""
    event_manager: EventManager | None = None
    memories: dict[str, ManagerTermBase] | None = None
    """Events that are classes, by name; None without any."""
    encoder_bias: torch.Tensor | None = None
    control_each_substep: ClassVar[bool] = False
    """Whether ``_apply_action()`` is called before each physics step, as in Isaac Lab, for controls
    that follow from the state as it moves; the simulation then gets ``decimation`` calls a step."""

    def _apply_action(self) -> None:
        """Write ``self.sim.ctrl``."""
        raise NotImplementedError

    def _substep_controls(self) -> Mapping[str, Callable[[], None]]:
        return {"_apply_action()": self._apply_action} if self.control_each_substep else {}

    def _simulation_cfg(self, cfg: EnvCfg) -> SimulationCfg:
        sim = with_sensor_fields(cfg.sim, cfg)
        return with_event_fields(sim, getattr(cfg, "events", None))

    def edit_spec(self, spec: mujoco.MjSpec) -> None:
        edit_spec(self.cfg.events, self, spec)
        add_sensors(self.cfg, spec)

    def _prepare(self) -> None:
        super()._prepare()
        if terms_of(self.cfg, SensorTermCfg):
            self.sensor_manager = SensorManager(self.cfg, self)
        if self.cfg.events is not None:
            self.memories = {}
            self.event_manager = EventManager(
                self.cfg.events, self, self.sensor_manager or SensorManager(None, self)
            )
            self.event_manager.start()
            self.memories = self.memories or None

    def _restart(self, seed: int) -> None:
        super()._restart(seed)
        if self.event_manager is not None:
            self.event_manager.restart()

    def sensor(self, name: str) -> Any:
        """Return the sensor of a field of the configuration, such as a camera."""
        assert self.sensor_manager is not None, "the configuration has no sensors"
        return self.sensor_manager.get_term(name)

    def _measure(self) -> None:
        super()._measure()
        if self.sensor_manager is not None:
            self.sensor_manager.update(self.step_dt)

    def _begin_reset(self, mask: torch.Tensor) -> None:
        if self.event_manager is not None:
            self.event_manager.apply("reset", mask)
            self.event_manager.reset(mask)
        if self.sensor_manager is not None:
            self.sensor_manager.reset(mask)
        for memory in (self.memories or {}).values():
            memory.reset(mask)

    def _after_resets(self) -> None:
        if self.event_manager is not None:
            self.event_manager.end_step(self.step_dt)
