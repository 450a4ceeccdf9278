"""The facts that a launcher gave this process: the only reader of the launchers' variables.

torchrun sets ``RANK``, ``LOCAL_RANK``, ``WORLD_SIZE`` and ``MASTER_ADDR``/``MASTER_PORT``; skrl's
launcher for JAX sets the same facts as ``JAX_RANK``, ``JAX_LOCAL_RANK``, ``JAX_WORLD_SIZE`` and
``JAX_COORDINATOR_ADDR``/``JAX_COORDINATOR_PORT``. It imports no torch, so that an error can be
reported before torch has loaded.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import socket
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from envlab.errors import EnvlabError, LaunchError
from envlab.foreign import printable

LAUNCH_HINT = "python -m torch.distributed.run --nproc_per_node=2 {script} ... --distributed"

NUM_PROCESSES = ("--nproc", "--nproc_per_node", "--nproc-per-node")
"""Spellings of the flag of 'envlab train' that starts several processes."""

TORCHRUN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
SKRL_LAUNCHER = (
    "JAX_RANK",
    "JAX_LOCAL_RANK",
    "JAX_WORLD_SIZE",
    "JAX_COORDINATOR_ADDR",
    "JAX_COORDINATOR_PORT",
)
"""skrl's launcher's names of the same five facts."""
NO_RANK = dict.fromkeys((*TORCHRUN, *SKRL_LAUNCHER, "LOCAL_WORLD_SIZE", "GROUP_RANK"))
"""Variables that a :class:`~envlab.child.Child` that is no rank does not inherit, because some
libraries join the ranks on import."""


def read_ranks(distributed: bool, environ: Mapping[str, str]) -> dict[str, int]:
    """Return rank, local_rank, world_size and local_world_size as the launcher gives them.

    Raises:
        LaunchError: If ``--distributed`` was given without a launcher, a launcher started several
            processes without it (which would train independent copies), or two launchers did.
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
        verb = "is" if len(missing) == 1 else "are"
        hint = LAUNCH_HINT.format(script=sys.argv[0] or "scripts/.../train.py")
        raise LaunchError(
            f"--distributed was given, but {', '.join(missing)} {verb} not set, so no launcher "
            f"started this process. Launch it with: {hint}"
        )
    return {
        "rank": _number(rank, environ),
        "local_rank": _number(local_rank, environ),
        "world_size": num_processes,
        "local_world_size": _number("LOCAL_WORLD_SIZE", environ, default=str(num_processes)),
    }


def check_num_processes(count: int, environ: Mapping[str, str]) -> None:
    """Refuse ``--nproc`` if these processes cannot be started.

    Raises:
        LaunchError: With what to do instead.
    """
    if count < 1:
        raise LaunchError(f"--nproc is {count}, but must be at least 1.")
    if {"RANK", "JAX_RANK"} & set(environ):
        raise LaunchError(
            f"--nproc starts processes, but this one was started by {_launcher(environ)} already. "
            "Leave --nproc out, and give --distributed."
        )


class MeetingPoint(NamedTuple):
    """Where the ranks of a launch meet: the address of a key-value store."""

    host: str
    port: int
    is_kept: bool
    """Whether the launcher hosts the store; else rank 0 does."""
    name: str
    """Name of the launch, because launches may share a store."""
    hint: str
    """Advice if the address does not work."""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def meeting_point(environ: Mapping[str, str]) -> MeetingPoint:
    """Return where the ranks meet.

    torchrun's c10d rendezvous gives its workers a node's host name as MASTER_ADDR, which other
    nodes may not resolve (or to ``localhost``, depending on /etc/hosts). Its agents have met at
    ``--rdzv_endpoint``, which thus works on every node. So with several nodes the ranks meet at
    that address, if the agent's command line has it. An agent hosts a store at it, whether or not
    it shares one with its workers (``TORCH_DISABLE_SHARE_RDZV_TCP_STORE``).
    """
    names = _names(environ)
    host, port = environ[names[3]], _number(names[4], environ)
    if names is SKRL_LAUNCHER:
        return MeetingPoint(host, port, False, "skrl", _SKRL_CURE)
    name = environ.get("TORCHELASTIC_RUN_ID", "none")
    if environ.get("LOCAL_WORLD_SIZE") != environ["WORLD_SIZE"]:
        endpoint = _rendezvous_endpoint(environ)
        if endpoint is not None:
            return MeetingPoint(*endpoint, True, name, _TORCHRUN_CURE)
    is_kept = environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    return MeetingPoint(host, port, is_kept, name, _TORCHRUN_CURE)


_TORCHRUN_CURE = (
    "All nodes must reach this address: give torch.distributed.run on every node --rdzv_backend="
    "c10d, --rdzv_endpoint=<IP address of one of the nodes>:<port that no other program uses> and "
    "--local_addr=<the node's own IP address>."
)
_SKRL_CURE = (
    "Give skrl.utils.distributed.jax on every node --coordinator_address=<IP address of the node "
    "with --node_rank=0>:<port that no other program uses>."
)
_ENDPOINT_PORT = "29400"
"""torchrun's default."""


def _rendezvous_endpoint(environ: Mapping[str, str]) -> tuple[str, int] | None:
    """Return the c10d endpoint of the torchrun that started this process, if known."""
    if "TORCHELASTIC_RUN_ID" not in environ:
        return None
    words: list[str] = []
    import psutil  # takes 20 ms, which --help does not need

    with contextlib.suppress(psutil.Error):
        lines = (process.cmdline() for process in psutil.Process().parents()[:3])
        words = next(filter(_is_torchrun, lines), [])
    options: dict[str, str] = {}
    for word, following in itertools.pairwise([*words, ""]):
        name, is_joined, value = word.partition("=")
        options.setdefault(name.replace("-", "_"), value if is_joined else following)
    backend = options.get("__rdzv_backend", environ.get("PET_RDZV_BACKEND"))
    endpoint = options.get("__rdzv_endpoint", environ.get("PET_RDZV_ENDPOINT", ""))
    host, _, port = endpoint.rpartition(":") if ":" in endpoint else (endpoint, "", _ENDPOINT_PORT)
    if backend != "c10d" or not host or not port.isdigit() or port == "0":
        return None
    return host.strip("[]"), int(port)


_TORCHRUN = {"torch.distributed.run", "envlab.distributed.torchrun"}
_SKRL = "skrl.utils.distributed.jax"


def launcher_words() -> list[str] | None:
    """Return the command line of the launcher that started this process, if there is one."""
    import psutil  # takes 20 ms, which --help does not need

    with contextlib.suppress(psutil.Error):
        for process in psutil.Process().parents()[:3]:
            words = process.cmdline()
            has_count = any(word.partition("=")[0] in NUM_PROCESSES for word in words)
            if has_count or _is_torchrun(words) or _SKRL in words:
                return words
    return None


def _is_torchrun(words: list[str]) -> bool:
    return not _TORCHRUN.isdisjoint(words) or any(
        word.rpartition("/")[2] == "torchrun" for word in words[:3]
    )


def launched_rank() -> int:
    """Return the rank that a launcher gave this process, 0 without one; needs no context."""
    return _launched("RANK")


def launched_local_rank() -> int:
    """Return the rank on this node that a launcher gave this process, 0 without one."""
    return _launched("LOCAL_RANK")


def launched_world_size() -> int:
    """Return how many processes a launcher started, 1 without one."""
    return max(1, _launched("WORLD_SIZE"))


def launched_local_world_size() -> int:
    """Return how many processes a launcher started on this node, 1 without one."""
    return max(1, _launched("LOCAL_WORLD_SIZE"))


def _launched(name: str) -> int:
    rank = os.environ.get(name, os.environ.get(f"JAX_{name}", "0"))
    return int(rank) if rank.isdigit() else 0


def restartable_launch(environ: Mapping[str, str]) -> str | None:
    """Return a name of this launch that all restarts of its processes share, if it restarts them.

    torchrun restarts its workers after a failure (``--max_restarts``) or when nodes come and go.
    Its run id, which users choose, does not identify a launch, but its folder for logs does, where
    each worker has ``attempt_<n>/<local rank>/error.json``.
    """
    file = environ.get("TORCHELASTIC_ERROR_FILE")
    return None if file is None else f"{socket.gethostname()}:{Path(file).parents[2]}"


def tell(error: EnvlabError) -> int:
    """Report an error to the user, once per node, and to the launcher; return the exit code."""
    tell_launcher(error)
    # One process per node, as each node has its own command line, and its own mistakes.
    if launched_local_rank() == 0 or not error.same_on_all_ranks:
        print(printable(f"error: {error}"), file=sys.stderr)
    return error.exit_code


def tell_launcher(error: BaseException) -> None:
    """Report an error to torchrun for its report on the launch.

    ``@record`` of torch.distributed.elastic does the same in this format (torch 2.13), but would
    load torch before the flags are read, and show a traceback even for bad input.
    """
    file = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if file is None:
        return
    text, extra = f"error: {error}", {"timestamp": str(int(time.time()))}
    if not isinstance(error, EnvlabError):
        text = f"{type(error).__name__}: {error}"
        extra["py_callstack"] = "".join(traceback.format_exception(error))
    with contextlib.suppress(OSError):
        Path(file).write_text(json.dumps({"message": {"message": text, "extraInfo": extra}}))


def slurm_job(environ: Mapping[str, str]) -> str | None:
    """Return a name of this command in its Slurm job that survives requeues of the job."""
    if "SLURM_JOB_ID" not in environ:
        return None
    command = hashlib.sha256(os.fsencode("\0".join(sys.argv))).hexdigest()[:12]
    return f"{environ.get('SLURM_CLUSTER_NAME', 'slurm')}:{environ['SLURM_JOB_ID']}:{command}"


def is_requeued(environ: Mapping[str, str]) -> bool:
    """Return whether Slurm has started this job before."""
    return environ.get("SLURM_RESTART_COUNT", "0") != "0"


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
    """Hide the number of processes from a library that joins them on import."""
    names = ("WORLD_SIZE", "JAX_WORLD_SIZE")
    hidden = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(hidden)
