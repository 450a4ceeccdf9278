"""Stragglers: a rank that still collects when enough others are done stops early (DD-PPO).

Wijmans et al., "DD-PPO" (2020), section 3. Ranks count who is done in the store that they met by.
Each rollout has a key of its own, so that nothing is set to zero and nobody waits before a rollout.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Mapping, Sequence

import torch.distributed as dist

from envlab.distributed.context import DistributedContext

WINDOW = (0.25, 0.9)
"""Shares of a rollout between which it may end: before, it has too little to learn from; after, it
is hardly worth it. AllenAct's."""
_PAUSE = 100.0
"""The counter is left alone for so many times as long as reading it took: at most 1 % is lost."""


class Preemption:
    """Tells this rank when to stop collecting; see :meth:`should_stop`.

    Attributes:
        num_needed: Ranks that must be done before others are stopped; None: nobody is.
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
                short, and the run can be repeated bit by bit.
            replayed: By rollout, the steps of each rank that a run had, in place of the counters.
        """
        self._context, self._replayed = context, replayed
        self.num_needed = needed(threshold, context.world_size)
        if replayed is not None:
            self.num_needed = None
        nonce = context.broadcast(secrets.token_hex(8))
        # Under a name of its own, because a restarted launch finds the store as it was left.
        self._store: dist.Store | None = None
        if self.num_needed is not None and context.store is not None:
            self._store = dist.PrefixStore(f"preemption/{nonce}", context.store)

    @property
    def is_off(self) -> bool:
        """Whether all ranks collect all steps of all rollouts."""
        return self.num_needed is None and self._replayed is None

    def start(self, rollout: int, num_steps: int) -> None:
        """Begin to collect.

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
            self._store.delete_key(str(rollout - 2))  # all ranks have met since it

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
        """Tell the others that this rank has stopped collecting."""
        if self._store is not None:
            self._store.add(self._key, 1)


def needed(threshold: float, world_size: int) -> int | None:
    """Return how many ranks must be done before the others are stopped; None: they never are.

    All but one are always enough: a share of 2 or 3 ranks, rounded up, may be all of them.
    """
    if threshold >= 1.0 or world_size == 1:
        return None
    return min(math.ceil(round(threshold * world_size, 9)), world_size - 1)
