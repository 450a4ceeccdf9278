"""Ranks with different configurations train nothing, and each difference is named."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from envlab.commit import code_digests
from tests.launcher import run, torchrun

HERE = Path(__file__).parent
TRAIN_OTHER = """
import os, sys
from envlab.training.launch import train
weight = float(os.environ["RANK"]) + 1.0
raise SystemExit(train("rsl_rl", [*sys.argv[1:], f"env.rewards.alive.weight={weight}"]))
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | None]:
    """The messages of both ranks, which are equal, by case."""
    folder = tmp_path_factory.mktemp("agreement")
    code, output = run(torchrun(2, HERE / "worker_agreement.py", folder), folder)
    assert code == 0, output
    ranks = [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(2)]
    assert ranks[0] == ranks[1]
    return ranks[0]


NAMED = {
    "reward": "env.rewards.alive.weight is 1.0 on rank 0, 2.0 on rank 1.",
    "agent": "agent.algorithm.gamma is 0.9 on rank 0, 0.99 on rank 1.",
    "flag": "--grad_sync is ddp on rank 0, library on rank 1.",
    "seed": "agent.seed is 42 on rank 0, 7 on rank 1.",
    "task": "The task is Isaac-Cartpole-v0 on rank 0, Isaac-Ant-v0 on rank 1. All ranks of a run",
    "library": "The library is rsl_rl on rank 0, rl_games on rank 1. All ranks of a run",
    "runs": "the number of runs is 1 on rank 0, 2 on rank 1",
    "version": "on rank 0, 1.0.0 on rank 1. Copy or check out the same on all nodes",
    "code": " on rank 0, edited on rank 1. Copy or check out the same on all nodes",
    "own files": "of_any_place.xml (",
    "own parts": "of_any_place.xml (",
    "environments": "would be 1024 on rank 0, 2048 on rank 1, but must be the same",
    "many": "; and 1 more. A run has one",
}


def test_each_difference_is_named_with_values_and_ranks(said: dict[str, str | None]):
    missing = {name: said[name] for name, words in NAMED.items() if words not in str(said[name])}
    assert not missing


def test_differences_that_do_no_harm_are_allowed(said: dict[str, str | None]):
    harmless = {name: message for name, message in said.items() if name not in NAMED}
    assert harmless == dict.fromkeys(["alike", "own threads", "own paths", "allowed code"])


def test_ranks_with_different_configurations_end_with_2_and_write_nothing(tmp_path: Path):
    script = tmp_path / "train_other.py"
    script.write_text(TRAIN_OTHER)
    folder = tmp_path / "empty"
    folder.mkdir()
    flags = ["--task=Isaac-Cartpole-v0", "--device=cpu", "--num_envs=8", "--max_iterations=2"]
    command = torchrun(2, script, *flags, "--headless", "--distributed")
    _, output = run(command, folder)
    assert re.search(r"error: .*alive\.weight is 1\.0 on rank 0, 2\.0 on rank 1", output), output
    assert output.count("exitcode  : 2 ") == 2, output
    errors = [line for line in output.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert errors[0] in output.partition("Root Cause")[2]  # torchrun's report
    assert "Traceback" not in output.partition("torch/distributed/elastic")[0]
    assert not (folder / "logs").exists()


def test_the_digest_of_code_follows_each_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name, text in (("suite_a", "weight = 1"), ("suite_b", "weight = 2")):
        package = tmp_path / name
        package.mkdir()
        (package / "__init__.py").write_text("raise ImportError('it is never imported')")
        (package / "cfg.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    script = tmp_path / "train_mine.py"
    script.touch()
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(script), raising=False)
    digests = code_digests(["suite_a", "suite_b", "not_installed", "__main__"])
    own = {"envlab", "envlab_tasks", "envlab_assets", "__main__"}
    assert set(digests) == own | {"suite_a", "suite_b"}
    assert digests["suite_a"] != digests["suite_b"]
