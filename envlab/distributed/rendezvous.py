"""A rendezvous of the ranks of one start that ignores stale ranks of an earlier one.

torch 2.13 shares the launcher's store between all starts of its workers. After a restart
(``--max_restarts``, or nodes that come and go) gloo then finds dead ranks' addresses under live
ranks' keys, and fails with "connectFullMesh failed ... Connection refused" whenever a rank is
quicker than the one it looks for (measured: in most restarts of two ranks). So each start first
agrees on a token, and keeps all its keys below it.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import math
import queue
import secrets
import socket
import threading
import time
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from envlab.distributed.interface import listen
from envlab.distributed.ranks import MeetingPoint
from envlab.errors import LaunchError

logger = logging.getLogger(__name__)

POLL_S = 0.005
REACH_S = 30.0
"""How long to try a connection that should work; a network may still be coming up."""
PATIENCE_S = 20.0
"""How long to wait for other ranks before logging it."""
RETRY_S = 0.2
TURN_S = 0.2


def meet(
    point: MeetingPoint,
    rank: int,
    world_size: int,
    timeout: timedelta,
    *,
    answer_s: float = REACH_S,
) -> dist.Store:
    """Return a store that the ranks of this start share.

    Args:
        point: Where the store is.
        rank: Global rank of this process.
        world_size: Number of processes.
        timeout: How long to wait for the others.
        answer_s: How long the store may take to answer once it is connected.

    Raises:
        LaunchError: If the place cannot be reached.
        torch.distributed.DistError: If the other ranks do not come in time, or the store breaks.
    """
    prefix = f"envlab/{point.name}"
    whole = open_store(point, rank, timeout, answer_s=answer_s)
    token = _agree(dist.PrefixStore(prefix, whole), rank, world_size, timeout)
    return dist.PrefixStore(f"{prefix}/{token}", whole)


def open_store(
    point: MeetingPoint, rank: int, timeout: timedelta, *, answer_s: float = REACH_S
) -> dist.Store:
    """Connect to the store, or host it if the launcher does not.

    Args:
        point: Where it is.
        rank: This process's rank.
        timeout: How long to wait for rank 0 if it hosts the store, and the store's timeout.
        answer_s: How long the store may take to answer once it is connected.

    Raises:
        LaunchError: If the place cannot be reached, is not on rank 0's node, or is taken, or if no
            store listens at it.
    """
    keeps = rank == 0 and not point.is_kept
    options: dict[str, Any] = {"is_master": keeps}
    if keeps:
        listener = _listen(point)
        if listener is not None:
            options["master_listen_fd"] = listener.detach()
    else:
        _await_answer(point, rank, timeout)
    try:
        store = _connect(point, answer_s, options)
    except (dist.DistError, TimeoutError) as problem:
        reason = str(problem).splitlines()[0]
        if keeps and "EADDRINUSE" in reason:
            reason = "that port is already in use by another program"
        raise LaunchError(
            f"Rank {rank} on {socket.gethostname()} cannot meet the other ranks at {point} "
            f"({reason}). {point.hint}",
            same_on_all_ranks=False,
        ) from problem
    store.set_timeout(timeout)
    return store


def _connect(point: MeetingPoint, answer_s: float, options: dict[str, Any]) -> dist.Store:
    """Return a store's client, hosting the store as well if the options say so.

    torch 2.13 waits forever if a connection is accepted but not answered. So the connection is
    made in a thread, which is then abandoned.

    Raises:
        TimeoutError: If there is no answer.
        DistError: If torch finds another problem.
    """
    made: queue.SimpleQueue[dist.Store | dist.DistError] = queue.SimpleQueue()

    def connect() -> None:
        try:
            store = dist.TCPStore(
                point.host,
                point.port,
                timeout=timedelta(seconds=REACH_S),
                multi_tenant=True,
                wait_for_workers=False,
                **options,
            )
        except dist.DistError as problem:
            made.put(problem)
        else:
            made.put(store)

    threading.Thread(target=connect, name="rendezvous", daemon=True).start()
    for _ in range(math.ceil(answer_s / TURN_S)):  # short waits: a suspension counts as one of them
        with contextlib.suppress(queue.Empty):
            found = made.get(timeout=TURN_S)
            if isinstance(found, dist.DistError):
                raise found
            return found
    raise TimeoutError(
        f"a connection was accepted, but no answer came for {answer_s:.0f} s: another program, or "
        "a suspended one"
    )


def _listen(point: MeetingPoint) -> socket.socket | None:
    """Listen at the store's address, see :func:`envlab.distributed.interface.listen`.

    Raises:
        LaunchError: If this node does not have the address.
    """
    try:
        return listen(point.host, point.port)
    except OSError as problem:
        if problem.errno == errno.EADDRINUSE:
            return None  # perhaps by this process's own store, which torch then shares
        raise LaunchError(
            f"Rank 0 on {socket.gethostname()} is to keep the rendezvous at {point}, but this "
            f"node does not have that address ({problem.strerror}). {point.hint}",
            same_on_all_ranks=False,
        ) from problem


def _await_answer(point: MeetingPoint, rank: int, timeout: timedelta) -> None:
    """Wait until the store answers: briefly, unless rank 0 has yet to start it.

    Raises:
        LaunchError: If it does not, with the attempts that were made.
    """
    began = time.monotonic()
    problem = reach(point.host, point.port, PATIENCE_S)
    if isinstance(problem, ConnectionRefusedError) and not point.is_kept:
        logger.warning("Waiting for rank 0, which does not answer at %s yet.", point)
        problem = reach(point.host, point.port, timeout.total_seconds() - PATIENCE_S)
    elif problem is not None:
        problem = reach(point.host, point.port, REACH_S - PATIENCE_S)
    if problem is not None:
        raise LaunchError(
            f"Rank {rank} on {socket.gethostname()} cannot reach the rendezvous at {point} "
            f"(tried for {time.monotonic() - began:.0f} s: {problem}). {point.hint}",
            same_on_all_ranks=False,
        )


def reach(host: str, port: int, seconds: float) -> OSError | None:
    """Try to connect by TCP until it works; return the last problem if it never did."""
    deadline = time.monotonic() + seconds
    while True:
        left = deadline - time.monotonic()
        try:
            with socket.create_connection((host, port), timeout=min(5.0, max(left, RETRY_S))):
                return None
        except OSError as problem:
            if left < RETRY_S:
                return problem
        time.sleep(RETRY_S)


def _agree(store: dist.Store, rank: int, world_size: int, timeout: timedelta) -> str:
    """Return rank 0's token on all ranks of this start.

    A rank says hello with its own random word, and rank 0 answers each word that it sees. Those of
    an earlier start are answered too, but never confirmed. Both sides state their number of ranks,
    which may differ if nodes are started by hand.

    Raises:
        LaunchError: On rank 0 and on the rank with another number.
    """
    word = secrets.token_hex(8)
    if rank > 0:
        store.set(f"hello/{rank}", word)
        token, _, size = store.get(f"welcome/{word}").decode().partition(" ")
        store.set(f"confirmed/{token}/{rank}", str(world_size))
        _check_world(rank, world_size, int(size))
        return token
    waiting = list(range(1, world_size))
    start, said = time.monotonic(), False
    while waiting:
        for other in waiting:
            if store.check([f"hello/{other}"]):
                store.set(f"welcome/{store.get(f'hello/{other}').decode()}", f"{word} {world_size}")
        for other in [one for one in waiting if store.check([f"confirmed/{word}/{one}"])]:
            waiting.remove(other)
            _check_world(other, int(store.get(f"confirmed/{word}/{other}")), world_size)
        waited = time.monotonic() - start
        if waiting and waited > timeout.total_seconds():
            raise dist.DistStoreError(
                f"no word from rank {', '.join(map(str, waiting))} after {waited:.0f} s"
            )
        if waiting and waited > PATIENCE_S and not said:
            said = True
            logger.warning(
                "Waiting for rank %s of %d, for %.0f s so far.",
                ", ".join(map(str, waiting)),
                world_size,
                waited,
            )
        time.sleep(POLL_S)
    return word


def _check_world(rank: int, told: int, told_first: int) -> None:
    if told != told_first:
        raise LaunchError(
            f"Rank {rank} was started as one of {told} ranks, but rank 0 as one of "
            f"{told_first}. Start all nodes with the same WORLD_SIZE, or the same --nnodes and "
            "--nproc_per_node.",
            same_on_all_ranks=False,
        )
