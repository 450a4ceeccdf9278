"""The table of flags, and the parsers made from it."""

from __future__ import annotations

import dataclasses
import sys
from types import ModuleType
from typing import Annotated

import pytest

from envlab.config import PositiveInt, Requires
from envlab.errors import ConfigurationError
from envlab.libraries import get_library
from envlab.plugins import Plugins
from envlab.training import flags as flags_module
from envlab.training.arguments import agent_parser, export_parser, play_parser, train_parser
from envlab.training.flags import Flags, GuestFlags, flag
from envlab.training.plan import RunPlan, plan_run

TASK = "--task=Isaac-Cartpole-v0"


def test_a_field_exists_whether_or_not_the_command_has_the_flag():
    for library in ["rsl_rl", "skrl"]:
        for parser_of in [train_parser, play_parser, export_parser]:
            flags, _ = parser_of(get_library(library)).parse_with_overrides([TASK])
            assert vars(flags).keys() >= vars(Flags()).keys()
            assert flags.given() == {"task": "Isaac-Cartpole-v0"}


def test_only_flags_off_their_defaults_are_given():
    words = [TASK, "--num_envs=4", "--max_frames=2e6", "--grad_sync=ddp", "--trust=a", "--trust=b"]
    flags, _ = train_parser(get_library("rsl_rl")).parse_with_overrides(words)
    values = {"num_envs": 4, "max_frames": 2_000_000, "trust": ["a", "b"]}
    assert flags.given() == {"task": "Isaac-Cartpole-v0", **values}


def test_two_parses_share_nothing():
    parser = agent_parser("zero")
    first, _ = parser.parse_with_overrides([TASK, "--viz=kit"])
    second, _ = parser.parse_with_overrides([TASK])
    assert (first.without_effect, second.without_effect) == (["--viz kit"], [])


@dataclasses.dataclass(kw_only=True)
class GreetingFlags:
    """The flags of a guest."""

    greetings: Annotated[PositiveInt | None, Requires("--seed")] = flag("how often to greet", "N")


def greeting(plan: RunPlan) -> RunPlan:
    """Return the plan of a run that greets: its name says how often."""
    cfg = dataclasses.replace(plan.agent_cfg, run_name=f"hello_{plan.flags.greetings}")  # type: ignore[attr-defined]
    return dataclasses.replace(plan, agent_cfg=cfg)


def test_a_guest_adds_a_flag_of_train_by_an_entry_point(monkeypatch: pytest.MonkeyPatch):
    module = ModuleType("a_guest")
    module.GreetingFlags, module.greeting = GreetingFlags, greeting  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "a_guest", module)
    guest = GuestFlags(flags="a_guest:GreetingFlags", plan="a_guest:greeting", only="has_members")
    plugins = Plugins({"greeting": guest}, {})
    monkeypatch.setattr(flags_module, "load_plugins", lambda group, kind: plugins)
    rsl_rl, fast_sac = get_library("rsl_rl"), get_library("fast_sac")

    def plan_of(*words: str) -> RunPlan:
        return plan_run(*train_parser(rsl_rl).parse_with_overrides([TASK, *words]), rsl_rl)

    assert plan_of("--greetings=3", "--seed=1").run_name == "hello_3"
    assert plan_of("--seed=1").run_name == ""
    for words, sentence in (
        (["--greetings=3"], "--greetings 3 has no effect without --seed. Add --seed, or leave"),
        (["--greetings=0", "--seed=1"], "--greetings is 0, but must be greater than 0"),
    ):
        with pytest.raises(ConfigurationError, match=sentence):
            plan_of(*words)
    for parser, sentence in (
        (play_parser(rsl_rl), "There is no flag '--greetings'"),
        (train_parser(fast_sac), "--greetings is a flag only of rsl_rl, rl_games, skrl"),
    ):
        with pytest.raises(ConfigurationError, match=sentence):
            parser.parse_with_overrides([TASK, "--greetings=3"])
