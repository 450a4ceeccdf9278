"""Dataclass configs: strict dictionaries, Hydra overrides, exact YAML files.

Begin with the names below. ``decoding`` and ``encoding`` turn dataclasses into plain values and
back, ``overrides`` applies ``env.a.b=1``, ``files`` reads and writes YAML, ``references`` writes
functions as ``module:name``. What a value may be, excludes and requires is declared at its field:
``ranges`` checks it, ``_messages`` words the refusals.
"""

from __future__ import annotations

from envlab.config.decoding import from_dict, merge
from envlab.config.encoding import leaves, paths, to_dict
from envlab.config.files import load_yaml, read_yaml, write_yaml, yaml_text
from envlab.config.overrides import (
    Override,
    compose,
    expand_sweep,
    overrides_of,
    parse_overrides,
    sets_value,
    texts_of,
)
from envlab.config.ranges import (
    Excludes,
    LayerSize,
    NonNegativeFloat,
    NonNegativeInt,
    NotEmpty,
    PositiveFloat,
    PositiveInt,
    Range,
    Requires,
    UnitInterval,
    check_ranges,
)
from envlab.config.references import Trust, reference_of, resolve

__all__ = [
    "Excludes",
    "LayerSize",
    "NonNegativeFloat",
    "NonNegativeInt",
    "NotEmpty",
    "Override",
    "PositiveFloat",
    "PositiveInt",
    "Range",
    "Requires",
    "Trust",
    "UnitInterval",
    "check_ranges",
    "compose",
    "expand_sweep",
    "from_dict",
    "leaves",
    "load_yaml",
    "merge",
    "overrides_of",
    "parse_overrides",
    "paths",
    "read_yaml",
    "reference_of",
    "resolve",
    "sets_value",
    "texts_of",
    "to_dict",
    "write_yaml",
    "yaml_text",
]
