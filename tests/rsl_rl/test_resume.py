"""Resuming: exact at the same world size; at another, fresh state is reported."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from envlab.config import load_yaml
from envlab.distributed.audit import flatten
from envlab.distributed.digest import digest
from envlab.errors import ConfigurationError
from envlab.training.preparation import total_iterations
from tests.launcher import TRAIN, run, torchrun
from tests.run.test_directory import timeless
from tests.trained import (
    SMALL,
    TASK,
    Pair,
    checkpoint_of,
    manifest_of,
    metrics_of,
    only_run,
    train_in,
)


def digests(checkpoint: dict[str, Any]) -> dict[str, str]:
    """Return digests on which two runs must agree: all except wall time."""
    metrics = {name: value for name, value in checkpoint["metrics"].items() if name != "wall_s"}
    values = flatten({**checkpoint, "metrics": metrics})
    return {name: digest(value) for name, value in values.items()}


def resumed_exactly(
    train: Callable[..., int], words: Sequence[str], trained: Path, folder: Path
) -> Path:
    """Resume a run of 4 iterations from its second; return the new run, which must end alike."""
    flags = ["--max_iterations=4", "--resume", f"--checkpoint={trained}/checkpoints/model_2.pt"]
    assert train(folder, *words, *flags) == 0
    resumed = only_run(folder)
    assert digests(checkpoint_of(resumed, 4)) == digests(checkpoint_of(trained, 4))
    assert timeless(resumed) == timeless(trained)[2:]
    return resumed


def test_a_resumed_run_ends_bit_identical(trained: Path, tmp_path: Path):
    resumed = resumed_exactly(train_in, SMALL, trained, tmp_path)
    assert manifest_of(resumed)["resumed_from"] == f"{trained}/checkpoints/model_2.pt"


def test_a_resume_is_called_exact_only_where_physics_repeats_itself(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd
):
    """As on a GPU, where the order of contacts depends on the order of threads."""
    monkeypatch.setattr("envlab.sim.simulation.Simulation.repeats_exactly", False)
    flags = ["--max_iterations=3", "--resume", f"--checkpoint={trained}/checkpoints/model_2.pt"]
    assert train_in(tmp_path, *SMALL, *flags) == 0
    output = capfd.readouterr().err
    assert "Resuming from" in output
    assert "may differ by rounding" in output


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        (
            {"code": {"envlab": "0123456789ab"}, "git": {"commit": "fedcba"}},
            ["envlab's code was 0123456789ab, and is ", "; commit was fedcba, and is "],
        ),
        ({"versions": {"torch": "0.4\x1b[2J"}}, ["torch was 0.4\\x1b[2J, and is "]),
        ({"code": None, "git": {"commit": "fedcba"}}, ["commit was fedcba, and is "]),
        ({"git": {"commit": "fedcba"}}, []),  # another commit, but of other files
    ],
)
def test_a_resume_by_other_code_names_it_and_is_not_called_exact(
    changes: dict[str, Any], named: list[str], trained: Path, tmp_path: Path, capfd
):
    run = shutil.copytree(trained, tmp_path / "run")
    (run / "run.json").write_text(json.dumps({**manifest_of(trained), **changes}))
    flags = ["--max_iterations=3", "--resume", f"--checkpoint={run}/checkpoints/model_2.pt"]
    assert train_in(tmp_path, *SMALL, *flags) == 0
    output = capfd.readouterr().err
    assert ("Resuming exactly" in output) == (not named)
    assert ("The run was made with other code: " in output) == bool(named)
    for words in named:
        assert words in output


def test_resume_takes_the_newest_run_of_the_experiment(tmp_path: Path):
    assert train_in(tmp_path, *SMALL, "--max_iterations=1") == 0
    assert train_in(tmp_path, *SMALL, "--max_iterations=2", "--resume") == 0
    manifests = [manifest_of(path.parent) for path in tmp_path.glob("logs/*/*/*/run.json")]
    assert sorted(manifest["iteration"] for manifest in manifests) == [1, 2]


def test_a_resumed_run_keeps_the_configuration_it_had(tmp_path: Path):
    """Not the task's defaults, which the flags of the first run had changed."""
    first = ["agent.algorithm.gamma=0.9", "env.rewards.alive.weight=2.0", "--max_iterations=1"]
    assert train_in(tmp_path, *SMALL, *first) == 0
    again = ["--max_iterations=2", "--resume", "env.rewards.alive.weight=3.0"]
    assert train_in(tmp_path, TASK, "--device=cpu", *again) == 0
    (resumed,) = [
        path.parent
        for path in tmp_path.glob("logs/*/*/*/run.json")
        if manifest_of(path.parent)["resumed_from"]
    ]
    agent = load_yaml(resumed / "params/agent.yaml")
    env = load_yaml(resumed / "params/env.yaml")
    assert agent["algorithm"]["gamma"] == 0.9
    assert env["scene"]["num_envs"] == 32
    assert env["rewards"]["alive"]["weight"] == 3.0


def test_a_recurrent_policy_resumes_bit_identically(tmp_path: Path):
    """Its memory of the running episodes is saved, too."""
    lstm = ["class_name=RNNModel", "rnn_type=lstm", "rnn_hidden_dim=8", "rnn_num_layers=1"]
    flags = [f"agent.{name}.{word}" for name in ("actor", "critic") for word in lstm]
    assert train_in(tmp_path, *SMALL, *flags, "--max_iterations=4") == 0
    whole = only_run(tmp_path)
    path = f"--checkpoint={whole}/checkpoints/model_2.pt"
    assert train_in(tmp_path, TASK, "--device=cpu", "--resume", path, "--run_name=again") == 0
    (resumed,) = [path.parent for path in tmp_path.glob("logs/*/*/*_again/run.json")]
    assert digests(checkpoint_of(resumed, 4)) == digests(checkpoint_of(whole, 4))


def test_a_run_to_load_in_addition_to_a_path_is_refused(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = trained / "checkpoints/model_2.pt"
    flags = ["--resume", f"--checkpoint={path}", "--load_run=.*"]
    assert train_in(tmp_path, *SMALL, *flags) == 2
    assert "--load_run has no effect with a checkpoint's path" in capsys.readouterr().err


@pytest.fixture(scope="module")
def resumed_pair(trained_pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on two ranks that resumes from the middle of another."""
    folder = tmp_path_factory.mktemp("resumed")
    checkpoint = trained_pair.run("ddp") / "checkpoints/model_2.pt"
    flags = ["--distributed", "--max_iterations=4", "--resume", f"--checkpoint={checkpoint}"]
    code, output = run(torchrun(2, TRAIN, *SMALL, *flags), folder)
    assert code == 0, output
    assert "Resuming exactly" in output
    return only_run(folder)


def test_two_ranks_resume_bit_identically(resumed_pair: Path, trained_pair: Pair):
    whole = trained_pair.run("ddp")
    assert digests(checkpoint_of(resumed_pair, 4)) == digests(checkpoint_of(whole, 4))
    assert timeless(resumed_pair) == timeless(whole)[2:]


def test_another_world_size_resumes_and_reports_fresh_state(
    trained_pair: Pair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = trained_pair.run("ddp") / "checkpoints/model_4.pt"
    flags = ["--max_iterations=5", "--resume", f"--checkpoint={path}"]
    assert train_in(tmp_path, *SMALL, *flags) == 0
    output = capsys.readouterr().err
    assert "environments and generators start fresh" in output
    assert "saved with 2 processes of 32" in output
    (record,) = metrics_of(only_run(tmp_path))
    assert record["iteration"] == 5
    assert record["frames"] == 4 * 16 * 64 + 16 * 32


@pytest.mark.parametrize(("max_frames", "total"), [(4097, 5), (4608, 5), (4609, 6)])
def test_a_budget_of_frames_counts_those_before_the_resume(max_frames: int, total: int):
    done = {"iteration": 4, "frames": 4096}  # of 1024 frames each; now an iteration has 512
    assert total_iterations(1500, max_frames, 512, done) == total


def test_a_budget_of_frames_that_is_used_up_is_refused():
    with pytest.raises(ConfigurationError, match="4 are done already"):
        total_iterations(1500, 4096, 512, {"iteration": 4, "frames": 4096})
    of_a_launch = {"iteration": 4, "frames": 4096}
    assert total_iterations(1500, 4096, 512, of_a_launch, may_be_done=True) == 4
