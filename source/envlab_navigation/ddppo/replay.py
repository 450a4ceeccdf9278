"""The steps that each rank collected in each iteration of a run, to repeat it."""

from __future__ import annotations

from pathlib import Path

from envlab.distributed.context import DistributedContext
from envlab.errors import ConfigurationError
from envlab.run.records import METRICS, Records, value_at


def read_rank_steps(run: str | None, context: DistributedContext) -> dict[int, list[int]] | None:
    """Return the steps of each rank by iteration, from ``metrics.jsonl``.

    Rank 0 reads; every rank must call this.

    Args:
        run: A run directory; None: no repetition.
        context: The process's context.

    Raises:
        ConfigurationError: If there is no such run, or it had another number of ranks.
        RunDirectoryError: If its records are damaged.
    """
    if run is None:
        return None
    return context.once(lambda: _read(Path(run) / METRICS, context.world_size))


def _read(path: Path, world_size: int) -> dict[int, list[int]]:
    steps = {
        record["iteration"]: value_at(record, "details.rank_steps")
        for record in Records(path).read()
    }
    found = {iteration: ranks for iteration, ranks in steps.items() if isinstance(ranks, list)}
    if not found:
        raise ConfigurationError(
            f"--replay_rollouts names {str(path.parent)!r}, but there is no {path.name} with the "
            "steps of ranks. Give the directory of a run of ddppo."
        )
    widths = {len(ranks) for ranks in found.values()}
    if widths != {world_size}:
        raise ConfigurationError(
            f"--replay_rollouts names {str(path.parent)!r}, which has "
            f"{', '.join(map(str, sorted(widths)))} ranks, but this run has {world_size}. Repeat "
            "it with as many processes."
        )
    return found
