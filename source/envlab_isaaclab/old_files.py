"""Functions of Isaac Lab before 2.3 that its successor lacks."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from envlab.distributed.ranks import launched_rank


def dump_pickle(filename: str, data: Any) -> None:
    """Pickle an object, as Isaac Lab did until 2.2 in addition to its YAML."""
    if launched_rank() != 0:
        return
    path = Path(filename).with_suffix(".pkl")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        pickle.dump(data, file)


def load_pickle(filename: str) -> Any:
    """Read what :func:`dump_pickle` wrote: the script's own file, which it trusts."""
    with Path(filename).open("rb") as file:
        return pickle.load(file)
