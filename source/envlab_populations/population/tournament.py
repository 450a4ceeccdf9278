"""Tournaments, as AgileRL holds them: the fittest of a few drawn at random, for each place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from envlab.errors import ConfigurationError
from envlab_populations.population.cfg import StrategyCfg
from envlab_populations.population.strategy import Strategy


class Tournament(Strategy):
    """With elitism the fittest stays; each other place goes to a copy of a tournament's winner."""

    def __init__(self, cfg: StrategyCfg) -> None:
        super().__init__(cfg)
        if cfg.tournament_size > cfg.size:
            raise ConfigurationError(
                f"{cfg.ROOT}.tournament_size is {cfg.tournament_size}, but there are only "
                f"{cfg.size} members to draw from. Give a larger --population_size, or "
                f"{cfg.ROOT}.tournament_size={cfg.size}."
            )

    def pairs(self, ranking: Sequence[int], rng: np.random.Generator) -> Iterator[tuple[int, int]]:
        targets = ranking[: len(ranking) - self.cfg.elitism]
        if not targets:
            return
        ranks = {place: rank for rank, place in enumerate(ranking)}
        contenders = sorted(ranking)
        draws = rng.integers(len(ranking), size=(len(targets), self.cfg.tournament_size))
        for target, row in zip(targets, draws, strict=True):
            yield target, max((contenders[one] for one in row), key=lambda place: ranks[place])
