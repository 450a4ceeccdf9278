"""Dataclass configs: strict dictionaries, Hydra overrides, exact YAML files."""

from __future__ import annotations

from envlab.config.decoding import from_dict, merge
from envlab.config.encoding import to_dict
from envlab.config.files import load_yaml, read_yaml, write_yaml, yaml_text
from envlab.config.overrides import check_grammar, compose, expand_sweep, overrides_of, texts_of
from envlab.config.ranges import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Range,
    UnitInterval,
    check_ranges,
)
from envlab.config.references import Trust, reference_of, resolve
from envlab.config.tree import leaves, paths

__all__ = [
    "NonNegativeFloat",
    "NonNegativeInt",
    "PositiveFloat",
    "PositiveInt",
    "Range",
    "Trust",
    "UnitInterval",
    "check_grammar",
    "check_ranges",
    "compose",
    "expand_sweep",
    "from_dict",
    "leaves",
    "load_yaml",
    "merge",
    "overrides_of",
    "paths",
    "read_yaml",
    "reference_of",
    "resolve",
    "texts_of",
    "to_dict",
    "write_yaml",
    "yaml_text",
]
