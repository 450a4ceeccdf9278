"""Flags of skrl, in addition to those of all libraries."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from envlab.skrl.library import ALGORITHMS
from envlab.training.flags import Flags, flag

FRAMEWORKS = ("torch", "jax")


def algorithm_flag(algorithms: Collection[str], default: str) -> Any:
    """Return the field ``--algorithm``; ``default`` describes the choice without it."""
    return flag(
        f"{', '.join(algorithms)} (default: {default})",
        "NAME",
        of="train play export",
        choices=algorithms,
        convert=str.lower,
    )


@dataclass(kw_only=True)
class SkrlFlags(Flags):
    """Flags on which skrl's configuration depends."""

    algorithm: str | None = algorithm_flag(ALGORITHMS, "the agent configuration's")
    ml_framework: str | None = flag(
        "torch (default) or jax", of="train play export", choices=FRAMEWORKS
    )
