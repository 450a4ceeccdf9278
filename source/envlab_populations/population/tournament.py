"""Tournaments, as AgileRL holds them: the fittest of a few drawn at random, for each place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from envlab.errors import ConfigurationError
from envlab_populations.population.cfg import PopulationCfg
from envlab_populations.population.strategy import Strategy


class Tournament(Strategy):
    """The fittest stays; each other place goes to a copy of a tournament's winner."""

    def __init__(self, cfg: PopulationCfg) -> None:
        super().__init__(cfg)
        if cfg.tournament_size > cfg.size:
            raise ConfigurationError(
                f"population.tournament_size is {cfg.tournament_size}, but there are only "
                f"{cfg.size} members to draw from. Give a larger --population_size, or "
                f"population.tournament_size={cfg.size}."
            )

    def pairs(self, ranking: Sequence[int], rng: np.random.Generator) -> Iterator[tuple[int, int]]:
        places = ranking[:-1]
        if places:
            ranks = np.arange(len(ranking))
            parents = winners(ranks, len(places), self.cfg.tournament_size, rng)
            yield from zip(places, [ranking[parent] for parent in parents], strict=True)


def winners(
    ranks: np.ndarray[Any, Any], places: int, tournament_size: int, rng: np.random.Generator
) -> list[int]:
    """Return the winner of a tournament for each place; contenders are drawn with replacement.

    Args:
        ranks: ``(num_members,)``; the fittest has the highest.
        places: Number of tournaments.
        tournament_size: Contenders of each.
        rng: The generator to draw from.
    """
    draws = rng.integers(len(ranks), size=(places, tournament_size))
    return [int(row[np.argmax(ranks[row])]) for row in draws]
