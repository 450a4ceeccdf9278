"""A population with its reports, as AgileRL's programs have kept one since 2.8."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from envlab_populations.agilerl.agent import Agent
from envlab_populations.agilerl.settings import tell
from envlab_populations.agilerl.training import evolved, report


class Population:
    """Agents that a program trains one after another.

    Attributes:
        agents: The agents.
    """

    def __init__(self, agents: Sequence[Agent], loggers: Sequence[Any] = (), **_: Any) -> None:
        """Take agents, and bars to write reports above."""
        self.agents, self._loggers = list(agents), list(loggers)

    @property
    def size(self) -> int:
        """How many agents there are."""
        return len(self.agents)

    def __len__(self) -> int:
        return len(self.agents)

    def all_below(self, max_steps: int) -> bool:
        """Return whether all agents have made fewer steps."""
        return all(agent.steps < max_steps for agent in self.agents)

    def update(self, agents: Sequence[Agent]) -> None:
        """Take the next generation."""
        self.agents = list(agents)

    def increment_evo_step(self) -> None:
        """Do nothing: generations are counted by their agents' fitness."""

    def report_metrics(self, clear: bool = False) -> None:
        """Print each agent's steps and fitness."""
        for write in self._loggers or [print]:
            write(report([agent for agent in self.agents if agent.fitness]))

    def should_stop(self, target: float | None) -> bool:
        """Return whether all agents' last ten evaluations reach a target, after a hundred."""
        recent = [np.mean(agent.fitness[-10:]) for agent in self.agents if agent.fitness]
        is_late = bool(recent) and len(self.agents[0].fitness) >= 100
        return target is not None and is_late and bool(np.min(recent) >= target)

    def finish(self) -> None:
        """Do nothing: reports are printed immediately."""


def init_loggers(
    *_: Any, pbar: Any = None, verbose: bool = True, wb: bool = False, **__: Any
) -> list[Any]:
    """Return the destinations of reports: the bar's own terminal; none with ``verbose=False``."""
    if wb:
        tell("wb has no effect: results are printed, and not sent to Weights & Biases")
    if not verbose:
        return [lambda _: None]
    return [print if pbar is None else pbar.write]


def run_selection_and_mutation(
    tournament: Any,
    mutation: Any,
    population: Sequence[Agent],
    *_: Any,
    save_elite: bool = False,
    elite_path: str | None = None,
    **__: Any,
) -> list[Agent]:
    """Return the next generation, and write the fittest of this one to a file if asked to."""
    if save_elite:
        best = max(population, key=lambda agent: agent.fitness[-1] if agent.fitness else -np.inf)
        path = Path(elite_path or f"elite_{best.algo}.pt")
        best.save_checkpoint(path if path.suffix == ".pt" else path.with_name(f"{path.name}.pt"))
    return evolved(list(population), tournament, mutation)
