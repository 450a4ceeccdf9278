"""What a launcher told this process: the one reader of the launchers' variables.

torchrun sets ``RANK``, ``LOCAL_RANK``, ``WORLD_SIZE`` and ``MASTER_ADDR``/``MASTER_PORT``; skrl's
launcher for JAX sets the same facts as ``JAX_RANK``, ``JAX_LOCAL_RANK``, ``JAX_WORLD_SIZE`` and
``JAX_COORDINATOR_ADDR``/``JAX_COORDINATOR_PORT``. It imports no torch, so that an error can be
reported before torch has loaded.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping

from envlab.errors import LaunchError

LAUNCH_HINT = "python -m torch.distributed.run --nproc_per_node=2 {script} ... --distributed"

TORCHRUN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
SKRL_LAUNCHER = (
    "JAX_RANK",
    "JAX_LOCAL_RANK",
    "JAX_WORLD_SIZE",
    "JAX_COORDINATOR_ADDR",
    "JAX_COORDINATOR_PORT",
)
"""The same five facts, as skrl's launcher names them."""


def read_ranks(distributed: bool, environ: Mapping[str, str]) -> dict[str, int]:
    """Return rank, local_rank, world_size and local_world_size as the launcher gives them.

    Raises:
        LaunchError: If ``--distributed`` was given without a launcher, a launcher started several
            processes without it (which would train independent copies), or two launchers speak.
    """
    names = _names(environ)
    rank, local_rank, world_size = names[:3]
    num_processes = _number(world_size, environ, default="1")
    if not distributed:
        if num_processes > 1:
            raise LaunchError(
                f"{_launcher(environ)} started {num_processes} processes, but --distributed was "
                "not given, so they would train separately. Add --distributed."
            )
        return {"rank": 0, "local_rank": 0, "world_size": 1, "local_world_size": 1}
    missing = [name for name in names if name not in environ]
    if missing:
        hint = LAUNCH_HINT.format(script=sys.argv[0] or "scripts/.../train.py")
        raise LaunchError(
            f"--distributed was given, but {', '.join(missing)} is not set, so no launcher started "
            f"this process. Launch it with: {hint}"
        )
    return {
        "rank": _number(rank, environ),
        "local_rank": _number(local_rank, environ),
        "world_size": num_processes,
        "local_world_size": _number("LOCAL_WORLD_SIZE", environ, default=str(num_processes)),
    }


def rendezvous(environ: Mapping[str, str]) -> str:
    """Return where the ranks meet, as an ``init_method`` of ``torch.distributed``."""
    names = _names(environ)
    if names is TORCHRUN:
        return "env://"
    return f"tcp://{environ[names[3]]}:{environ[names[4]]}"


def launched_rank() -> int:
    """Return the rank that a launcher gave this process, 0 without one; needs no context."""
    rank = os.environ.get("RANK", os.environ.get("JAX_RANK", "0"))
    return int(rank) if rank.isdigit() else 0


def _names(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the launcher that started this process; torchrun's without one.

    Raises:
        LaunchError: If both launchers set variables.
    """
    if "JAX_RANK" not in environ and "JAX_WORLD_SIZE" not in environ:
        return TORCHRUN
    for name in ("RANK", "WORLD_SIZE"):
        if name in environ:
            raise LaunchError(
                f"Both {name}, of torch.distributed.run, and JAX_{name}, of skrl's launcher, are "
                f"set ({environ[name]!r}, {environ.get(f'JAX_{name}')!r}), so the rank is not "
                "clear. Use one launcher, or unset one of them."
            )
    return SKRL_LAUNCHER


def _launcher(environ: Mapping[str, str]) -> str:
    return "torch.distributed.run" if _names(environ) is TORCHRUN else "skrl.utils.distributed.jax"


def _number(name: str, environ: Mapping[str, str], default: str = "") -> int:
    value = environ.get(name, default)
    if not value.isdigit():
        raise LaunchError(
            f"The environment variable {name} is {value!r}, but a launcher sets it to a number. "
            "Unset it, or start the processes with a launcher."
        )
    return int(value)


@contextlib.contextmanager
def hidden_world_size() -> Iterator[None]:
    """Hide how many processes there are, from a library that joins them while it is imported."""
    names = ("WORLD_SIZE", "JAX_WORLD_SIZE")
    hidden = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(hidden)
