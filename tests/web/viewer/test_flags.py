from __future__ import annotations

import importlib.util

from envlab.distributed.context import DistributedContext
from envlab.libraries import get_library
from envlab.training.arguments import train_parser
from envlab.training.flags import Flags
from envlab.training.isaac_lab import without_effect_line
from envlab.training.viewing import check_viewing
from tests.refusals import check_refusals

TASK = "--task=Isaac-Cartpole-v0"


class Unshown:
    context = DistributedContext.single("cpu")


class Shown(Unshown):
    sim = None


def parse(*words: str) -> Flags:
    return train_parser(get_library("rsl_rl")).parse_with_overrides([TASK, *words])[0]


def test_isaac_labs_words_are_taken():
    assert parse("--viz=viser", "--headless").viz == "web"
    flags = parse("--visualizer", "newton")
    assert flags.viz is None
    assert "--viz newton" in str(without_effect_line(flags))


def test_viewing_that_is_impossible_is_refused_in_one_sentence(monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    native, web = Flags(viz="native"), Flags(viz="web")
    no_display = (native, Shown(), "this session has no display")
    check_refusals(
        check_viewing, [no_display, (web, Unshown(), "MuJoCo model, and Unshown has none")]
    )
    find, missing = importlib.util.find_spec, ("viser", "mjviser")
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name in missing else find(name)
    )
    check_refusals(check_viewing, [(web, Shown(), "'viser' and 'mjviser'")])
    check_viewing(Flags(viz=None), Unshown())
