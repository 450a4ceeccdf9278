"""One object with this process's place in the job: rank, device, world, seed.

The context is made once per process, before any RL library or CUDA context, because libraries
hard-code ``nccl`` and read the launcher's variables themselves, and because memory allocated before
the device is set lands on ``cuda:0`` on every rank.
"""

from __future__ import annotations

import gc
import logging
import os
import re
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from envlab.distributed.gathering import (
    ROOM,
    gather,
    gather_to_main,
    scatter_from_main,
    transfer,
)
from envlab.distributed.interrupt import default_signals
from envlab.distributed.limits import usable_threads
from envlab.distributed.network import settle_network
from envlab.distributed.progress import REDUCE, Progress
from envlab.distributed.ranks import meeting_point, read_ranks
from envlab.distributed.rendezvous import REACH_S, meet
from envlab.distributed.timeouts import STARTUP_TIMEOUT_S
from envlab.errors import DeviceError, EnvlabError, LaunchError
from envlab.late_compiler import import_compiler_late

import_compiler_late()
logger = logging.getLogger(__name__)

T = TypeVar("T")

TIMEOUT = timedelta(minutes=10)
"""How long the ranks may take to meet. Warp compiles kernels for up to a minute on a first run."""


@dataclass(frozen=True, kw_only=True)
class DistributedContext:
    """This process's place in the job. Use :meth:`create`, or :meth:`single` for one process."""

    rank: int = 0
    """Global rank of this process."""
    local_rank: int = 0
    """Rank among the processes of this node."""
    world_size: int = 1
    """Number of processes."""
    local_world_size: int = 1
    """Number of processes on this node."""
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    """The device that this process is pinned to."""
    backend: str | None = None
    """Backend of the process group, null without one."""
    num_threads: int = 1
    """CPU threads for this process: the node's cores divided by its processes."""
    progress: Progress = field(default_factory=Progress, compare=False)
    """The current activity of this process."""
    store: dist.Store | None = field(default=None, compare=False, repr=False)
    """The store by which the ranks met. If this process hosts it, only as long as this lives."""

    def __deepcopy__(self, memo: object) -> DistributedContext:
        """Return itself: a process has only one, even if libraries copy objects that hold it."""
        return self

    @property
    def is_main(self) -> bool:
        """Whether this process does the work that is done once: files, progress, messages."""
        return self.rank == 0

    @property
    def is_distributed(self) -> bool:
        """Whether there are other ranks to agree with."""
        return self.world_size > 1

    @property
    def node(self) -> str:
        """Host name of this node."""
        return socket.gethostname()

    @classmethod
    def create(
        cls, distributed: bool, device: str | None = None, *, timeout_s: float = 0.0
    ) -> DistributedContext:
        """Pin this process, set its threads, and join the process group if there are other ranks.

        Args:
            distributed: Whether ``--distributed`` was given.
            device: ``cpu``, ``cuda``, ``cuda:<index>``, or None: ``cuda`` if there is one, else
                ``cpu``.
            timeout_s: The watchdog's timeout; collectives wait longer, so that it reports first.

        Raises:
            LaunchError: If ``distributed`` does not match how the process was launched.
            DeviceError: If the device does not exist or is needed by two ranks.
        """
        ranks = read_ranks(distributed, os.environ)
        num_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
        resolved = resolve_device(device, ranks["local_rank"], ranks["local_world_size"], num_gpus)
        num_threads = usable_threads(ranks["local_world_size"])
        torch.set_num_threads(num_threads)
        if resolved.type == "cuda":
            torch.cuda.set_device(resolved)
        backend = store = None
        if ranks["world_size"] > 1:
            backend = "cpu:gloo,cuda:nccl" if resolved.type == "cuda" else "gloo"
            patience = timedelta(seconds=max(STARTUP_TIMEOUT_S, timeout_s) + 60.0)
            store = _join(backend, ranks["rank"], ranks["world_size"], patience, timeout_s)
            if resolved.type == "cuda":
                _check_gpus_differ(resolved)
        return cls(
            device=resolved,
            backend=backend,
            num_threads=num_threads,
            progress=Progress(),
            store=store,
            **ranks,
        )

    @classmethod
    def single(cls, device: str | None = None) -> DistributedContext:
        """Return the context of a lone process, whatever the environment variables say."""
        num_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
        resolved = resolve_device(device, 0, 1, num_gpus)
        if resolved.type == "cuda":
            torch.cuda.set_device(resolved)
        return cls(device=resolved, num_threads=usable_threads(1))

    def alone(self) -> DistributedContext:
        """Return the context of this process as if it were the only one."""
        return replace(self, rank=0, world_size=1)

    def broadcast(self, value: Any) -> Any:
        """Return rank 0's ``value`` on every rank (any picklable object)."""
        if not self.is_distributed:
            return value
        box = [value]
        with self.progress.during(REDUCE, "broadcast"):
            dist.broadcast_object_list(box, src=0, device=torch.device("cpu"))
        return box[0]

    def once(self, function: Callable[[], T]) -> T:
        """Call ``function`` on rank 0 and return its result on every rank.

        Raises:
            EnvlabError: On every rank, the error that rank 0 raised.
        """
        outcome: tuple[Any, EnvlabError | None] = (None, None)
        if self.is_main:
            try:
                outcome = (function(), None)
            except EnvlabError as error:
                outcome = (None, error)
        value, problem = self.broadcast(outcome)
        if problem is not None:
            raise problem
        return value

    def gather(self, value: T, *, room: int = ROOM) -> list[T]:
        """Return every rank's ``value`` on every rank, in rank order (any picklable object).

        Values whose pickles have up to ``room`` bytes, the same number on all ranks, are exchanged
        at once; others take a second exchange.
        """
        if not self.is_distributed:
            return [value]
        with self.progress.during(REDUCE, "gather"):
            return gather(value, self.world_size, room)

    def sum(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the sum of ``tensor`` over ranks."""
        if self.is_distributed:
            tensor = tensor.clone()
            with self.progress.during(REDUCE, "sum"):
                dist.all_reduce(tensor)
        return tensor

    def max(self, *numbers: int) -> list[int]:
        """Return the maximum of each number over ranks; every rank must call this."""
        if not self.is_distributed:
            return list(numbers)
        tensor = torch.tensor(numbers, dtype=torch.int64)
        with self.progress.during(REDUCE, "max"):
            dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
        return tensor.tolist()

    def gather_to_main(self, value: Any) -> list[Any] | None:
        """Return every rank's ``value`` on rank 0, in rank order, and None on the others."""
        if not self.is_distributed:
            return [value]
        with self.progress.during(REDUCE, "gather_to_main"):
            return gather_to_main(value, self.world_size, self.rank, moved=self.progress.mark)

    def scatter_from_main(self, values: Sequence[Any] | None) -> Any:
        """Return this rank's one of ``values``: one per rank on rank 0, ignored elsewhere."""
        if not self.is_distributed:
            assert values is not None
            return values[0]
        with self.progress.during(REDUCE, "scatter_from_main"):
            return scatter_from_main(values, self.world_size, self.rank, moved=self.progress.mark)

    def transfer(self, value: Any, *, source: int, target: int) -> Any:
        """Return a rank's value on another one, with its tensors on the CPU; None on all others.

        Every rank may call this, but only the two take part. The source keeps its value.
        """
        if self.rank not in (source, target):
            return None
        with self.progress.during(REDUCE, "transfer"):
            return transfer(value, source, target, self.rank, moved=self.progress.mark)

    def close(self, *, abort: bool = False) -> None:
        """Leave the process group. Safe to call twice, and after an error on another rank.

        Args:
            abort: Whether work that never ends may be under way. Otherwise NCCL waits for it (torch
                2.13).
        """
        self.progress.mark("close")
        if dist.is_initialized():
            # A DDP module is part of reference cycles. One that outlives the process group keeps
            # its threads until the interpreter's end, which then aborts now and then (torch 2.13).
            gc.collect()
            if abort and self.device.type == "cuda":
                dist.distributed_c10d._abort_process_group()
            else:
                leave_process_group()


def leave_process_group() -> None:
    """Destroy the process group once its threads no longer hold any Python objects.

    A gloo thread releases a backward pass's collective only after that has returned, and needs the
    interpreter to do so. If destroyed right then, the group waits for the thread while holding the
    interpreter, forever (torch 2.13: one in 4,000 times on two busy cores).
    """
    time.sleep(0.05)
    dist.destroy_process_group()


def _join(
    backend: str, rank: int, world_size: int, patience: timedelta, timeout_s: float
) -> dist.Store:
    """Join the process group at the launcher's address, and return its store.

    Args:
        backend: The group's backend.
        rank: Global rank of this process.
        world_size: Number of processes.
        patience: How long a collective may take.
        timeout_s: The user's ``--timeout_s``, 0 if there is none.

    Raises:
        LaunchError: If the ranks cannot meet at that address.
    """
    point = meeting_point(os.environ)
    try:
        with default_signals():
            answer_s = min(REACH_S, timeout_s or REACH_S)
            store = meet(point, rank, world_size, TIMEOUT, answer_s=answer_s)
            has_nccl = "nccl" in backend
            settle_network(
                store, rank, world_size, towards=point.host, nccl=has_nccl, timeout=TIMEOUT
            )
            dist.init_process_group(
                backend, store=store, rank=rank, world_size=world_size, timeout=patience
            )
    except dist.DistError as problem:
        reason = str(problem).splitlines()[0]
        raise LaunchError(
            f"Rank {rank} cannot meet the other ranks at {point} ({reason}). {point.hint}",
            same_on_all_ranks=False,
        ) from problem
    return store


def resolve_device(
    requested: str | None, local_rank: int, local_world_size: int, num_gpus: int
) -> torch.device:
    """Return the device for a process.

    If each process sees exactly one GPU (as Slurm masks them), every rank uses its ``cuda:0``, and
    :meth:`DistributedContext.create` then checks that these are different GPUs.

    Raises:
        DeviceError: For a device that is unknown or absent, or fewer GPUs than local processes.
    """
    requested = requested or ("cuda" if num_gpus else "cpu")
    words = re.fullmatch(r"cpu|cuda(?::(\d+))?", requested)
    if words is None:
        raise DeviceError(f"--device is {requested!r}, but must be cpu, cuda or cuda:<index>.")
    if requested == "cpu":
        return torch.device("cpu")
    if num_gpus == 0:
        raise DeviceError(
            f"--device is {requested!r}, but torch sees no CUDA device on this machine "
            f"(torch {torch.__version__}). Use --device cpu, or leave the flag out."
        )
    index = words[1]
    if index is not None and local_world_size > 1:
        raise DeviceError(
            f"--device is {requested!r}, but {local_world_size} processes run on this node and "
            "each needs its own GPU. Use --device cuda, and CUDA_VISIBLE_DEVICES to choose the "
            "GPUs."
        )
    own = 0 if num_gpus == 1 else local_rank
    wanted = own if index is None else int(index)
    if wanted >= num_gpus or (num_gpus > 1 and local_world_size > num_gpus):
        raise DeviceError(
            f"{local_world_size} processes run on this node and device cuda:{wanted} is needed, "
            f"but torch sees {num_gpus} GPUs. Start at most {num_gpus} processes per node, or use "
            "--device cpu."
        )
    return torch.device("cuda", wanted)


def _check_gpus_differ(device: torch.device) -> None:
    """Refuse two ranks on one GPU, where NCCL would hang or fail later with a worse message."""
    mine = (socket.gethostname(), str(torch.cuda.get_device_properties(device).uuid))
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, mine)
    check_distinct_gpus(everyone)


def check_distinct_gpus(gpus: list[tuple[str, str]]) -> None:
    """Raise unless all (node, GPU identifier) pairs, in rank order, differ.

    Raises:
        DeviceError: Naming a node, its number of processes and its number of GPUs.
    """
    for node in dict.fromkeys(node for node, _ in gpus):
        used = [gpu for other, gpu in gpus if other == node]
        if len(set(used)) < len(used):
            raise DeviceError(
                f"{len(used)} processes run on node {node}, but they see only {len(set(used))} "
                f"different GPUs. Start at most {len(set(used))} processes on it, or use --device "
                "cpu."
            )
