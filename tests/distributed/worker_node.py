"""A rank of the test with several nodes, which writes its findings to argv[1]/rank<i>.json."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path

import torch

from envlab.distributed.context import DistributedContext
from envlab.distributed.program import configure_logging, guarded
from envlab.distributed.ranks import launched_rank


def resolves(name: str) -> str | None:
    """Return the address of a name on this node, if any."""
    try:
        return socket.gethostbyname(name)
    except OSError:
        return None


def work(arguments: list[str]) -> int:
    configure_logging(launched_rank())
    context = DistributedContext.create(distributed=True, device="cpu")
    found = {
        "host": context.node,
        "own address": resolves(context.node),
        "master": os.environ["MASTER_ADDR"],
        "master's address": resolves(os.environ["MASTER_ADDR"]),
        "interface": os.environ.get("GLOO_SOCKET_IFNAME"),
        "sum": context.sum(torch.tensor([1.0 + context.rank])).item(),
    }
    Path(arguments[0], f"rank{context.rank}.json").write_text(json.dumps(found))
    context.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(guarded(work, sys.argv[1:]))
