"""Strategies for members that meet: each is a class in a separate file, and an entry point.

The group ``envlab_populations.strategies`` has it under the name by which ``population.strategy``
chooses it, so that a configuration from a file runs no other code.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from envlab.errors import ConfigurationError, did_you_mean
from envlab.plugins import load_plugins
from envlab_populations.population.cfg import PopulationCfg, Span
from envlab_populations.population.exploration import explored

ENTRY_POINT_GROUP = "envlab_populations.strategies"


@dataclass(frozen=True, kw_only=True)
class Copy:
    """One member takes over another's networks, and continues with other hyper-parameters."""

    target: int
    source: int
    hyperparameters: dict[str, float]
    """The target's new hyper-parameters, by path."""


class Strategy(abc.ABC):
    """Decides which members copy which. Only rank 0's decisions count.

    Attributes:
        cfg: The population's configuration.
    """

    def __init__(self, cfg: PopulationCfg) -> None:
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

    def copies(
        self,
        fitness: Sequence[float | None],
        values: Sequence[Mapping[str, float]],
        spans: Sequence[Span],
        rng: np.random.Generator,
    ) -> list[Copy]:
        """Return which members copy which at a meeting, and with what numbers they continue.

        Args:
            fitness: By member; None: unknown, so the member is left unchanged. NaN ranks lowest.
            values: Hyper-parameters by member.
            spans: Possible values of these.
            rng: The generator to draw from.
        """
        scores = {
            i: -math.inf if math.isnan(f) else f for i, f in enumerate(fitness) if f is not None
        }
        return [
            Copy(
                target=target,
                source=source,
                hyperparameters={
                    span.path: explored(span, values[source][span.path], self.cfg, rng)
                    for span in spans
                },
            )
            for target, source in self.pairs(sorted(scores, key=lambda i: scores[i]), rng)
        ]


def make_strategy(cfg: PopulationCfg) -> Strategy:
    """Return the strategy that a configuration names.

    Raises:
        ConfigurationError: If there is none of this name, or its rules make no sense.
    """
    known: dict[str, Callable[[PopulationCfg], Strategy]]
    known = load_plugins(ENTRY_POINT_GROUP, type).found
    if cfg.strategy not in known:
        raise ConfigurationError(
            f"population.strategy is {cfg.strategy!r}, but must be one of "
            f"{', '.join(sorted(known))}.{did_you_mean(cfg.strategy, known)}"
        )
    return known[cfg.strategy](cfg)
