"""The NaN guard: environments that are no longer finite are reset, counted and reported."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from envlab.errors import SimulationError
from envlab.sim.simulation import Simulation

logger = logging.getLogger(__name__)


class NanGuard:
    """Watches physics, rewards and observations of an environment.

    A failure ends the episode with reward 0. On a CPU too many at once stop the run in that step;
    on a GPU, which is not waited for, at the next :meth:`check`.
    """

    def __init__(
        self,
        sim: Simulation,
        max_bad_share: float,
        save: Callable[[Mapping[str, torch.Tensor]], Path],
    ) -> None:
        """Watch ``sim``.

        Args:
            sim: The physics.
            max_bad_share: See :class:`NanGuardCfg`.
            save: Saves the states of failed environments and returns where.
        """
        self._sim, self._share, self._save = sim, max_bad_share, save
        self._is_cpu = sim.device.type == "cpu"
        self.last_qpos, self._last_qvel = sim.data.qpos.clone(), sim.data.qvel.clone()
        self._bad_obs = torch.zeros(sim.num_envs, dtype=torch.bool, device=sim.device)
        self._has_bad_obs = False
        self._num_bad = torch.zeros((), dtype=torch.int64, device=sim.device)
        self._num_steps = 0
        """Steps since failures were last reported."""

    def remember(self) -> None:
        """Keep the state before a step, for rewards of progress and to be saved if it fails."""
        self._num_steps += 1
        self.last_qpos.copy_(self._sim.data.qpos)
        self._last_qvel.copy_(self._sim.data.qvel)

    def end_failed(
        self, terminated: torch.Tensor, reward: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return ``terminated`` and ``reward`` with failures ended at reward 0.

        Args:
            terminated: Bool ``(num_envs,)``, or ``(num_agents, num_envs)``: an environment fails
                for all of its agents.
            reward: Float, of the same shape.

        Raises:
            SimulationError: On a CPU, if too many failed in this step.
        """
        bad = self._sim.bad()
        if self._is_cpu and not self._has_bad_obs and not bad.numpy().any() and _sums_up(reward):
            return terminated, reward
        finite = torch.isfinite(reward)
        if finite.dim() > 1:  # a row per agent
            finite = finite.all(dim=0)
        bad = bad | self._bad_obs | ~finite
        self._num_bad += bad.sum()
        if self._is_cpu and bad.sum() > self._num_bad_max(1):
            self._stop(int(bad.sum()), 1)
        return terminated | bad, torch.where(bad, 0.0, reward)

    def clean(self, observations: dict[str, torch.Tensor]) -> None:
        """Replace non-finite observations by 0; their environments are reset at the next step."""
        for name, values in observations.items():
            if self._is_cpu and _sums_up(values):
                continue
            self._has_bad_obs = True
            self._bad_obs |= ~torch.isfinite(values).flatten(1).all(dim=1)
            observations[name] = torch.nan_to_num(values, posinf=0.0, neginf=0.0)

    def forgive(self, mask: torch.Tensor) -> None:
        """Forget the failures of environments that are reset."""
        if not self._is_cpu or self._has_bad_obs:
            self._bad_obs &= ~mask
            self._has_bad_obs = not self._is_cpu or bool(self._bad_obs.any())

    def check(self) -> None:
        """Report failures and overflows since the last call. Waits for the GPU.

        Raises:
            SimulationError: If more than the configured share failed per step, on average.
        """
        steps = max(1, self._num_steps)
        failed = int(self._num_bad)
        self.restart()
        if failed:
            logger.warning(
                "%d environment episodes were ended by non-finite values in the last %d steps.",
                failed,
                steps,
            )
        if failed > self._num_bad_max(steps):
            self._stop(failed, steps)
        overflowed = int(self._sim.overflow().sum())
        if overflowed:
            logger.warning(
                "%d environments ran out of contact memory. %s",
                overflowed,
                self._sim.overflow_advice(),
            )

    def restart(self) -> None:
        """Count from this step on."""
        self._num_bad.zero_()
        self._num_steps = 0

    def state(self) -> torch.Tensor:
        """Return what must survive a resume."""
        return self._bad_obs.cpu().clone()

    def set_state(self, state: torch.Tensor) -> None:
        """Restore what :meth:`state` returned."""
        self._bad_obs.copy_(state)
        self._has_bad_obs = True
        self.restart()

    def _num_bad_max(self, steps: int) -> float:
        """Return how many episodes may end by failures in so many steps; one always may."""
        return max(1.0, self._share * self._sim.num_envs * steps)

    def _stop(self, failed: int, steps: int) -> None:
        path = self._save(
            {
                "qpos": self.last_qpos.cpu(),
                "qvel": self._last_qvel.cpu(),
                "bad": (self._sim.bad() | self._bad_obs).cpu(),
            }
        )
        raise SimulationError(
            f"{failed} of {self._sim.num_envs} environments became non-finite within {steps} "
            f"steps, more than the share env.nan_guard.max_bad_share={self._share}. Their states "
            f"and actions before the step are in {path}; a smaller env.sim.dt or smaller actions "
            "are the usual cure."
        )


def _sums_up(values: torch.Tensor) -> bool:
    """Return whether the sum of ``values`` is finite, and so all are: one pass instead of three.

    A sum of finite values may overflow; the caller then looks at each of them.
    """
    return math.isfinite(float(values.sum()))
