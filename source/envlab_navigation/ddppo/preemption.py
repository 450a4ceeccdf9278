"""Stragglers: a rank that still collects when enough others are done stops early (DD-PPO).

Wijmans et al., "DD-PPO" (2020), section 3. Ranks count themselves when done in the store by which
they met. Each rollout has its own key, so nothing needs resetting and no rank waits for a rollout.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Mapping, Sequence

import torch.distributed as dist

from envlab.distributed.context import DistributedContext

WINDOW = (0.25, 0.9)
"""Fractions of a rollout between which it may be cut short, from AllenAct: earlier, it is too
little to learn from; later, it is hardly worth it."""
_PAUSE = 100.0
"""Pause between reads of the counter, in durations of a read, so reading takes at most 1 %."""


class Preemption:
    """Decides when this rank stops collecting; see :meth:`should_stop`.

    Attributes:
        num_needed: Ranks that must be done before others are stopped; None: none is.
    """

    def __init__(
        self,
        context: DistributedContext,
        threshold: float = 1.0,
        *,
        replayed: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        """Agree on a name for this run's counters; every rank must call this.

        Args:
            context: The process's context.
            threshold: Share of the ranks that must be done, above 0; 1: rollouts are never cut
                short, and the run can be repeated bit for bit.
            replayed: Each rank's steps in a recorded run, by rollout, instead of the counters.
        """
        self._context, self._replayed = context, replayed
        self.num_needed = needed(threshold, context.world_size)
        if replayed is not None:
            self.num_needed = None
        nonce = context.broadcast(secrets.token_hex(8))
        # Under its own name, because a restarted launch finds the store as it was left.
        self._store: dist.Store | None = None
        if self.num_needed is not None and context.store is not None:
            self._store = dist.PrefixStore(f"preemption/{nonce}", context.store)

    @property
    def is_off(self) -> bool:
        """Whether all ranks collect all steps of all rollouts."""
        return self.num_needed is None and self._replayed is None

    def start(self, rollout: int, num_steps: int) -> None:
        """Begin a rollout.

        Args:
            rollout: Its number, the same on all ranks and each used once, in order.
            num_steps: Steps of each environment that are planned.
        """
        self._key = str(rollout)
        self._first, self._last = (share * num_steps for share in WINDOW)
        self._stop_after: int | None = None
        if self._replayed is not None and rollout in self._replayed:
            self._stop_after = self._replayed[rollout][self._context.rank]
        self._next_read = 0.0
        if self._store is not None and self._context.is_main and rollout >= 2:
            self._store.delete_key(str(rollout - 2))  # all ranks have met since then

    def should_stop(self, step: int) -> bool:
        """Return whether to stop after ``step``, counted from 0."""
        if self._stop_after is not None:
            return step + 1 >= self._stop_after
        if self._store is None or not self._first <= step < self._last:
            return False
        start = time.perf_counter()
        if start < self._next_read:
            return False
        num_done = self._store.add(self._key, 0)
        end = time.perf_counter()
        self._next_read = end + _PAUSE * (end - start)
        return self.num_needed is not None and num_done >= self.num_needed

    def finish(self) -> None:
        """Count this rank as done collecting."""
        if self._store is not None:
            self._store.add(self._key, 1)


def needed(threshold: float, world_size: int) -> int | None:
    """Return how many ranks must be done before the others are stopped; None: they never are.

    All but one always suffice, because a fraction of 2 or 3 ranks, rounded up, may be all of them.
    """
    if threshold >= 1.0 or world_size == 1:
        return None
    return min(math.ceil(round(threshold * world_size, 9)), world_size - 1)
