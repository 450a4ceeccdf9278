"""Flags of DD-PPO, in addition to those of all libraries."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from envlab.training.flags import Flags, flag, switch

_ALL = "train play export experiment"


@dataclass(kw_only=True)
class DdppoFlags(Flags):
    """The flags that name an experiment, and those of training."""

    experiment: str | None = flag(
        "Python file with an ExperimentConfig, in place of --task; also as the first word",
        "FILE",
        of=_ALL,
    )
    config_kwargs: str | None = flag(
        "arguments of the experiment's __init__: JSON, or a file with JSON", "JSON", of=_ALL
    )
    machine_id: int | None = flag("number of this node, for the experiment", "N", of=_ALL)
    allenact: bool = switch("have AllenAct's module names lead to envlab's", of=_ALL)
    preemption_threshold: float | None = flag(
        "fraction of the processes that must be done collecting before the others are stopped; 1 "
        "(default): rollouts are never cut short",
        "SHARE",
        of="train play export",
    )
    replay_rollouts: str | None = flag(
        "cut rollouts short where this run's processes did, to repeat it bit by bit",
        "RUN",
        of="train play export",
    )

    @property
    def experiment_file(self) -> Path:
        """The experiment's file, if there is an experiment."""
        return Path(str(self.experiment))
