"""The table of flags, and the parsers made from it."""

from __future__ import annotations

from envlab.libraries import get_library
from envlab.training.arguments import agent_parser, export_parser, play_parser, train_parser
from envlab.training.flags import Flags

TASK = "--task=Isaac-Cartpole-v0"


def test_a_field_exists_whether_or_not_the_command_has_the_flag():
    for library in ["rsl_rl", "skrl"]:
        for parser_of in [train_parser, play_parser, export_parser]:
            flags, _ = parser_of(get_library(library)).parse_with_overrides([TASK])
            assert vars(flags).keys() == vars(Flags()).keys()
            assert flags.given() == {"task": "Isaac-Cartpole-v0"}


def test_only_flags_off_their_defaults_are_given():
    words = [TASK, "--num_envs=4", "--max_frames=2e6", "--grad_sync=ddp", "--trust=a", "--trust=b"]
    flags, _ = train_parser(get_library("rsl_rl")).parse_with_overrides(words)
    assert flags.given() == {
        "task": "Isaac-Cartpole-v0",
        "num_envs": 4,
        "max_frames": 2_000_000,
        "trust": ["a", "b"],
    }


def test_two_parses_share_nothing():
    parser = agent_parser("zero")
    first, _ = parser.parse_with_overrides([TASK, "--viz=kit"])
    second, _ = parser.parse_with_overrides([TASK])
    assert (first.without_effect, second.without_effect) == (["--viz kit"], [])
