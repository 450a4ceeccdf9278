"""Flags of behaviour cloning, in addition to those of all libraries."""

from __future__ import annotations

from dataclasses import dataclass

from envlab.training.flags import Flags, flag


@dataclass(kw_only=True)
class BcFlags(Flags):
    """Isaac Lab's names for robomimic."""

    dataset: str | None = flag("demonstrations in HDF5, as 'envlab record' writes them", "FILE")
    algo: str | None = flag("accepted for Isaac Lab's commands; always bc", choices=("bc",))
