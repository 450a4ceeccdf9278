"""What a launcher told this process: the one reader of ``RANK``, ``LOCAL_RANK``, ``WORLD_SIZE``.

It imports no torch, so that an error can be reported before torch has loaded.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from envlab.errors import LaunchError

LAUNCH_HINT = "python -m torch.distributed.run --nproc_per_node=2 {script} ... --distributed"


def read_ranks(distributed: bool, environ: Mapping[str, str]) -> dict[str, int]:
    """Return rank, local_rank, world_size and local_world_size as torchrun gives them.

    Raises:
        LaunchError: If ``--distributed`` was given without torchrun, or torchrun started several
            processes without it (which would train independent copies).
    """
    world_size = environ.get("WORLD_SIZE", "1")
    hint = LAUNCH_HINT.format(script=sys.argv[0] or "scripts/.../train.py")
    if not distributed:
        if int(world_size) > 1:
            raise LaunchError(
                f"torch.distributed.run started {world_size} processes, but --distributed was not "
                "given, so they would train separately. Add --distributed."
            )
        return {"rank": 0, "local_rank": 0, "world_size": 1, "local_world_size": 1}
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    missing = [name for name in names if name not in environ]
    if missing:
        raise LaunchError(
            f"--distributed was given, but {', '.join(missing)} is not set, so no launcher started "
            f"this process. Launch it with: {hint}"
        )
    return {
        "rank": int(environ["RANK"]),
        "local_rank": int(environ["LOCAL_RANK"]),
        "world_size": int(world_size),
        "local_world_size": int(environ.get("LOCAL_WORLD_SIZE", world_size)),
    }


def launched_rank() -> int:
    """Return the rank that a launcher gave this process, 0 without one; needs no context."""
    return int(os.environ.get("RANK", "0"))
