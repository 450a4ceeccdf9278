"""Judging checkpoints by episodes they were not trained in, alone and during a training."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from envlab.config import load_yaml
from envlab.errors import CheckpointError, ConfigurationError
from envlab.run.compare.results import read_result
from envlab.training.validate import judged_in, main
from envlab.training.validator_process import ValidatorProcess

TASK = "Isaac-Cartpole-v0"
FEW = ["--num_episodes=4", "--num_envs=4", "--device=cpu"]


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A run of 4 iterations, with checkpoints of the iterations 2 and 4."""
    return Path(shutil.copytree(trained, tmp_path / "run"))


def records(run: Path, name: str = "validation.jsonl") -> list[dict[str, Any]]:
    path = run / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_all_checkpoints_are_judged_once_by_the_same_episodes(run: Path, capsys) -> None:
    shutil.copy(run / "checkpoints/model_4.pt", run / "checkpoints/model_6.pt")
    assert main([str(run), *FEW]) == 0
    first = records(run)
    assert [record["iteration"] for record in first] == [2, 4, 6]
    assert first[1]["mean_return"] == first[2]["mean_return"] != first[0]["mean_return"]
    assert [record["num_episodes"] for record in first] == [4, 4, 4]
    best = max(first, key=lambda record: record["mean_return"])["iteration"]
    assert f"checkpoints/model_{best}.pt" in capsys.readouterr().out.splitlines()[-1]
    with (run / "validation.jsonl").open("a") as file:
        file.write('{"iteration": 8, "fra')  # and was killed
    assert main([str(run), *FEW]) == 0
    assert records(run) == first
    result = read_result(run, "validation.mean_return")
    assert result.values.tolist() == [record["mean_return"] for record in first]
    assert list(result.frames) == sorted(result.frames)
    assert any((run / "validation").glob("events.out.tfevents.*"))


def test_watching_an_ended_run_judges_the_newest_and_other_episodes_are_not_mixed(
    run: Path,
) -> None:
    assert main([str(run), *FEW, "--watch"]) == 0
    (record,) = records(run)  # the newest, as no more can come
    assert record["iteration"] == 4
    for words in (["--seed=1"], ["env.episode_length_s=2.0"]):
        with pytest.raises(ConfigurationError, match="has results of other episodes"):
            main([str(run), *FEW, *words])
    assert records(run) == [record]


def test_a_run_with_settings_of_its_own_is_judged_with_them(run: Path, monkeypatch) -> None:
    variants = [TASK, f"{TASK[:-3]}-Play-v0"]
    tasks = [SimpleNamespace(id=task, trained_id=TASK) for task in variants]
    monkeypatch.setattr("envlab.training.validate.list_tasks", lambda: tasks)
    assert judged_in(run, TASK) == variants[1]
    values = load_yaml(run / "params/env.yaml")
    values["actions"]["joint_effort"]["scale"] = 7.0
    (run / "params/env.yaml").write_text(yaml.safe_dump(values))
    assert judged_in(run, TASK) == TASK
    # An experiment's file chose the variant, beside the training: later validations follow.
    record = {"iteration": 2, "frames": 64, "wall_s": 1.0, "how": {"task": variants[1]}}
    (run / "validation.jsonl").write_text(json.dumps(record) + "\n")
    assert judged_in(run, TASK) == variants[1]


def test_checkpoints_nearer_than_the_interval_are_left_out(run: Path) -> None:
    assert main([str(run), *FEW, "--eval", "--approx_ckpt_step_interval=1e6"]) == 0
    assert [record["iteration"] for record in records(run, "test.jsonl")] == [2]
    assert not records(run)


@pytest.mark.long
def test_during_a_training_the_last_checkpoint_is_judged_and_nothing_is_left(run: Path) -> None:
    validator = ValidatorProcess(run, FEW)
    validator.finish()
    assert [record["iteration"] for record in records(run)] == [4]
    validator.close()
    assert validator.child.exit_code == 0


def test_a_run_without_a_checkpoint_is_refused(run: Path) -> None:
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(CheckpointError, match="no checkpoint"):
        main([str(run), *FEW])
