"""Strategies for members that meet: each is a class in a separate file, and an entry point.

The group ``envlab_populations.strategies`` has it under the name by which ``population.strategy``
chooses it, so that a configuration from a file runs no other code.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from envlab.errors import ConfigurationError, did_you_mean
from envlab.plugins import load_plugins
from envlab_populations.population.cfg import StrategyCfg

ENTRY_POINT_GROUP = "envlab_populations.strategies"


class Strategy(abc.ABC):
    """Decides which members copy which. Only rank 0's decisions count.

    Attributes:
        cfg: The population's configuration.
    """

    def __init__(self, cfg: StrategyCfg) -> None:
        """Store the rules.

        Raises:
            ConfigurationError: If they make no sense.
        """
        self.cfg = cfg

    @abc.abstractmethod
    def pairs(self, ranking: Sequence[int], rng: np.random.Generator) -> Iterator[tuple[int, int]]:
        """Yield the places of a member and of the one that it copies. Others stay as they are.

        Args:
            ranking: Places of the members whose fitness is known, the least fit first.
            rng: The generator to draw from.
        """


def ranking(fitness: Sequence[float | None]) -> list[int]:
    """Return the places of members, the least fit first; of equal ones, the last.

    Args:
        fitness: By place; None: unknown, which leaves a member out; NaN: the least fit.
    """
    scores = {i: -math.inf if math.isnan(f) else f for i, f in enumerate(fitness) if f is not None}
    return sorted(scores, key=lambda place: (scores[place], -place))


def make_strategy(cfg: StrategyCfg) -> Strategy:
    """Return the strategy that a configuration names.

    Raises:
        ConfigurationError: If there is none of this name, or its rules make no sense.
    """
    known: dict[str, Callable[[StrategyCfg], Strategy]]
    known = load_plugins(ENTRY_POINT_GROUP, type).found
    if cfg.strategy not in known:
        raise ConfigurationError(
            f"{cfg.ROOT}.strategy is {cfg.strategy!r}, but must be one of "
            f"{', '.join(sorted(known))}.{did_you_mean(cfg.strategy, known)}"
        )
    return known[cfg.strategy](cfg)
