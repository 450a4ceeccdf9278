"""Heartbeats: what each rank tells the others about itself every second, and how they see it."""

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
from envlab.distributed.processes import state_of
from envlab.distributed.progress import REDUCE, Progress
from envlab.distributed.stacks import awaited, in_debugger

LOOK_AFTER_S = 1.0
"""After how long without progress the main thread's stack is asked what it waits for."""


@dataclass(frozen=True, kw_only=True)
class Heartbeat:
    """What a rank reports about itself."""

    rank: int
    host: str
    """Host name, for people."""
    machine: str
    """Names the system whose process numbers :attr:`pid` is one of."""
    pid: int
    number: int
    """Counts the heartbeats of this rank."""
    phase: str
    within: str
    detail: str
    iteration: int
    frames: int
    collectives: int
    idle_s: float
    """Time since its last mark when it was sent, in seconds."""
    is_warm: bool
    waits: str
    """The collective that its main thread stands in, if any."""
    failure: str
    device: str = "cpu"
    cpu: float = 0.0
    """Cores in use since the heartbeat before."""
    memory_mb: int = 0
    """Resident memory of the process."""
    gpu_memory_mb: int = 0
    """What torch has reserved on the GPU; neither Warp's nor other processes' memory."""

    @classmethod
    def of(cls, progress: Progress, rank: int, number: int, device: str = "cpu") -> Heartbeat:
        """Return the heartbeat of this process now."""
        idle_s = monotonic() - progress.marked_at
        waits = progress.detail if progress.phase == REDUCE else ""
        if idle_s > LOOK_AFTER_S:
            frame = sys._current_frames().get(threading.main_thread().ident or 0)
            waits = waits or awaited(frame)
            if in_debugger(frame):
                progress.mark()  # somebody looks at it
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
            # A counter of torch's own: asking the driver could wait for what the GPU does.
            gpu_memory_mb=torch.cuda.memory_reserved(device) >> 20 if device != "cpu" else 0,
        )

    def to_json(self) -> str:
        """Return it as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> Heartbeat:
        """Return what :meth:`to_json` made text of."""
        return cls(**json.loads(text))

    @property
    def place(self) -> str:
        """Where it is: ``collect of iteration 12``, ``reduce (gather, in iteration) of ...``."""
        phase = f"reduce ({self.detail}, in {self.within})" if self.phase == REDUCE else self.phase
        return f"{phase} of iteration {self.iteration}" if self.iteration else phase

    @property
    def name(self) -> str:
        """Who it is: ``Rank 1 (host node-a, pid 4711)``."""
        return f"Rank {self.rank} (host {self.host}, pid {self.pid})"


@dataclass(frozen=True, kw_only=True)
class Sighting:
    """A rank as another one sees it."""

    heartbeat: Heartbeat
    silent_s: float = 0.0
    """Time since its last heartbeat arrived, in seconds of the one who looks."""
    process: str = "elsewhere"
    """``running``, ``stopped`` or ``gone``; ``elsewhere`` where this machine cannot tell."""

    @property
    def idle_s(self) -> float:
        """Time since its last mark of progress, in seconds, as far as known."""
        return self.heartbeat.idle_s + self.silent_s


@functools.cache
def machine() -> str:
    """Return a short name for the system whose process numbers this process's is one of."""
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
    """Return a process as it was when it was first looked at: its number may be another's later."""
    return psutil.Process(pid)
