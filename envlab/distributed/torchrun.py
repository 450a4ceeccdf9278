"""torchrun with three corrections; ``python -m envlab.distributed.torchrun`` takes the same flags.

:func:`launch` starts processes on this machine for ``envlab train ... --nproc 2``.

- Its stores listen on one interface: the one of the rendezvous' address. torch's own (2.13) listen
  on all, where anyone who reaches them can run code, as the c10d rendezvous unpickles contents.
- When a launch fails, it ends with the sentence of the rank that failed first, and with that rank's
  exit code, instead of 40 lines of torch's own traceback and 1.
- It sets ``OMP_NUM_THREADS`` to 1 for several ranks, as torch's does, but without a notice of it,
  and not for what this process does later.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, ClassVar

import psutil
import torch.distributed as dist

from envlab.child import how_it_ended
from envlab.distributed.interface import listen
from envlab.distributed.interrupt import PREEMPTED_EXIT_CODE
from envlab.distributed.watchdog import HUNG_EXIT_CODE

ALREADY_REPORTED = (HUNG_EXIT_CODE, PREEMPTED_EXIT_CODE, 128 + signal.SIGINT, 128 + signal.SIGTERM)
"""Exit codes of ranks that have reported, once for all, why they end."""


class InterfaceStore(dist.TCPStore):
    """A store that listens only on the interface that has its address, if there is one.

    Attributes:
        has_other_nodes: Whether nodes other than this one join the launch. They cannot mean this
            one by ``localhost``, which then only means that this node hosts the store.
    """

    has_other_nodes: ClassVar[bool] = False

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        *rest: Any,
        **options: Any,
    ) -> None:
        """Take the arguments of ``torch.distributed.TCPStore``."""
        if is_master:
            with contextlib.suppress(OSError):  # taken, or not ours, which torch reports itself
                listener = listen(host_name, port, has_other_nodes=self.has_other_nodes)
                if listener is not None:
                    port = listener.getsockname()[1]
                    options["master_listen_fd"] = listener.detach()
        super().__init__(host_name, port, world_size, is_master, *rest, **options)


def main(arguments: Sequence[str], *, repeats: bool = True) -> int:
    """Run torchrun; return its exit code.

    Args:
        arguments: Those of ``torch.distributed.run``.
        repeats: Whether to end with a sentence that a rank has already printed further above.
    """
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous import RendezvousError

    flags = run.parse_args(list(arguments))
    InterfaceStore.has_other_nodes = run.parse_min_max_nnodes(flags.nnodes)[1] > 1
    # The rendezvous' modules look it up there when needed; this affects only this process.
    dist.TCPStore = InterfaceStore  # type: ignore[misc]
    try:
        with _one_thread(run.determine_local_world_size(flags.nproc_per_node)):
            run.run(flags)
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        codes = [one.exitcode for one in error.failures.values()]
        said = next((code for code in ALREADY_REPORTED if code in codes), None)
        if said is not None:
            # The other ranks have reported the killed rank.
            return failure.exitcode if failure.exitcode > 0 else said
        if repeats or not _said(failure):
            print(last_words(rank, failure), file=sys.stderr, flush=True)
        return failure.exitcode if failure.exitcode > 0 else 128 - failure.exitcode
    except SignalException as error:
        print(f"The launcher ended its processes: {error.sigval.name}.", file=sys.stderr)
        return 128 + error.sigval
    except RendezvousError as error:
        cause = error.__cause__ or error
        reason = (str(cause).splitlines() or [type(cause).__name__])[0]
        print(
            f"error: The nodes cannot meet ({type(error).__name__}: {reason}). Check that "
            "--rdzv_endpoint is an address that every node reaches, that its port is open, and "
            "that --rdzv_id is the same on all of them.",
            file=sys.stderr,
        )
        return 1
    return 0


@contextlib.contextmanager
def _one_thread(num_processes: int) -> Iterator[None]:
    """Give several ranks one OpenMP thread each, unless the user says how many."""
    name = "OMP_NUM_THREADS"
    if num_processes == 1 or name in os.environ:
        yield
        return
    os.environ[name] = "1"
    try:
        yield
    finally:
        del os.environ[name]


def launch(num_processes: int, words: Sequence[str]) -> int:
    """Run ``python`` with some words as several ranks on this machine; return the exit code.

    Signals are passed on to the ranks, which may take as long as they need to save.

    Args:
        num_processes: Number of ranks.
        words: The words after ``python``.
    """
    for name in ("elastic", "run", "launcher"):  # the ranks have reported it
        logging.getLogger(f"torch.distributed.{name}").setLevel(logging.CRITICAL)
    options = ["--standalone", f"--nproc_per_node={num_processes}", "--signals_to_handle=SIGQUIT"]
    with _passing_on(), tempfile.TemporaryDirectory(prefix="envlab_launch_") as folder:
        words = [f"--log_dir={folder}", "--no_python", sys.executable, *words]
        return main([*options, *words], repeats=False)


@contextlib.contextmanager
def _passing_on() -> Iterator[None]:
    """Pass signals on to the ranks within the block; the third Ctrl-C kills those that remain."""
    num_presses = 0

    def pass_on(number: int, frame: FrameType | None) -> None:
        nonlocal num_presses
        num_presses += number == signal.SIGINT
        ranks = [one for one in psutil.Process().children() if _is_rank(one)]
        if not ranks:  # none has started yet
            raise KeyboardInterrupt
        # SIGHUP, from a closing terminal, only means that the run should end.
        passed = signal.SIGTERM if number == signal.SIGHUP else signal.Signals(number)
        for rank in ranks:
            with contextlib.suppress(psutil.Error):
                rank.send_signal(signal.SIGKILL if num_presses > 2 else passed)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
    heeded = [one for one in numbers if signal.getsignal(one) != signal.SIG_IGN]  # as under nohup
    before = {number: signal.signal(number, pass_on) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_rank(process: psutil.Process) -> bool:
    try:
        return "RANK" in process.environ()
    except psutil.Error:  # it has exited
        return False


def _said(failure: Any) -> bool:
    """Return whether a rank ended with a sentence for the user."""
    told = failure.message
    return isinstance(told, dict) and str(told.get("message", "")).startswith("error: ")


def last_words(rank: int, failure: Any) -> str:
    """Return the sentence on the rank that failed first.

    Args:
        rank: Its global rank.
        failure: torch's ``ProcessFailure``; its message comes from
            :func:`envlab.distributed.ranks.tell_launcher`, if there is one.
    """
    said = failure.message.get("message", "") if isinstance(failure.message, dict) else ""
    if _said(failure):
        return str(said)
    why = f" ({said.splitlines()[0]}); its traceback is above" if said else ""
    return f"error: Rank {rank} (pid {failure.pid}) {how_it_ended(failure.exitcode)}{why}."


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
