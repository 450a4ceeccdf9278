"""Isaac Lab's command lines: flags without effect, other names, and Isaac Lab 3's forms."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from envlab import cli
from envlab.errors import ConfigurationError
from envlab.libraries import get_library
from envlab.training import launch
from envlab.training.arguments import play_parser, train_parser
from envlab.training.flags import Flags
from envlab.training.isaac_lab import WITHOUT_EFFECT, translated, without_effect_line
from envlab.training.viewing import Pace

TASK = "--task=Isaac-Cartpole-v0"


def parse(*words: str, parser_of=train_parser, library: str = "rsl_rl") -> Flags:
    return parser_of(get_library(library)).parse_with_overrides([TASK, *words])[0]


def test_each_flag_without_effect_is_accepted_and_named():
    for parser_of in [train_parser, play_parser]:
        for library in ["rsl_rl", "rl_games", "skrl"]:
            words = [
                f"{flag}={'2' * num_values}" if num_values else flag
                for flag, (num_values, _) in WITHOUT_EFFECT.items()
                if flag.startswith("--")
            ]
            line = without_effect_line(parse(*words, parser_of=parser_of, library=library))
            assert line is not None
            assert "\n" not in line
            assert all(word.partition("=")[0] in line for word in words)
            assert without_effect_line(parse("--headless", parser_of=parser_of)) is None


def test_flags_with_an_equivalent_have_its_effect():
    flags = parse("--cpu", "--track", "--wandb-name=one")
    assert (flags.device, flags.logger, flags.run_name) == ("cpu", "wandb", "one")
    played = parse("--use_last_checkpoint", "--real-time", parser_of=play_parser)
    assert (played.checkpoint, played.real_time) == ("latest", True)


def test_real_time_waits_for_the_end_of_each_step():
    start = time.monotonic()
    pace = Pace(0.02)
    for _ in range(3):
        pace()
    assert time.monotonic() - start >= 0.06


def test_physics_is_the_simulations_backend():
    found = translated(["physics=newton_mjwarp", "a.b=1", "physics=mujoco,analytic"])
    assert found == ["env.sim.backend=mujoco_warp", "a.b=1", "env.sim.backend=mujoco,analytic"]
    with pytest.raises(ConfigurationError, match=r"physx.*must be one of auto, mujoco"):
        translated(["physics=mujoco,physx"])


@pytest.mark.parametrize(
    ("words", "library", "is_chosen"),
    [
        (["skrl", TASK], "skrl", False),
        (["--rl_library", "skrl", "--task", "Isaac-Cartpole"], "skrl", False),
        ([TASK, "--rl_library=rl_games"], "rl_games", False),
        (["--task", "Isaac-Cartpole"], "rsl_rl", True),
        (["agent.seed=1", TASK], "rsl_rl", True),
    ],
)
def test_a_library_is_named_first_by_its_flag_or_not_at_all(
    monkeypatch, capsys, words: list[str], library: str, is_chosen: bool
):
    called = []
    monkeypatch.setattr(launch, "run_training", lambda *given: called.append(given))
    cli.main(["train", *words])
    ((found, flags, overrides),) = called
    assert (found.name, flags.task.removesuffix("-v0")) == (library, "Isaac-Cartpole")
    assert [one.input_line for one in overrides] == [one for one in words if "agent." in one]
    told = f"No library was named; taking {library} (--rl_library {library}).\n"
    assert capsys.readouterr().err == told * is_chosen


def test_a_printed_configuration_is_taken_back(tmp_path: Path, capsys):
    words = ["config", "skrl", TASK, "--algorithm=sac"]
    assert cli.main([*words, "--num_envs=7", "--seed=5", "env.episode_length_s=3"]) == 0
    printed = capsys.readouterr().out
    path = tmp_path / "mine.yaml"
    path.write_text(printed)
    assert "num_envs: 7\n" in printed
    assert "episode_length_s: 3.0\n" in printed
    assert cli.main([*words, f"--config={path}"]) == 0
    assert capsys.readouterr().out == printed
