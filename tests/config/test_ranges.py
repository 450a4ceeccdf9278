"""Ranges that are declared at fields, and their refusals."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import pytest

from envlab.config import (
    NonNegativeFloat,
    NotEmpty,
    PositiveFloat,
    PositiveInt,
    Range,
    UnitInterval,
    check_ranges,
    from_dict,
)
from envlab.errors import ConfigurationError


@dataclass(kw_only=True)
class Layers:
    sizes: Annotated[list[Annotated[int, Range(above=0, also=-1)]], NotEmpty()] = field(
        default_factory=lambda: [8, -1]
    )
    gains: dict[str, UnitInterval] | None = None


@dataclass(kw_only=True)
class Agent:
    RANGES: ClassVar[dict[str, Range]] = {"free.noise.std": Range(at_least=0), "no.such": Range()}

    epochs: PositiveInt | None = 1
    rate: PositiveFloat = 1e-3
    clip: Annotated[float, Range(above=0)] = math.inf
    momentum: Annotated[float, Range(at_least=0, below=1)] = 0.9
    decay: NonNegativeFloat = 0.0
    layers: Layers = field(default_factory=Layers)
    free: dict[str, Any] = field(default_factory=lambda: {"noise": {"std": 0.5}, "mode": "x"})
    terms: dict[str, Layers] = field(default_factory=dict)
    ground: Literal["auto", True, False] = "auto"
    order: Literal["rows", "columns"] | None = None
    device: Literal["auto"] | int = "auto"

    def check_values(self, path: str) -> None:
        if self.epochs == 13:
            raise ConfigurationError(f"{path}.epochs is 13")


@dataclass(kw_only=True)
class Heir(Agent):
    epochs: int = 2
    rate: UnitInterval = 1e-3


def of(**values: Any) -> Agent:
    return from_dict(Agent, values, "agent")


def test_values_within_their_ranges_pass():
    for values in (
        {},
        {"epochs": None, "decay": 0.0, "momentum": 0.0},
        {"layers": {"sizes": [1], "gains": {"a": 0.0, "b": 1.0}}},
        {"free": {"noise": None}},
        {"free": {"noise": {"std": 0.0, "on": True}}},
    ):
        check_ranges(of(**values), "agent")
    for values in ({"ground": False}, {"order": "rows"}, {"device": 3}):
        check_ranges(Agent(**values), "agent")


OUTSIDE: dict[str, dict[str, Any]] = {
    "agent.epochs is 0, but must be greater than 0. Correct agent.epochs.": {"epochs": 0},
    "agent.rate is -0.001, but must be greater than 0 and finite.": {"rate": -1e-3},
    "agent.rate is inf, but must be greater than 0 and finite.": {"rate": math.inf},
    "agent.clip is 0.0, but must be greater than 0.": {"clip": 0.0},
    "agent.momentum is 1.0, but must be at least 0 and less than 1.": {"momentum": 1.0},
    "agent.decay is -0.1, but must be at least 0 and finite.": {"decay": -0.1},
    "sizes.1 is 0, but must be greater than 0, or -1": {"layers": {"sizes": [8, 0]}},
    "layers.gains.a is 1.5, but must be from 0 to 1.": {"layers": {"gains": {"a": 1.5}}},
    "agent.layers.sizes is [], but must have at least one element": {"layers": {"sizes": []}},
    "agent.terms.x.sizes.0 is -2": {"terms": {"x": {"sizes": [-2]}}},
    "agent.free.noise.std is -1.0, but must be at": {"free": {"noise": {"std": -1}}},
    "agent.epochs is 13": {"epochs": 13},
}
NO_CHOICE: dict[str, dict[str, Any]] = {
    "is 'true', but must be one of 'auto', True, False. Correct agent.ground.": {"ground": "true"},
    "agent.ground is 1, but must be one of 'auto', True, False.": {"ground": 1},
    "is 'layers', but must be one of 'rows', 'columns', None": {"order": "layers"},
}


def test_a_value_outside_of_its_range_or_choices_is_named_with_them():
    found = [(said, of(**values)) for said, values in OUTSIDE.items()]
    # As Python sets them: a file's are checked when they are read.
    found += [(said, Agent(**values)) for said, values in NO_CHOICE.items()]
    for said, cfg in found:
        with pytest.raises(ConfigurationError) as caught:
            check_ranges(cfg, "agent")
        assert said in str(caught.value)


def test_configurations_by_name_are_judged_under_their_names():
    with pytest.raises(ConfigurationError, match=r"^agent\.epochs is 0"):
        check_ranges({"env": Layers(), "agent": Agent(epochs=0)})


def test_a_redeclared_field_keeps_its_range_or_gets_another():
    with pytest.raises(ConfigurationError, match="epochs is 0"):
        check_ranges(Heir(epochs=0), "agent")
    with pytest.raises(ConfigurationError, match=r"rate is 1\.5, but must be from 0 to 1"):
        check_ranges(Heir(rate=1.5), "agent")
    check_ranges(Heir(rate=0.0), "agent")
