"""``population.ranges``: how members may differ in numbers, and how copies change them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal

import numpy as np

from envlab.agent_cfg import AgentCfg, set_value, value_at
from envlab.config import Range, check_ranges, leaves, merge
from envlab.errors import ConfigurationError, did_you_mean
from envlab_populations.population.cfg import PopulationCfg

Finite = Annotated[float, Range(above=-math.inf, below=math.inf)]
_DECADE = 10.0
"""A range of positive numbers whose ends differ by this factor or more is logarithmic."""
_OF_THE_RUN = ("num_steps_per_env", "seed", "max_iterations", "save_interval")


@dataclass(kw_only=True)
class RangeCfg:
    """A range as a group: its ends, or choices alone."""

    low: Finite | None = None
    """Smallest value."""
    high: Finite | None = None
    """Largest value."""
    scale: Literal["log", "linear"] | None = None
    """Scale of draws; null: ``log`` if it spans a decade or more above 0."""
    start: list[Finite] | None = None
    """Ends between which the first members draw; null: the same."""
    choices: list[Finite] = field(default_factory=list)
    """All possible values."""


@dataclass(frozen=True, kw_only=True)
class Span:
    """The possible values of a number."""

    path: str
    """``agent.<...>``."""
    low: float
    high: float
    is_log: bool = False
    """Whether it is drawn on a logarithmic scale."""
    is_whole: bool = False
    """Whether it is a whole number."""
    start: tuple[float, float]
    """Bounds between which the first members draw it."""
    choices: tuple[float, ...] = ()
    """All values that it may have; empty: any from ``low`` to ``high``."""

    def drawn(self, low: float, high: float, rng: np.random.Generator) -> float:
        """Return a value between two ends."""
        if self.choices:
            inside = [choice for choice in self.choices if low <= choice <= high]
            return inside[int(rng.integers(len(inside)))]
        if self.is_log:
            value = math.exp(rng.uniform(math.log(low), math.log(high)))
        else:
            value = float(rng.uniform(low, high))
        return round(value) if self.is_whole else value

    def explored(self, value: float, cfg: PopulationCfg, rng: np.random.Generator) -> float:
        """Return a value near the given one, or from the whole range, as configured."""
        if cfg.explore == "resample":
            return self.drawn(self.low, self.high, rng)
        if self.choices:  # the left or right neighbour, if there is one
            ordered = sorted(self.choices)
            place = ordered.index(value) + (1 if rng.random() < 0.5 else -1)
            return ordered[min(max(place, 0), len(ordered) - 1)]
        factor = cfg.factors[int(rng.integers(len(cfg.factors)))]
        return scaled(value, factor, self.low, self.high, is_whole=self.is_whole)


def scaled(value: float, factor: float, low: float, high: float, *, is_whole: bool) -> float:
    """Return a value times a factor, clipped; a whole number changes unless it is at a bound."""
    changed = min(max(value * factor, low), high)
    if is_whole and round(changed) == value:  # a small number would never change
        changed = min(max(value + (1 if factor > 1 else -1), low), high)
    return round(changed) if is_whole else changed


def first_values(spans: Sequence[Span], rng: np.random.Generator) -> dict[str, float]:
    """Return a member's initial hyper-parameters."""
    return {span.path: span.drawn(*span.start, rng) for span in spans}


def label(path: str, paths: Sequence[str]) -> str:
    """Return the last name of a path, or all of it if another one ends in the same name."""
    name = path.rpartition(".")[2]
    same = [other for other in paths if other.rpartition(".")[2] == name]
    return name if len(same) == 1 else path


def with_values(agent_cfg: Any, values: Mapping[str, float]) -> Any:
    """Return an agent's configuration with a member's hyper-parameters."""
    for path, value in values.items():
        agent_cfg = set_value(agent_cfg, path.removeprefix("agent."), value)
    return agent_cfg


def spans_of(cfg: PopulationCfg, agent_cfg: AgentCfg) -> list[Span]:
    """Return the numbers that members may differ in.

    Raises:
        ConfigurationError: If there are none, or no possible population.
    """
    if cfg.size == 0:
        if cfg.ranges:
            raise ConfigurationError(
                "population.ranges has no effect on a single learner. Add --population_size, or "
                "leave it out."
            )
        return []
    spans = [_span(path, value, agent_cfg) for path, value in _flat(cfg.ranges, "")]
    if not spans:
        raise ConfigurationError(
            "population.ranges is empty, so members would differ only by chance. Name a number, as "
            "in 'population.ranges.agent.algorithm.learning_rate=[1e-4,1e-2]'."
        )
    agent_cfg.check_members([span.path for span in spans])
    return spans


def _flat(node: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield the entries of ``population.ranges`` by dotted path."""
    keys = {one.name for one in fields(RangeCfg)}
    for name, value in node.items():
        path = f"{prefix}.{name}" if prefix else str(name)
        if isinstance(value, Mapping) and not keys & set(value):
            yield from _flat(value, path)
        else:
            yield path, value


def _span(path: str, value: Any, agent_cfg: AgentCfg) -> Span:
    at = f"population.ranges.{path}"
    is_whole = isinstance(_number_at(path, at, agent_cfg), int)
    group = value if isinstance(value, Mapping) else {"choices": value}
    if isinstance(value, list) and len(value) == 2:
        group = dict(zip(("low", "high"), value, strict=True))
    if not isinstance(value, list | Mapping) or ("choices" in group and len(group) > 1):
        raise ConfigurationError(
            f"{at} is {value!r}, but must be [low, high], a list of three or more choices, "
            "{choices: [...]}, or {low: ..., high: ..., scale: log or linear, start: [low, high]}."
        )
    given = merge(RangeCfg(), group, at)
    check_ranges(given, at)
    low = min(given.choices, default=given.low)
    high = max(given.choices, default=given.high)
    if low is None or high is None or not low < high:
        raise ConfigurationError(
            f"{at} goes from {low} to {high}, but must go from a smaller number to a larger one. "
            "Write the smaller one first."
        )
    start = [low, high] if given.start is None else given.start
    if len(start) != 2 or not low <= start[0] < start[1] <= high:
        raise ConfigurationError(
            f"{at}.start is {start}, but must be two rising numbers from {low:g} to {high:g}."
        )
    scale = given.scale or ("log" if low > 0 and high / low >= _DECADE else "linear")
    if scale == "log" and low <= 0:
        raise ConfigurationError(
            f"{at} has the scale log from {low:g} on, but a logarithm needs numbers above 0. Make "
            "it linear."
        )
    if is_whole and not all(one.is_integer() for one in (low, high, *start, *given.choices)):
        raise ConfigurationError(f"{at} is {value!r}, but must hold whole numbers only.")
    for end in (low, high, *start):
        changed = with_values(agent_cfg, {path: int(end) if is_whole else end})
        check_ranges({"agent": changed})
    return Span(
        path=path,
        low=low,
        high=high,
        is_log=scale == "log",
        is_whole=is_whole,
        start=(start[0], start[1]),
        choices=tuple(int(choice) if is_whole else choice for choice in given.choices),
    )


def _number_at(path: str, at: str, agent_cfg: AgentCfg) -> float:
    """Return the current number at a path.

    Raises:
        ConfigurationError: If there is no number there that may differ between members.
    """
    numbers = {
        name: value
        for name, value in leaves(agent_cfg, "agent")
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    name = path.removeprefix("agent.")
    if path not in numbers:
        found = value_at(agent_cfg, name) if path.startswith("agent.") else None
        problem = "names no number" if found is None else f"names {found!r}, not a number"
        raise ConfigurationError(
            f"{at} {problem} that members could differ in.{did_you_mean(path, [*numbers])}"
        )
    if name in {agent_cfg.FLAGS.get(one, one) for one in _OF_THE_RUN}:
        raise ConfigurationError(
            f"{at} is of the run, and so the same for all members. Leave it out."
        )
    return numbers[path]
