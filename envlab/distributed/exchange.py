"""The exchange: a thread that sends a rank's heartbeats to all others by the launcher's store.

It has its own client connection, because torch's may be held by a waiting collective, and its own
thread, because a store that does not answer blocks its client forever (torch 2.13: reads have no
deadline). Its callers never touch the network.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable
from datetime import timedelta
from time import monotonic, sleep

import torch.distributed as dist

from envlab.distributed.context import DistributedContext
from envlab.distributed.heartbeat import Heartbeat, Sighting, process_state
from envlab.distributed.ranks import MeetingPoint

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT = timedelta(seconds=60)
PAUSE_S = 8.0
"""A longer gap between two of our own heartbeats means that this process was suspended."""
RANKS_PER_SECOND = 64
"""Heartbeats that one rank reads per second; with more ranks, each sends less often."""
SLOWEST_S = 3.0
HASTE_S = 0.1
"""Interval once there is a verdict."""
LEAVE_S = 5.0
"""How long the rank that keeps the store waits for the others to leave it."""


class Exchange(threading.Thread):
    """Sends this rank's heartbeats, and keeps the latest one of every rank.

    Attributes:
        address: Address of the store, for people.
        verdict: The verdict of the first rank that reached one, empty before.
        stacks: Stacks by rank, as they arrive after a verdict.
        is_reported: Whether the verdict's report was printed.
        answered_at: When the store last answered, in seconds of the monotonic clock.
    """

    def __init__(
        self,
        context: DistributedContext,
        make_heartbeat: Callable[[int], Heartbeat],
        point: MeetingPoint,
    ) -> None:
        """Connect, and meet all ranks; every rank must call this.

        Args:
            context: The process's context.
            make_heartbeat: Returns a heartbeat of this rank, given the heartbeat's number.
            point: Where the store is.
        """
        super().__init__(name="watchdog exchange", daemon=True)
        self.interval_s = min(max(1.0, context.world_size / RANKS_PER_SECOND), SLOWEST_S)
        self.verdict, self.is_reported = "", False
        self.stacks: dict[int, str] = {}
        self.address = str(point)
        self._rank, self._make_heartbeat, self._number = context.rank, make_heartbeat, 0
        self._lock = threading.Lock()
        self._outbox: dict[str, str] = {}
        self._wake, self._stopping = threading.Event(), threading.Event()
        self._launcher, self._kept_by_main = os.getppid(), not point.is_kept
        # Restarts of a job share the store.
        self._prefix = f"envlab/{context.broadcast(os.urandom(8).hex())}/"
        self._names = [f"heartbeat/{rank}" for rank in range(context.world_size)]
        self._late_names = [f"stacks/{rank}" for rank in range(context.world_size)]
        self._store = dist.TCPStore(
            point.host,
            point.port,
            is_master=False,
            wait_for_workers=False,
            timeout=CONNECT_TIMEOUT,
        )
        mine = make_heartbeat(0)
        self._set(f"heartbeat/{self._rank}", mine.to_json())
        self._set(f"stacks/{self._rank}", "")
        if context.is_main:
            self._set("verdict", "")
            self._set("reported", "")
        heartbeats = context.gather(mine)  # from here on every key exists, so reads never wait
        self.answered_at = monotonic()
        self._seen = {heartbeat.rank: (heartbeat, self.answered_at) for heartbeat in heartbeats}

    def sightings(self) -> dict[int, Sighting]:
        """Return all ranks as seen from here, this one in its current state."""
        now = monotonic()
        with self._lock:
            seen = dict(self._seen)
        found = {
            rank: Sighting(heartbeat=heartbeat, silent_s=now - at, process=process_state(heartbeat))
            for rank, (heartbeat, at) in seen.items()
        }
        own = self._make_heartbeat(self._number)
        found[self._rank] = Sighting(heartbeat=own, process="running")
        return found

    @property
    def silent_s(self) -> float:
        """Seconds since the store last answered."""
        return monotonic() - self.answered_at

    @property
    def is_deaf(self) -> bool:
        """Whether the thread has ended, so that no heartbeats arrive any more."""
        return not self.is_alive()

    def forgive(self) -> None:
        """Restart all clocks of silence, because this process itself was suspended."""
        now = monotonic()
        with self._lock:
            self._seen = {rank: (heartbeat, now) for rank, (heartbeat, _) in self._seen.items()}
            self.answered_at = now

    def post(self, name: str, text: str) -> None:
        """Queue a message: ``stacks``, ``verdict`` (the first one stays) or ``reported``."""
        with self._lock:
            self._outbox[name] = text
        self._wake.set()

    def flush(self) -> None:
        """Send a heartbeat soon."""
        self._wake.set()

    def stop(self) -> None:
        """End the thread, unless the store blocks it, and leave the store.

        A rank that hosts the store leaves last, because torch 2.13 prints 20 frames of C++ ("Broken
        pipe") if a store disappears during a write.
        """
        self._stopping.set()
        self._wake.set()
        self.join(1.0)
        if self.is_alive() or not self._kept_by_main:
            return
        with contextlib.suppress(dist.DistError):
            if self._rank > 0:
                if self._store_lives():
                    self._set(f"left/{self._rank}", "")
                return
            deadline = monotonic() + LEAVE_S
            while monotonic() < deadline and any(map(self._stays, self._seen)):
                sleep(0.02)

    def _stays(self, rank: int) -> bool:
        """Return whether another rank is still connected to the store."""
        if rank == self._rank or process_state(self._seen[rank][0]) == "gone":
            return False
        return not self._store.check([f"{self._prefix}left/{rank}"])

    def run(self) -> None:
        """Send heartbeats until stopped, and one more; also stop if the store has closed."""
        is_last = False
        while not is_last:
            is_last = self._stopping.is_set()
            try:
                self._heartbeat()  # the last one shows that this rank left rather than died
            except dist.DistError:
                if self._store_lives() and not self._stopping.is_set():
                    logger.warning(
                        "The store of the launcher has closed the connection, so hangs of other "
                        "ranks go unnoticed from here on."
                    )
                return
            if not self._stopping.is_set():
                self._wake.wait(HASTE_S if self.verdict else self.interval_s)
                self._wake.clear()

    def _heartbeat(self) -> None:
        """Send queued messages and read those of the others."""
        if not self._store_lives():  # torch would complain at length
            self._stopping.set()
            return
        self._number += 1
        self._set(f"heartbeat/{self._rank}", self._make_heartbeat(self._number).to_json())
        with self._lock:
            outbox, self._outbox = self._outbox, {}
        for name, text in outbox.items():
            if name == "verdict":
                self._store.compare_set(self._prefix + name, "", text)
            else:
                self._set(f"stacks/{self._rank}" if name == "stacks" else name, text)
        names = ["verdict", *self._names]
        if self.verdict:
            names += ["reported", *self._late_names]
        values = self._store.multi_get([self._prefix + name for name in names])
        self._take({name: value.decode() for name, value in zip(names, values, strict=True)})

    def _store_lives(self) -> bool:
        """Return whether the store's host may be alive."""
        if os.getppid() != self._launcher:
            return False
        return not self._kept_by_main or process_state(self._seen[0][0]) != "gone"

    def _take(self, values: dict[str, str]) -> None:
        now = monotonic()
        with self._lock:
            if now - self.answered_at > self.interval_s + PAUSE_S:
                self._seen = {rank: (heartbeat, now) for rank, (heartbeat, _) in self._seen.items()}
            self.answered_at = now
            for rank, (old, _) in list(self._seen.items()):
                heartbeat = Heartbeat.from_json(values[f"heartbeat/{rank}"])
                if heartbeat.number != old.number:
                    self._seen[rank] = (heartbeat, now)
        self.verdict = values["verdict"]
        self.is_reported = bool(values.get("reported"))
        for rank in self._seen:
            if text := values.get(f"stacks/{rank}"):
                self.stacks[rank] = text

    def _set(self, name: str, text: str) -> None:
        self._store.set(self._prefix + name, text)
