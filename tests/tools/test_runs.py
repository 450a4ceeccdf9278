"""``envlab runs``: what is listed of run directories."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from envlab import cli
from envlab.rl.run.records import read_standing
from tests.rl.fake_run import write_run


def test_runs_are_listed_oldest_first(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_run(Path("logs"), [1.0, 2.0, None], name="a")
    write_run(Path("logs"), [5.0], name="b", library="skrl", status="failed", task="Isaac-Ant-v0")
    assert cli.main(["runs"]) == 0
    heading, _, *lines = capsys.readouterr().out.splitlines()
    assert heading.split() == ["Run", "Task", "Library", "State", "Iterations", "Return", "Age"]
    found = [line.split()[:-2] for line in lines]
    assert found == [
        ["logs/rsl_rl/cartpole/a", "Isaac-Cartpole-v0", "rsl_rl", "finished", "3", "2.000"],
        ["logs/skrl/cartpole/b", "Isaac-Ant-v0", "skrl", "failed", "1", "5.000"],
    ]
    assert cli.main(["runs", "--task=ant", "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)
    assert (run["library"], run["iteration"], run["mean_return"]) == ("skrl", 1, 5.0)
    assert cli.main(["runs", "--library=rl_games"]) == 0
    assert capsys.readouterr().out == "No run in logs matches.\n"


def test_a_run_that_says_nothing_any_more_is_silent(tmp_path: Path, capsys):
    running = write_run(tmp_path, [1.0], name="a", status="running")
    silent = write_run(tmp_path, [1.0], name="b", status="running")
    before = time.time() - 2 * 3600
    for path in silent.iterdir():
        os.utime(path, (before, before))
    assert cli.main(["runs", str(tmp_path), "--json"]) == 0
    found = {run["directory"]: run["status"] for run in json.loads(capsys.readouterr().out)}
    assert found == {str(running): "running", str(silent): "silent"}


def test_only_the_end_of_a_long_run_is_read_and_a_broken_line_does_not_count(tmp_path: Path):
    run = write_run(tmp_path, [float(i) for i in range(3000)], end='{"iteration": 3001, "fr')
    assert (run / "metrics.jsonl").stat().st_size > 2 * 2**16
    at = read_standing(run)
    assert (at.iteration, at.mean_return, at.frames) == (3000, 2999.0, 300_000)
    assert read_standing(tmp_path).iteration is None
