"""Delays of actuators that are drawn for each environment at its resets."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import torch

from envlab.envs.actuators import AnyActuatorCfg, delay_range, group_actuators, is_in_torch
from envlab.envs.random import EnvRandom
from envlab.sim.simulation import Simulation, SimulationCfg


class ActuatorDelays:
    """Draws the delays of an environment's actuators at its resets."""

    def __init__(
        self,
        actuators: Mapping[str, AnyActuatorCfg] | None,
        sim: Simulation,
        random: EnvRandom,
    ) -> None:
        self._sim, self._random = sim, random
        self._groups: list[tuple[str, int, int, torch.Tensor]] = []
        for group, cfg in (actuators or {}).items():
            low, high = delay_range(cfg)
            if low < high and not is_in_torch(cfg):
                ids = torch.tensor(group_actuators(sim.model, group, cfg), device=sim.device)
                self._groups.append((group, low, high, ids))

    def draw(self, mask: torch.Tensor) -> None:
        """Draw new delays for the environments of ``mask``, bool ``(num_envs,)``."""
        if not self._groups:
            return
        delays = self._sim.params.actuator_delay
        for group, low, high, ids in self._groups:
            stream = self._random.stream(f"actuators.{group}.delay")
            steps = stream.uniform(low, high + 1, 1, mask).floor().clamp(max=high)
            # Half a step less, as in actuators.delay_seconds().
            seconds = (steps - 0.5).clamp(min=0.0) * self._sim.physics_dt
            # Rows outside the mask keep their delay.
            kept = torch.where(mask.unsqueeze(1), seconds, delays[:, ids])
            delays.index_copy_(1, ids, kept)
        self._sim.apply_params(mask)


def simulation_with_delays(
    cfg: SimulationCfg, actuators: Mapping[str, AnyActuatorCfg] | None
) -> SimulationCfg:
    """Return ``cfg``, with ``actuator_delay`` per environment where delays are drawn."""
    models = [cfg for cfg in (actuators or {}).values() if not is_in_torch(cfg)]
    drawn = any(low < high for low, high in map(delay_range, models))
    if not drawn or "actuator_delay" in cfg.model_fields:
        return cfg
    return dataclasses.replace(cfg, model_fields=(*cfg.model_fields, "actuator_delay"))
