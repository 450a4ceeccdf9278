"""The choice of parents: the fittest of a few drawn at random, for each place of a generation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from envlab.errors import ConfigurationError
from envlab_populations.evolution.accelerator import context_of
from envlab_populations.evolution.member import Member
from envlab_populations.population.tournament import winners


class TournamentSelection:
    """Draws parents with replacement, as in AgileRL; rank 0 draws for all.

    Attributes:
        rng: Its random generator; only rank 0's counts.
    """

    def __init__(
        self,
        tournament_size: int,
        elitism: bool,
        population_size: int,
        evo_step: int = 1,
        *,
        rand_seed: int | None = None,
        accelerator: Any = None,
    ) -> None:
        """Store the rules.

        Args:
            tournament_size: Members drawn for each place.
            elitism: Whether the fittest is kept unchanged, under its own index.
            population_size: Members of a generation.
            evo_step: Evaluations whose mean is a member's fitness.
            rand_seed: Seed of the draws.
            accelerator: Accelerate's, or a context of envlab's; None: a lone process.

        Raises:
            ConfigurationError: If more members are drawn than exist.
        """
        if not 1 <= tournament_size <= population_size:
            raise ConfigurationError(
                f"tournament_size is {tournament_size}, but must be from 1 to population_size, "
                f"{population_size}."
            )
        self._tournament_size, self._elitism = tournament_size, elitism
        self._size, self._evo_step = population_size, evo_step
        self._context = context_of(accelerator)
        self.rng = np.random.default_rng(rand_seed)

    def fitness(self, member: Member) -> float:
        """Return the mean of a member's last evaluations; minus infinity before one."""
        recent = member.fitness[-self._evo_step :]
        return float(np.mean(recent)) if recent else -np.inf

    def select(self, population: Sequence[Member]) -> tuple[Member, list[Member]]:
        """Return the fittest, and the next generation: copies with new indices.

        Every process must call this. With elitism the fittest itself comes first.
        """
        scores = [self.fitness(member) for member in population]
        elite, parents = self._context.broadcast(self.draw(scores))
        first = [population[elite]] if self._elitism else []
        next_index = max(member.index for member in population) + 1
        children = [population[p].clone(next_index + i) for i, p in enumerate(parents)]
        return population[elite], [*first, *children]

    def draw(self, scores: Sequence[float]) -> tuple[int, list[int]]:
        """Return the position of the fittest, and those of the parents of all others."""
        places = self._size - self._elitism
        ranks = np.argsort(np.argsort(scores, kind="stable"), kind="stable")
        return int(np.argmax(ranks)), winners(ranks, places, self._tournament_size, self.rng)
