"""The command line: its output, and user errors, which are one sentence."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

import pytest

from envlab import cli
from envlab.distributed.program import guarded
from envlab.errors import EnvlabError, SimulationError
from tests.launcher import TRAIN


def failing(error: Exception):
    def function(arguments: Sequence[str]) -> int:
        raise error

    return function


def test_the_exit_code_is_the_commands_and_a_bug_keeps_its_traceback():
    assert guarded(lambda words: len(words), ["a", "b", "c"]) == 3
    with pytest.raises(ZeroDivisionError):
        guarded(failing(ZeroDivisionError()), [])


def test_one_rank_per_node_reports_errors_and_others_only_their_own(capsys, monkeypatch):
    for error, local_rank, said in [
        (EnvlabError("Same."), "1", ""),
        (SimulationError("Mine."), "1", "error: Mine.\n"),
        (EnvlabError("On this node."), "0", "error: On this node.\n"),
    ]:
        monkeypatch.setenv("RANK", "3")
        monkeypatch.setenv("LOCAL_RANK", local_rank)
        assert guarded(failing(error), []) == 2
        assert capsys.readouterr().err == said


def test_usage_names_commands_and_libraries(capsys):
    for arguments in [[], ["--help"], ["train", "-h"], ["play", "-h"]]:
        assert cli.main(arguments) == 0
        out = capsys.readouterr().out
        for word in ("list", "train LIBRARY", "play LIBRARY", "rsl_rl"):
            assert word in out


def test_a_pretrained_policy_is_viewed_with_its_own_library(tmp_path, monkeypatch):
    run = tmp_path / "logs/skrl/cartpole/run"
    run.mkdir(parents=True)
    facts = {"task": "Isaac-Cartpole-v0", "library": "skrl", "created_at": "2026-01-01T00:00:00"}
    (run / "run.json").write_text(json.dumps(facts))
    monkeypatch.chdir(tmp_path)
    for checkpoint, library in (("latest", "skrl"), ("pretrained", "rsl_rl")):
        words = ["--task=Isaac-Cartpole-v0", f"--checkpoint={checkpoint}"]
        command, viewed = cli.words_to_view(words)
        assert (command, viewed[0]) == ("play", f"--rl_library={library}")


def test_a_librarys_flags_are_shown_without_a_task(capsys):
    for words in [["skrl", "-h"], ["--rl_library=skrl", "--help"]]:
        with pytest.raises(SystemExit, match="0"):
            cli.main(["train", *words])
        assert "--ml_framework" in capsys.readouterr().out


def test_the_script_runs_from_any_folder(tmp_path):
    words = [sys.executable, TRAIN, "--task=Nope"]
    result = subprocess.run(words, cwd=tmp_path, timeout=30, capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
