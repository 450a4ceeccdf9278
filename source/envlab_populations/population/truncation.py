"""Truncation (Jaderberg et al. 2017, arXiv:1711.09846, section 4.1.2): the worst copy the best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from envlab_populations.population.strategy import Strategy


class Truncation(Strategy):
    """A share of the members, the least fit, copy as many of the fittest, drawn uniformly."""

    def pairs(self, ranking: Sequence[int], rng: np.random.Generator) -> Iterator[tuple[int, int]]:
        count = min(max(1, int(self.cfg.exploit * len(ranking))), len(ranking) // 2)
        for target in ranking[:count]:
            yield target, ranking[len(ranking) - 1 - int(rng.integers(count))]
