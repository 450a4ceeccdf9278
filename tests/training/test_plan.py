"""Plans, and what is refused before anything is written: one sentence, and exit code 2."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from envlab.cli import main
from envlab.distributed.checkpoint import FORMAT_VERSION, save_checkpoint
from envlab.envs.mdp.recorders import ActionStateRecorderManagerCfg
from envlab.errors import ConfigurationError
from envlab.libraries import Library, get_library
from envlab.training.agreement import digest_of
from envlab.training.arguments import train_parser
from envlab.training.plan import RunPlan, choose_num_envs, plan_run
from tests.distributed.test_checkpoint import Bomb
from tests.trained import SMALL, TASK, session_of, train_in

CARTPOLE = ("--task=Isaac-Cartpole-v0", "--device=cpu", "--num_envs=4", "--max_iterations=1")

TORCHRUN = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
TORCHRUN |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}


def error_of(capsys: pytest.CaptureFixture[str]) -> str:
    """Return the one error sentence, which must be the whole output."""
    captured = capsys.readouterr()
    lines = [line for line in captured.err.splitlines() if line]
    assert [line[:7] for line in lines] == ["error: "], captured.err
    assert captured.out == ""
    return lines[0]


@pytest.fixture
def message_of(tmp_path: Path, capsys):
    """Runs train.py with bad input in ``tmp_path`` and returns its one sentence."""

    def run_it(*arguments: str | Path) -> str:
        before = sorted(tmp_path.rglob("*"))
        assert train_in(tmp_path, *map(str, arguments)) == 2
        assert sorted(tmp_path.rglob("*")) == before
        return error_of(capsys)

    return run_it


def test_torchrun_without_distributed_is_refused_by_one_rank_of_each_node(
    tmp_path: Path, capsys, monkeypatch
):
    for local_rank, num_times in [("0", 1), ("1", 0)]:
        for name, value in (TORCHRUN | {"LOCAL_RANK": local_rank}).items():
            monkeypatch.setenv(name, value)
        assert train_in(tmp_path, *CARTPOLE) == 2
        error = capsys.readouterr().err
        assert (error.count("\n"), "--distributed" in error) == (num_times, bool(num_times))


def test_a_path_that_is_no_checkpoint_of_the_task_is_named(trained: Path, monkeypatch, capsys):
    """Another task's folder of runs used to be ignored, and the task's own looked in."""
    monkeypatch.chdir(trained.parents[3])
    run = Path(*trained.parts[-4:])
    no_run = f"which is a folder, and no run. Give a run, such as --checkpoint={run}, or the path"
    places = {
        "..": no_run,
        "../..": no_run,
        "checkpoints": no_run,
        "params/nothing": f"There is no checkpoint {trained}/params/nothing. Use 'latest', 'best',",
        ".": "is of the task 'Isaac-Cartpole-v0', but 'Isaac-Ant-v0' was requested",
    }
    for place, words in places.items():
        for command in (["play"], ["train", "--resume"]):
            flags = ["--task=Isaac-Ant-v0", "--device=cpu", "--num_envs=2", *command[1:]]
            flags += [f"--checkpoint={os.path.normpath(run / place)}"]
            assert main([command[0], "rsl_rl", *flags]) == 2
            assert words in error_of(capsys), (command, place)


def test_a_checkpoint_that_cannot_be_resumed_is_named(message_of, tmp_path: Path, trained: Path):
    good = trained / "checkpoints/model_4.pt"
    other, broken, bomb = (tmp_path / f"{name}.pt" for name in ("other", "broken", "bomb"))
    save_checkpoint(other, {"library": "skrl", "task": "Isaac-Cartpole-v0"})
    broken.write_bytes(good.read_bytes()[: good.stat().st_size // 2])
    torch.save({"format_version": FORMAT_VERSION, "x": Bomb(tmp_path / "touched")}, bomb)
    direct = ["--task=Isaac-Cartpole-Direct-v0", "--device=cpu", "--num_envs=4"]
    for path, flags, words in (
        (good, direct, "but 'Isaac-Cartpole-Direct-v0' was requested"),
        (other, CARTPOLE, "is of the library 'skrl', but 'rsl_rl' was requested"),
        (broken, CARTPOLE, "truncated"),
        (bomb, CARTPOLE, "cannot be read"),
        (good, [*SMALL, "agent.actor.hidden_dims=[8]"], "does not fit the configured networks"),
        (good, [*SMALL, "--num_envs=16"], "makes 16 environments on 1 process, but the run has 32"),
        (good, [TASK, "env.scene.num_envs=8"], "env.scene.num_envs is 8, which makes 8"),
        (good, [TASK, "--global_num_envs=64"], "--global_num_envs is 64, but the run has 32"),
        (good, [*SMALL, "--max_iterations=4"], "to end at iteration 4, but 4 are done already"),
    ):
        message = message_of("--max_iterations=9", *flags, "--resume", f"--checkpoint={path}")
        assert words in message, (path, flags)
    assert not (tmp_path / "touched").exists()


def num_envs_of(library: str, *words: str, num_threads: int = 1) -> int:
    """Return the number of environments of a run on a CPU."""
    plan = session_of(library, words)
    context = SimpleNamespace(device=torch.device("cpu"), num_threads=num_threads, world_size=2)
    return choose_num_envs(plan, context)  # type: ignore[arg-type]


def test_a_number_of_environments_set_by_hand_holds_on_a_cpu():
    """``sets_value`` finds it, whatever form it has; see tests/config/test_overrides.py."""
    numbers = {
        "env.decimation=4": 1024,
        "env.scene.num_envs=4096": 4096,  # the task's default, but set by hand
        "env.scene.num_envs=${agent.seed}": 42,
    }
    found = {override: num_envs_of("rsl_rl", CARTPOLE[0], override) for override in numbers}
    assert found == numbers


def test_environments_by_default_make_whole_minibatches():
    numbers = {
        ("rl_games", "Isaac-Repose-Cube-Allegro-Direct-v0", 1): 2048,  # x 16 steps: a minibatch
        ("rl_games", "Isaac-Repose-Cube-Allegro-Direct-v0", 3): 2048,
        ("rl_games", "Isaac-Repose-Cube-Shadow-OpenAI-LSTM-Direct-v0", 5): 4096,
        ("rl_games", "Isaac-Cartpole-v0", 3): 3072,
        ("rsl_rl", "Isaac-Repose-Cube-Allegro-Direct-v0", 3): 3072,
    }
    for (library, task, num_threads), number in numbers.items():
        found = num_envs_of(library, f"--task={task}", num_threads=num_threads)
        assert found == number, (library, task, num_threads)


def test_ranks_that_cannot_share_the_environments_are_told_a_number_that_they_can():
    words = [CARTPOLE[0], "--distributed"]
    sentence = r"--global_num_envs is 7, which 2 processes cannot share equally.* such as 8"
    with pytest.raises(ConfigurationError, match=sentence):
        num_envs_of("rsl_rl", *words, "--global_num_envs=7")
    assert num_envs_of("rsl_rl", *words, "--global_num_envs=8") == 4


def test_a_plan_does_not_change_and_equal_ones_have_one_digest():
    plan = session_of("rsl_rl", CARTPOLE)
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.env_cfg = None  # type: ignore[misc]
    other = plan.in_env(8, seed=3)
    assert (plan.env_cfg.seed, other.env_cfg.seed, other.env_cfg.scene.num_envs) == (None, 3, 8)
    same, changed = (session_of("rsl_rl", [*CARTPOLE, *more]) for more in ([], ["agent.seed=3"]))
    assert digest_of(plan) == digest_of(same) != digest_of(changed)


def test_a_way_to_train_that_was_written_for_0_1_is_told_what_to_take(tmp_path: Path, monkeypatch):
    (tmp_path / "of_0_1.py").write_text("from envlab.training.session import Session\n")
    monkeypatch.syspath_prepend(tmp_path)
    library = Library(name="mine", cfg="", build="of_0_1:build", player="", description="")
    sentence = "The library mine was written for envlab 0.1: its build, of_0_1:build, imports"
    with pytest.raises(ConfigurationError, match=sentence):
        library.load("build")


def plan_from(base: Path, *words: str, library: str = "rsl_rl") -> RunPlan:
    """Return the plan of words that start from the configuration of a run or file."""
    found = get_library(library)
    return plan_run(*train_parser(found).parse_with_overrides([*CARTPOLE, *words]), found, base)


def test_a_file_may_merge_keys_and_the_place_of_a_conflict_is_then_unsaid(tmp_path: Path):
    file = tmp_path / "merged.yaml"
    file.write_text("task: Isaac-Cartpole-v0\nagent:\n  <<: {overlap: true}\n")
    assert plan_from(file).agent_cfg.overlap
    with pytest.raises(ConfigurationError, match=r"^agent\.overlap=true and --video exclude"):
        plan_from(file, "--video")


def test_a_seed_given_for_a_runs_configuration_is_that_of_its_environments_too(trained: Path):
    kept = plan_from(trained)
    assert kept.env_cfg.seed == kept.agent_cfg.seed == 42
    assert plan_from(trained, "--seed=7").env_cfg.seed is None  # follows the agent's, once settled
    assert plan_from(trained, "--seed=7", "env.seed=42").env_cfg.seed == 42


def test_a_rule_for_rates_goes_with_batches_that_a_number_per_process_leaves_alone():
    words = [*CARTPOLE, "agent.batch_sizes=all", "--lr_scaling=linear"]
    assert session_of("rl_games", words).agent_cfg.batch_sizes == "process"


def test_no_file_says_where_to_write_episodes_and_what_is_played_records_none(tmp_path: Path):
    file = tmp_path / "strange.yaml"
    file.write_text(
        "task: Isaac-Cartpole-v0\nenv:\n  recorders: {dataset_export_dir_path: /elsewhere}\n"
    )
    assert plan_from(file).env_cfg.recorders is None
    plan = session_of("rsl_rl", CARTPOLE)
    cfg = dataclasses.replace(plan.env_cfg, recorders=ActionStateRecorderManagerCfg())
    recording = dataclasses.replace(plan, env_cfg=cfg)
    assert recording.in_env(2, 0).env_cfg.recorders is None
