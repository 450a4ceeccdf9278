"""Reaching the store at which ranks meet: in time, or with the reason why not."""

from __future__ import annotations

import logging
import socket
import time
from datetime import timedelta

import torch.distributed as dist

from envlab.distributed.ranks import MeetingPoint
from envlab.errors import LaunchError

logger = logging.getLogger(__name__)

REACH_S = 30.0
"""How long to try a connection that should work at once; a network may still be coming up."""
PATIENCE_S = 20.0
"""How long to wait for others in silence."""
RETRY_S = 0.2


def open_store(point: MeetingPoint, rank: int, timeout: timedelta) -> dist.Store:
    """Connect to the store, or keep it where nobody does.

    Args:
        point: Where it is.
        rank: This process's rank.
        timeout: How long to wait for rank 0 where it keeps the store, and the store's timeout.

    Raises:
        LaunchError: If the place cannot be reached, is not on rank 0's node, or is taken.
    """
    keeps = rank == 0 and not point.is_kept
    if keeps:
        _check_is_here(point)
    else:
        _await_answer(point, rank, timeout)
    try:
        store = dist.TCPStore(
            point.host,
            point.port,
            is_master=keeps,
            timeout=timedelta(seconds=REACH_S),
            multi_tenant=True,
            wait_for_workers=False,
        )
    except dist.DistError as problem:
        raise refusal(
            f"Rank {rank} cannot meet the other ranks at {point} "
            f"({str(problem).splitlines()[0]}). {point.cure}"
        ) from problem
    store.set_timeout(timeout)
    return store


def _check_is_here(point: MeetingPoint) -> None:
    """Refuse to keep a store at an address that this node does not have."""
    try:
        address = socket.getaddrinfo(point.host, point.port, proto=socket.IPPROTO_TCP)[0]
        with socket.socket(*address[:2]) as probe:
            probe.bind((address[4][0], 0))
    except OSError as problem:
        raise refusal(
            f"Rank 0 on {socket.gethostname()} is to keep the rendezvous at {point}, but this "
            f"node does not have that address ({problem}). {point.cure}"
        ) from problem


def _await_answer(point: MeetingPoint, rank: int, timeout: timedelta) -> None:
    """Wait until the store answers: briefly, unless it is rank 0 that has yet to start it.

    Raises:
        LaunchError: If it does not, with what was tried.
    """
    began = time.monotonic()
    problem = reach(point.host, point.port, PATIENCE_S)
    if isinstance(problem, ConnectionRefusedError) and not point.is_kept:
        logger.warning("Waiting for rank 0, which does not answer at %s yet.", point)
        problem = reach(point.host, point.port, timeout.total_seconds() - PATIENCE_S)
    elif problem is not None:
        problem = reach(point.host, point.port, REACH_S - PATIENCE_S)
    if problem is not None:
        raise refusal(
            f"Rank {rank} on {socket.gethostname()} cannot reach the rendezvous at {point} "
            f"(tried for {time.monotonic() - began:.0f} s: {problem}). {point.cure}"
        )


def reach(host: str, port: int, seconds: float) -> OSError | None:
    """Connect by TCP until it works; return the last problem if it never did."""
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


def refusal(message: str) -> LaunchError:
    """Return an error that each rank tells by itself, because others may not have it."""
    error = LaunchError(message)
    error.same_on_all_ranks = False
    return error
