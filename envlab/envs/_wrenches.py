"""External wrenches that wait for the resets of a step, which would end them."""

from __future__ import annotations

import torch

from envlab.sim.simulation import Simulation


class StagedWrenches:
    """Wrenches that events request in a step, for some environments each."""

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self.staged: list[tuple[torch.Tensor, list[int], torch.Tensor]] = []
        """Masks, bodies and wrenches that wait."""

    def add(
        self, mask: torch.Tensor, body_ids: list[int], force: torch.Tensor, torque: torch.Tensor
    ) -> None:
        """Apply wrenches to the environments of ``mask`` at the next :meth:`apply`.

        Args:
            mask: Bool ``(num_envs,)``.
            body_ids: Indices of ``k`` bodies.
            force: World frame, in N, ``(num_envs, k, 3)``.
            torque: World frame, in N m, ``(num_envs, k, 3)``.
        """
        self.staged.append((mask, body_ids, torch.cat((force, torque), dim=2)))

    def apply(self) -> None:
        """Write the added wrenches to the simulation, where they stay until the next reset."""
        for mask, body_ids, wrench in self.staged:
            kept = self._sim.xfrc_applied[:, self._sim.body_index(body_ids)]
            force, torque = torch.where(mask[:, None, None], wrench, kept).split(3, dim=2)
            self._sim.apply_wrench(body_ids, force, torque)
        self.staged.clear()

    def forget(self) -> None:
        """Drop the added wrenches."""
        self.staged.clear()
