"""How the ranks of one start find each other, and no rank of an earlier start.

torch 2.13 shares the launcher's store between all starts of its workers. After a restart
(``--max_restarts``, or nodes that come and go) gloo then finds the addresses of the dead under the
keys of the living, and fails with "connectFullMesh failed ... Connection refused" whenever one rank
is quicker than the one it looks for: measured, in most restarts of two ranks. So each start first
agrees on a token, and keeps all its keys below it.
"""

from __future__ import annotations

import logging
import secrets
import time
from datetime import timedelta

import torch.distributed as dist

from envlab.distributed.network import settle_network
from envlab.distributed.ranks import MeetingPoint
from envlab.distributed.reach import open_store

logger = logging.getLogger(__name__)

POLL_S = 0.005
PATIENCE_S = 30.0
"""After so long, rank 0 says for whom it waits."""


def meet(
    point: MeetingPoint, rank: int, world_size: int, *, nccl: bool, timeout: timedelta
) -> dist.Store:
    """Return a store that the ranks of this start share, and choose the interfaces between them.

    Args:
        point: Where the store is.
        rank: Global rank of this process.
        world_size: Number of processes.
        nccl: Whether NCCL is to use the interfaces as well as gloo.
        timeout: How long to wait for the others.

    Raises:
        LaunchError: If the place cannot be reached, or the nodes cannot reach each other.
        torch.distributed.DistError: If the other ranks do not come in time, or the store breaks.
    """
    prefix = f"envlab/{point.name}"
    whole = open_store(point, rank, timeout)
    token = _agree(dist.PrefixStore(prefix, whole), rank, world_size, timeout)
    store = dist.PrefixStore(f"{prefix}/{token}", whole)
    settle_network(store, rank, world_size, towards=point.host, nccl=nccl, timeout=timeout)
    return store


def _agree(store: dist.Store, rank: int, world_size: int, timeout: timedelta) -> str:
    """Return rank 0's token on all ranks of this start.

    A rank says hello by a word of its own, and rank 0 answers each word that it sees. What an
    earlier start has left is answered too, but never confirmed.
    """
    word = secrets.token_hex(8)
    if rank > 0:
        store.set(f"hello/{rank}", word)
        token = store.get(f"welcome/{word}").decode()
        store.set(f"confirmed/{token}/{rank}", "")
        return token
    waiting = list(range(1, world_size))
    start, said = time.monotonic(), False
    while waiting:
        for other in waiting:
            if store.check([f"hello/{other}"]):
                store.set(f"welcome/{store.get(f'hello/{other}').decode()}", word)
        waiting = [other for other in waiting if not store.check([f"confirmed/{word}/{other}"])]
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
