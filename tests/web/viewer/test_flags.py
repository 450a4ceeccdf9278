from __future__ import annotations

import importlib.util

import pytest

from envlab.distributed.context import DistributedContext
from envlab.errors import ConfigurationError
from envlab.libraries import get_library
from envlab.training.arguments import train_parser
from envlab.training.flags import Flags
from envlab.training.isaac_lab import without_effect_line
from envlab.training.viewing import check_viewing

TASK = "--task=Isaac-Cartpole-v0"


class Shown:
    context = DistributedContext.single("cpu")
    sim = None


class Unshown:
    context = DistributedContext.single("cpu")


def parse(*words: str, parser_of=train_parser) -> Flags:
    return parser_of(get_library("rsl_rl")).parse_with_overrides([TASK, *words])[0]


def test_isaac_labs_words_are_taken():
    assert parse("--viz=viser", "--headless").viz == "web"
    flags = parse("--visualizer", "newton")
    assert flags.viz is None
    assert "--viz newton" in str(without_effect_line(flags))


def test_viewing_that_is_impossible_is_refused_in_one_sentence(monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigurationError, match="this session has no display"):
        check_viewing(Flags(viz="native"), Shown())
    with pytest.raises(ConfigurationError, match="MuJoCo model, and Unshown has none"):
        check_viewing(Flags(viz="web"), Unshown())
    find = importlib.util.find_spec
    missing = ("viser", "mjviser")
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name in missing else find(name)
    )
    with pytest.raises(ConfigurationError, match="'viser' and 'mjviser'"):
        check_viewing(Flags(viz="web"), Shown())
    check_viewing(Flags(viz=None), Unshown())
