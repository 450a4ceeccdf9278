"""Heartbeats: the report of each rank on itself every second, and how other ranks see it."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import socket
import sys
import threading
from dataclasses import asdict, dataclass
from time import monotonic

import psutil
import torch

from envlab.distributed.interface import process_space
from envlab.distributed.processes import awaited, in_debugger, state_of
from envlab.distributed.progress import REDUCE, Progress

LOOK_AFTER_S = 1.0
"""Time without progress after which the main thread's stack is searched for a collective."""


@dataclass(frozen=True, kw_only=True)
class Heartbeat:
    """A rank's report on itself."""

    rank: int
    host: str
    """Host name, for people."""
    machine: str
    """Name of the system in which :attr:`pid` is a process id."""
    pid: int
    number: int
    """Counter of this rank's heartbeats."""
    phase: str
    within: str
    detail: str
    iteration: int
    frames: int
    collectives: int
    idle_s: float
    """Time between its last mark and this heartbeat, in seconds."""
    is_warm: bool
    waits: str
    """The collective that its main thread is in, if any."""
    failure: str
    device: str = "cpu"
    cpu: float = 0.0
    """Cores in use since the previous heartbeat."""
    memory_mb: int = 0
    """Resident memory of the process."""
    gpu_memory_mb: int = 0
    """Memory reserved by torch on the GPU, without Warp's and other processes' memory."""

    @classmethod
    def of(cls, progress: Progress, rank: int, number: int, device: str = "cpu") -> Heartbeat:
        """Return the heartbeat of this process now."""
        idle_s = monotonic() - progress.marked_at
        waits = progress.detail if progress.phase == REDUCE else ""
        if idle_s > LOOK_AFTER_S:
            frame = sys._current_frames().get(threading.main_thread().ident or 0)
            waits = waits or awaited(frame)
            if in_debugger(frame):
                progress.mark()  # somebody is debugging it
        return cls(
            rank=rank,
            host=socket.gethostname(),
            machine=machine(),
            pid=os.getpid(),
            number=number,
            phase=progress.phase,
            within=progress.within,
            detail=progress.detail,
            iteration=progress.iteration,
            frames=progress.frames,
            collectives=progress.collectives,
            idle_s=round(idle_s, 2),
            is_warm=progress.is_warm,
            waits=waits,
            failure=progress.failure,
            device=device,
            cpu=round(_process(os.getpid()).cpu_percent() / 100.0, 2),
            memory_mb=_process(os.getpid()).memory_info().rss >> 20,
            # torch's own counter, because asking the driver could wait for the GPU.
            gpu_memory_mb=torch.cuda.memory_reserved(device) >> 20 if device != "cpu" else 0,
        )

    def to_json(self) -> str:
        """Return it as JSON text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> Heartbeat:
        """Return the heartbeat in the text of :meth:`to_json`."""
        return cls(**json.loads(text))

    @property
    def place(self) -> str:
        """Where it is: ``collect of iteration 12``, ``reduce (gather, in iteration) of ...``."""
        phase = f"reduce ({self.detail}, in {self.within})" if self.phase == REDUCE else self.phase
        return f"{phase} of iteration {self.iteration}" if self.iteration else phase

    @property
    def name(self) -> str:
        """The rank's name: ``Rank 1 (host node-a, pid 4711)``."""
        return f"Rank {self.rank} (host {self.host}, pid {self.pid})"


@dataclass(frozen=True, kw_only=True)
class Sighting:
    """A rank as seen by another one."""

    heartbeat: Heartbeat
    silent_s: float = 0.0
    """Time since its last heartbeat arrived, in seconds of the observer's clock."""
    process: str = "elsewhere"
    """``running``, ``stopped`` or ``gone``; ``elsewhere`` if it is on another system."""

    @property
    def idle_s(self) -> float:
        """Time since its last mark of progress as far as known, in seconds."""
        return self.heartbeat.idle_s + self.silent_s


@functools.cache
def machine() -> str:
    """Return a short name for the system in which this process's id is valid."""
    return hashlib.sha256(process_space().encode()).hexdigest()[:16]


def process_state(heartbeat: Heartbeat) -> str:
    """Return a process's state: ``running``, ``stopped``, ``gone`` or ``elsewhere``."""
    if heartbeat.machine != machine():
        return "elsewhere"
    try:
        return state_of(_process(heartbeat.pid))
    except psutil.NoSuchProcess:
        return "gone"


@functools.cache
def _process(pid: int) -> psutil.Process:
    """Return a process as first seen, because its id may be reused later."""
    return psutil.Process(pid)
