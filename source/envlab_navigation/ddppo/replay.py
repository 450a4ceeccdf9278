"""How long each rank collected in each iteration of a run, to repeat it."""

from __future__ import annotations

from pathlib import Path

from envlab.distributed.context import DistributedContext
from envlab.errors import ConfigurationError
from envlab.foreign import check_file, parse_json
from envlab.runs.records import MOST_BYTES


def read_rank_steps(run: str | None, context: DistributedContext) -> dict[int, list[int]] | None:
    """Return the steps of each rank by iteration, as ``metrics.jsonl`` has them.

    Rank 0 reads; every rank must call this.

    Args:
        run: A run directory; None: there is nothing to repeat.
        context: The process's context.

    Raises:
        ConfigurationError: If there is no such run, or it had another number of ranks.
    """
    if run is None:
        return None
    return context.once(lambda: _read(Path(run) / "metrics.jsonl", context.world_size))


def _read(path: Path, world_size: int) -> dict[int, list[int]]:
    try:
        check_file(path, MOST_BYTES)
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise ConfigurationError(
            f"--replay_rollouts names {str(path.parent)!r}, whose {path.name} cannot be read "
            f"({error.strerror or error}). Give the directory of a run of ddppo."
        ) from None
    found: dict[int, list[int]] = {}
    for line in lines:
        try:
            record = parse_json(line)
            found[record["iteration"]] = record["details"]["rank_steps"]
        except (ValueError, LookupError, TypeError):
            continue  # the last line of a run that was killed, or another library's
    widths = {len(steps) for steps in found.values()}
    if widths != {world_size}:
        had = f"{', '.join(map(str, sorted(widths)))} ranks" if widths else "no such record"
        raise ConfigurationError(
            f"--replay_rollouts names {str(path.parent)!r}, which has {had}, but this run has "
            f"{world_size}. Repeat it with as many processes."
        )
    return found
