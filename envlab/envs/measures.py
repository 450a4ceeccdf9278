"""Measures of whole episodes in addition to their returns, such as success."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np


class EpisodeMeasures(Protocol):
    """Sums up ``info["episodes"]`` of an environment, ``(num_episodes,)`` by name; a module may."""

    @property
    def MEASURES(self) -> Sequence[str]:
        """Names of the measures."""

    def summarise(self, episodes: Mapping[str, np.ndarray], /) -> dict[str, dict[str, Any]]:
        """Return ``MEASURES`` by group of episodes, one of which is ``all``.

        Each is a mean with the ends of its 95 % interval.
        """

    def table(self, summary: dict[str, dict[str, Any]], /) -> str:
        """Return a summary as text for people."""
