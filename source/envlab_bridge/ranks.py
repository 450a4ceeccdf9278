"""Several processes of one launch, for scripts of other projects, written for one.

The launcher joins the ranks before a script runs. A script that names ``cuda:0`` then gets its
rank's own GPU, its own random draws, and an existing process group, on NCCL or, without GPUs, on
gloo.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.overrides import TorchFunctionMode

from envlab.distributed.context import DistributedContext
from envlab.distributed.ranks import launched_world_size

_context = DistributedContext()
_is_on_cpu = False


def context() -> DistributedContext:
    """Return this process's context: alone, unless :func:`join_ranks` found others."""
    return _context


def join_ranks(is_asked: bool) -> DistributedContext:
    """Join the other processes of a launch, if it has any.

    Args:
        is_asked: Whether ``--distributed`` was given, which requires a launch.

    Raises:
        LaunchError: If a launch is required and there is none, or the ranks cannot meet.
        DeviceError: If there are fewer GPUs than processes.
    """
    global _context
    if is_asked or launched_world_size() > 1:
        _context = DistributedContext.create(True)
        dist.init_process_group = _do_nothing  # type: ignore[attr-defined]
        if _context.device.type == "cpu":
            take_cpu_for_cuda()
    return _context


def take_cpu_for_cuda() -> None:
    """Place everything on the CPU from now on, whichever GPU a script names."""
    global _is_on_cpu
    if not _is_on_cpu:
        _is_on_cpu = True
        torch.cuda.set_device = _do_nothing
        torch.cuda.mem_get_info = _host_memory
        torch.compiler.set_stance("force_eager")  # rl_games compiles, which the mode is not for
        torch.load, torch.jit.load = _onto_cpu(torch.load), _onto_cpu(torch.jit.load)
        _CpuForCuda().__enter__()  # for the life of the process


def is_on_cpu() -> bool:
    """Return whether ``cuda:N`` means the CPU."""
    return _is_on_cpu


def own_device(name: str) -> str:
    """Return this rank's GPU if ``name`` is a GPU and there are several ranks."""
    if _context.is_distributed and name.startswith("cuda"):
        return str(_context.device)
    return name


def draw_apart() -> None:
    """Let the ranks' generators differ, since scripts give them equal seeds."""
    if _context.rank:
        seed = torch.initial_seed() + _context.rank
        torch.manual_seed(seed)
        np.random.seed(seed % 2**32)
        random.seed(seed)


def _do_nothing(*arguments: Any, **keywords: Any) -> None:
    """Replace a function whose work is already done."""


def _host_memory(*arguments: Any, **keywords: Any) -> tuple[int, int]:
    """Return this machine's free and total memory in bytes, for scripts that log a GPU's."""
    page = os.sysconf("SC_PAGE_SIZE")
    return page * os.sysconf("SC_AVPHYS_PAGES"), page * os.sysconf("SC_PHYS_PAGES")


def _onto_cpu(load: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that reads a file onto the CPU, whatever the device of its tensors was."""

    def onto_cpu(file: Any, map_location: Any = "cpu", *arguments: Any, **keywords: Any) -> Any:
        return load(file, _on_cpu(map_location) or "cpu", *arguments, **keywords)

    return onto_cpu


_OF_NUMBERS = (torch.abs, torch.Tensor.abs)
"""What torch computes for booleans on a GPU alone; it leaves them as they are."""


class _CpuForCuda(TorchFunctionMode):
    """Replaces ``cuda:N`` by ``cpu``: scripts for several processes name the GPU of each rank."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func is torch.Tensor.cuda:
            return args[0]
        if func in _OF_NUMBERS and getattr(args[0], "dtype", None) == torch.bool:
            return args[0].clone()
        named = {name: _on_cpu(value) for name, value in (kwargs or {}).items()}
        return func(*map(_on_cpu, args), **named)


def _on_cpu(value: Any) -> Any:
    is_device = isinstance(value, (str, torch.device))
    return "cpu" if is_device and str(value).startswith("cuda") else value
