"""Events of direct tasks, called where Isaac Lab's direct environments call them."""

from __future__ import annotations

from typing import Any

import mujoco
import torch

from envlab.envs.cfg import EnvCfg
from envlab.envs.managers.event import EventManager, edit_spec, with_event_fields
from envlab.envs.managers.function_term import ManagerTermBase
from envlab.envs.managers.sensor import SensorManager
from envlab.envs.vector_env import VectorEnv
from envlab.sim.simulation import SimulationCfg
from envlab.state import State


class DirectEvents(VectorEnv):
    """An environment whose configuration may have ``events``, and which has no other terms."""

    STATE = State(parts=("event_manager", "memories"))
    cfg: Any
    event_manager: EventManager | None = None
    memories: dict[str, ManagerTermBase] | None = None
    """Events that are classes, by name; None without any."""
    encoder_bias: torch.Tensor | None = None

    def _simulation_cfg(self, cfg: EnvCfg) -> SimulationCfg:
        return with_event_fields(cfg.sim, getattr(cfg, "events", None))

    def edit_spec(self, spec: mujoco.MjSpec) -> None:
        edit_spec(self.cfg.events, self, spec)

    def _prepare(self) -> None:
        super()._prepare()
        if self.cfg.events is not None:
            self.memories = {}
            self.event_manager = EventManager(self.cfg.events, self, SensorManager(None, self))
            self.event_manager.start()
            self.memories = self.memories or None

    def _restart(self, seed: int) -> None:
        super()._restart(seed)
        if self.event_manager is not None:
            self.event_manager.restart()

    def _begin_reset(self, mask: torch.Tensor) -> None:
        if self.event_manager is not None:
            self.event_manager.apply("reset", mask)
            self.event_manager.reset(mask)
        for memory in (self.memories or {}).values():
            memory.reset(mask)

    def _after_resets(self) -> None:
        if self.event_manager is not None:
            self.event_manager.end_step(self.step_dt)
