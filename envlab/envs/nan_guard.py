"""The NaN guard: environments that are no longer finite are reset, counted and reported."""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from envlab.distributed.readings import Readings
from envlab.errors import SimulationError
from envlab.sim.host import on_host
from envlab.sim.simulation import Simulation
from envlab.state import State

logger = logging.getLogger(__name__)


class NanGuard:
    """Watches physics, rewards and observations of an environment.

    A failure ends the episode with reward 0.
    """

    STATE = State(per_env=("_bad_obs",))

    def __init__(
        self, sim: Simulation, failures: FailureCounter, *, allows_overflow: bool = False
    ) -> None:
        """Watch ``sim``, and count failures."""
        self._sim, self._failures = sim, failures
        self._allows_overflow, self._has_overflowed = allows_overflow, False
        self._is_cpu = on_host(sim.device)
        self.last_qpos, self._last_qvel = sim.data.qpos.clone(), sim.data.qvel.clone()
        self._bad_obs = torch.zeros(sim.num_envs, dtype=torch.bool, device=sim.device)
        self._has_bad_obs = False
        self._overflowed: float | None = None

    def remember(self) -> None:
        """Keep the state before a step, for rewards of progress and to save if the step fails."""
        data = self._sim.data
        torch._foreach_copy_([self.last_qpos, self._last_qvel], [data.qpos, data.qvel])

    def look(self) -> None:
        """Query physics right after a step: later, it would split a recorded step in two."""
        self._bad = self._sim.bad()

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
        bad = self._bad
        if self._is_cpu and not self._has_bad_obs and not bad.numpy().any() and _sums_up(reward):
            return terminated, reward
        finite, bad = _finite(reward.masked_fill(bad | self._bad_obs, math.nan))
        if bad.dim() > 1:  # a row per agent
            bad = bad.any(dim=0)
            finite.masked_fill_(bad, 0.0)
        self._failures.add(bad)
        return terminated | bad, finite

    def clean(self, observations: dict[str, Any]) -> None:
        """Replace non-finite observations by 0; their environments are reset at the next step."""
        found = self._replace(observations)
        if found:  # in place, because a graph refers to these tensors
            bad = found[0] if len(found) == 1 else torch.cat(found, dim=1)
            torch.any(bad, dim=1, out=self._bad_obs)
        elif self._has_bad_obs:
            self._bad_obs.zero_()
        self._has_bad_obs = bool(found)

    def _replace(self, observations: dict[str, Any]) -> list[torch.Tensor]:
        """Replace non-finite observations by 0, and return where tensors that have some do."""
        found = []
        for name, values in observations.items():
            if isinstance(values, dict):
                found += self._replace(values)
            elif not (self._is_cpu and _sums_up(values)):
                observations[name], bad = _finite(values)
                found.append(bad.flatten(1))
        return found

    def ask(self, readings: Readings) -> None:
        """Have what :meth:`check_memory` needs read along with others."""
        readings.ask(self._sim.overflow().sum(), self._know)

    def _know(self, numbers: Sequence[float]) -> None:
        (self._overflowed,) = numbers

    def check_memory(self) -> None:
        """Report environments that overflowed. Waits for the GPU.

        Raises:
            SimulationError: If it happens again, unless ``env.sim.allow_overflow`` is set.
        """
        known, self._overflowed = self._overflowed, None
        overflowed = int(self._sim.overflow().sum() if known is None else known)
        if not overflowed:
            return
        sentence = (
            f"{overflowed} environments ran out of contact memory, so contacts were dropped. "
            f"{self._sim.overflow_advice()}"
        )
        if self._has_overflowed and not self._allows_overflow:
            raise SimulationError(
                f"For the second time, {sentence} Or set env.sim.allow_overflow=true."
            )
        self._has_overflowed = True
        logger.warning("%s", sentence)

    def on_restore(self) -> None:
        """Look for observations that are not finite: there may be some."""
        self._has_bad_obs = True

    def failed_states(self) -> dict[str, torch.Tensor]:
        """Return the states before the step, and which environments failed, to be saved."""
        return {
            "qpos": self.last_qpos.cpu(),
            "qvel": self._last_qvel.cpu(),
            "bad": (self._sim.bad() | self._bad_obs).cpu(),
        }


def _finite(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ``values`` with 0 for infinities and NaN, and a mask of these.

    They differ from their replacement: two operations, where isfinite alone has four.
    """
    finite = torch.nan_to_num(values, posinf=0.0, neginf=0.0)
    return finite, finite != values


def _sums_up(values: torch.Tensor) -> bool:
    """Return whether the sum of ``values``, and so each, is finite: one pass instead of three.

    A sum of finite values may overflow; the caller then looks at each of them.
    """
    return math.isfinite(float(values.sum()))


class FailureCounter:
    """Counts environments whose episodes were ended because their values were not finite.

    On a CPU, too many in a step stop the run in that step; on a GPU, to avoid waiting for it, at
    the next :meth:`report`.
    """

    def __init__(
        self,
        num_envs: int,
        max_bad_share: float,
        device: torch.device,
        explain: Callable[[], str],
        name_terms: Callable[[], str] = str,
    ) -> None:
        """Count from 0.

        Args:
            num_envs: Environments of this process.
            max_bad_share: See :class:`envlab.envs.cfg.NanGuardCfg`.
            device: Device of the counter.
            explain: Called when the run stops; returns what to add to the message.
            name_terms: Called on a CPU when an environment fails; returns a sentence on the terms
                that are not finite, empty where it is physics.
        """
        self._num_envs, self._share, self._explain = num_envs, max_bad_share, explain
        self._num_failed = torch.zeros(num_envs, dtype=torch.int64, device=device)
        self._name_terms, self._named = name_terms, ""
        self._known: float | None = None
        self.num_steps = 0
        """Steps since failures were last reported."""

    def add(self, failed: torch.Tensor) -> None:
        """Count the environments that broke down in a step.

        Args:
            failed: Which, bool ``(num_envs,)``.

        Raises:
            SimulationError: On a CPU, if they are too many.
        """
        self._num_failed += failed
        if on_host(failed.device):
            self._named = self._named or self._name_terms()
            self._limit(int(failed.sum()), 1)

    def ask(self, readings: Readings) -> None:
        """Have what :meth:`report` needs read along with others."""
        readings.ask(self._num_failed.sum(), functools.partial(self._know, self.num_steps))

    def _know(self, num_steps: int, numbers: Sequence[float]) -> None:
        if num_steps == self.num_steps:  # no more steps were made meanwhile
            (self._known,) = numbers

    def report(self) -> None:
        """Log how many failed since the last report. Waits for the GPU, unless asked before.

        Raises:
            SimulationError: If more than the configured share failed per step, on average.
        """
        failed = int(self._num_failed.sum() if self._known is None else self._known)
        steps = max(1, self.num_steps)
        named = self._named
        self.restart()
        if failed:
            logger.warning(
                "%d environment episodes were ended by non-finite values in the last %d steps.%s",
                failed,
                steps,
                f" {named}" if named else "",
            )
        self._limit(failed, steps)

    def restart(self) -> None:
        """Count from 0 again."""
        self._num_failed.zero_()
        self._named, self._known = "", None
        self.num_steps = 0

    def _limit(self, failed: int, steps: int) -> None:
        """Stop the run if more than the allowed share failed; one may always fail."""
        if failed <= max(1.0, self._share * self._num_envs * steps):
            return
        raise SimulationError(
            f"{failed} of {self._num_envs} environments became non-finite within {steps} steps, "
            f"more than the share env.nan_guard.max_bad_share={self._share}. {self._explain()}"
        )
