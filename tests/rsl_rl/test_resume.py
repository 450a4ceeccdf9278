"""Resuming: exact with the same processes and seed; with another seed, fresh state is reported."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from envlab.config import load_yaml
from envlab.errors import ConfigurationError
from envlab.training.preparation import total_iterations
from envlab.training.start import other_code
from tests.learner_contract import timeless_digests as digests  # noqa: F401
from tests.small_runs import check_resumes_exactly, check_same_end
from tests.trained import (
    SMALL,
    TASK,
    Pair,
    manifest_of,
    metrics_of,
    only_run,
    session_of,
    train_in,
)


def resumed_exactly(
    train: Callable[..., int], words: Sequence[str], trained: Path, folder: Path
) -> Path:
    """Resume a run of 4 iterations from its second; return the new run, which must end alike."""
    flags = ["--max_iterations=4", "--resume", f"--checkpoint={trained}/checkpoints/model_2.pt"]
    assert train(folder, *words, *flags) == 0
    resumed = only_run(folder)
    check_same_end(resumed, trained, resumed_at=2, iteration=4)
    return resumed


def test_a_resumed_run_ends_bit_identical(trained: Path, tmp_path: Path):
    resumed = resumed_exactly(train_in, SMALL, trained, tmp_path)
    assert manifest_of(resumed)["resumed_from"] == f"{trained}/checkpoints/model_2.pt"


def test_other_code_is_told_by_digests_and_versions_and_commits_only_where_those_differ(
    trained: Path,
):
    session, manifest = session_of("rsl_rl", SMALL), manifest_of(trained)
    assert other_code(manifest, session) == {}
    named = {
        "code": {"code": {"envlab": "0123"}, "git": {"commit": "fed"}},
        "versions": {"versions": {"torch": "0.4"}},
        "no digests": {"code": None, "git": {"commit": "fed"}},
        "a commit of other files": {"git": {"commit": "fed"}},
    }
    found = {
        name: [(key, then) for key, (then, _) in other_code(manifest | one, session).items()]
        for name, one in named.items()
    }
    assert found == {
        "code": [("envlab's code", "0123"), ("commit", "fed")],
        "versions": [("torch", "0.4")],
        "no digests": [("commit", "fed")],
        "a commit of other files": [],
    }


def test_the_newest_run_of_the_experiment_is_resumed_with_the_configuration_it_had(tmp_path: Path):
    """Not the task's defaults, which the flags of the first run had changed."""
    first = ["agent.algorithm.gamma=0.9", "env.rewards.alive.weight=2.0", "--max_iterations=1"]
    assert train_in(tmp_path, *SMALL, "--max_iterations=1", "--run_name=a") == 0
    assert train_in(tmp_path, *SMALL, *first, "--run_name=b") == 0
    again = ["--max_iterations=2", "--resume", "--run_name=c", "env.rewards.alive.weight=3.0"]
    assert train_in(tmp_path, TASK, "--device=cpu", *again) == 0
    (resumed,) = tmp_path.glob("logs/*/*/*_c")
    assert manifest_of(resumed)["iteration"] == 2
    agent, env = (load_yaml(resumed / f"params/{name}.yaml") for name in ("agent", "env"))
    assert agent["algorithm"]["gamma"] == 0.9
    assert env["scene"]["num_envs"] == 32
    assert env["rewards"]["alive"]["weight"] == 3.0


@pytest.mark.parametrize("repeats_exactly", [True, False])
def test_a_resume_by_other_code_names_it_and_is_not_called_exact(
    repeats_exactly: bool, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd
):
    """Nor is one on a GPU, where the order of contacts depends on the order of threads."""
    monkeypatch.setattr("envlab.sim.simulation.Simulation.repeats_exactly", repeats_exactly)
    run = shutil.copytree(trained, tmp_path / "run")
    if repeats_exactly:
        changes = {"code": {"envlab": "0123456789ab"}, "git": {"commit": "fed\x1b[2J"}}
        (run / "run.json").write_text(json.dumps({**manifest_of(trained), **changes}))
    flags = ["--max_iterations=3", "--resume", f"--checkpoint={run}/checkpoints/model_2.pt"]
    assert train_in(tmp_path, *SMALL, *flags) == 0
    output = capfd.readouterr().err
    assert "Resuming from" in output
    assert ("may differ by rounding" in output) == (not repeats_exactly)
    words = "envlab's code was 0123456789ab, and is ", "; commit was fed\\x1b[2J, and is "
    assert [one in output for one in words] == [repeats_exactly] * 2
    assert ("The run was made with other code: " in output) == repeats_exactly


def test_a_recurrent_policy_resumes_bit_identically(tmp_path: Path):
    """Its memory of the running episodes is also saved."""
    lstm = ["class_name=RNNModel", "rnn_type=lstm", "rnn_hidden_dim=8", "rnn_num_layers=1"]
    words = [f"agent.{name}.{word}" for name in ("actor", "critic") for word in lstm]
    check_resumes_exactly("rsl_rl", tmp_path, *SMALL, *words)


def test_with_another_seed_environments_start_fresh(
    trained_pair: Pair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = trained_pair.run("ddp") / "checkpoints/model_4.pt"
    flags = ["--max_iterations=5", "--resume", f"--checkpoint={path}", "--seed=7"]
    assert train_in(tmp_path, *SMALL, *flags) == 0
    output = capsys.readouterr().err
    assert "environments and generators start fresh" in output
    assert "saved on 2 processes of 32 environments with seed 42" in output
    (record,) = metrics_of(only_run(tmp_path))
    assert record["iteration"] == 5
    assert record["frames"] == 5 * 16 * 64


def test_a_budget_of_frames_counts_those_before_the_resume():
    done = {"iteration": 4, "frames": 4096}  # of 1024 frames each; now an iteration has 512
    for max_frames, total in ((4097, 5), (4608, 5), (4609, 6)):
        assert total_iterations(1500, max_frames, 512, done) == total
    with pytest.raises(ConfigurationError, match="4 are done already"):
        total_iterations(1500, 4096, 512, done)
    assert total_iterations(1500, 4096, 512, done, may_be_done=True) == 4
