"""What a task measures of whole episodes beside their returns, such as success."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np


class EpisodeMeasures(Protocol):
    """Sums up ``info["episodes"]`` of an environment, ``(num_episodes,)`` by name; a module may."""

    @property
    def MEASURES(self) -> Sequence[str]:
        """Names of what is summed up."""

    def summarise(self, episodes: Mapping[str, np.ndarray], /) -> dict[str, dict[str, Any]]:
        """Return ``MEASURES`` by group of episodes, of which ``all`` is one.

        Each is its mean with the ends of its 95 % interval.
        """

    def table(self, summary: dict[str, dict[str, Any]], /) -> str:
        """Return a summary for a person."""
