"""What settings exclude and require, at any depth of a configuration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import pytest

from envlab.config import Excludes, Requires
from envlab.config.ranges import check_conditions
from envlab.errors import ConfigurationError


@dataclass
class Inner:
    fast: Annotated[bool, Excludes("--slow --late=always", "a thing is one of them")] = False
    rate: Annotated[int, Requires("cfg.inner.fast")] = 0


@dataclass
class Outer:
    inner: Inner = field(default_factory=Inner)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["cfg.inner.fast", "--slow"], "FAST (a.yaml) and SLOW exclude each other: a thing is one"),
        (["cfg.inner.fast", "--late=always"], "FAST (a.yaml) and ALWAYS exclude each other"),
        (["cfg.inner.rate"], "RATE has no effect without cfg.inner.fast. Add cfg.inner.fast, or"),
        (["cfg.inner.rate", "cfg.inner.fast"], None),
        (["--slow", "--late=always"], None),
    ],
)
def test_settings_that_exclude_or_lack_each_other_are_both_named(
    given: list[str], sentence: str | None
):
    names = {name: name.rpartition(".")[2].rpartition("=")[2].strip("-").upper() for name in given}
    places = {"cfg.inner.fast": " (a.yaml)"}
    found = None
    try:
        check_conditions({"cfg.": Outer()}, names.get, lambda name: places.get(name, ""))
    except ConfigurationError as error:
        found = str(error)
    assert found is None if sentence is None else str(found).startswith(sentence), found
