"""``envlab runs``: the list of run directories."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from envlab import cli
from envlab.run.compare.results import find_results
from envlab.run.records import read_standing
from tests.fake_run import write_run


def run(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """Run a command of envlab's; return what it prints, or what it answers if it fails."""
    assert cli.main(list(words)) == code
    printed = capsys.readouterr()
    return printed.err if code else printed.out


def test_runs_are_listed_oldest_first(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_run(Path("logs"), [1.0, 2.0, None], name="a")
    write_run(Path("logs"), [5.0], name="b", library="skrl", status="failed", task="Isaac-Ant-v0")
    heading, _, *lines = run(capsys, "runs").splitlines()
    assert heading.split() == ["Run", "Task", "Library", "State", "Iterations", "Return", "Age"]
    found = [line.split()[:-2] for line in lines]
    assert found == [
        ["logs/rsl_rl/cartpole/a", "Isaac-Cartpole-v0", "rsl_rl", "finished", "3", "2.000"],
        ["logs/skrl/cartpole/b", "Isaac-Ant-v0", "skrl", "failed", "1", "5.000"],
    ]
    (found,) = json.loads(run(capsys, "runs", "--task=ant", "--json"))
    assert (found["library"], found["iteration"], found["mean_return"]) == ("skrl", 1, 5.0)
    assert run(capsys, "runs", "--library=rl_games") == "No run in logs matches.\n"


@pytest.mark.parametrize("kept_in", ["logs/rsl_rl/cartpole/a", "logs"])  # or WANDB_DIR
def test_what_wandb_keeps_of_a_run_is_no_run(kept_in: str, tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    own = write_run(Path("logs"), [1.0, 2.0], name="a")
    copy = Path(kept_in, "wandb/offline-run-20261128_041500-abc/files")
    copy.mkdir(parents=True)
    shutil.copy(own / "run.json", copy)
    listed = json.loads(run(capsys, "runs", "--json"))
    assert [found["directory"] for found in listed] == [str(own)]
    assert [result.directory for result in find_results(["logs"], "mean_return")] == [own]


def test_a_run_without_new_records_is_silent(tmp_path: Path, capsys):
    running = write_run(tmp_path, [1.0], name="a", status="running")
    silent = write_run(tmp_path, [1.0], name="b", status="running")
    before = time.time() - 2 * 3600
    for path in silent.iterdir():
        os.utime(path, (before, before))
    listed = json.loads(run(capsys, "runs", str(tmp_path), "--json"))
    found = {one["directory"]: one["status"] for one in listed}
    assert found == {str(running): "running", str(silent): "silent"}


def test_only_the_end_of_a_long_run_is_read_and_a_broken_line_does_not_count(tmp_path: Path):
    run = write_run(tmp_path, [float(i) for i in range(3000)], end='{"iteration": 3001, "fr')
    assert (run / "metrics.jsonl").stat().st_size > 2 * 2**16
    at = read_standing(run)
    assert (at.iteration, at.mean_return, at.frames) == (3000, 2999.0, 300_000)
    assert read_standing(tmp_path).iteration is None


DAMAGED = {
    "list": "[]",
    "nested": "[" * 100_000,
    "digits": '{"task": "x", "seed": ' + "9" * 400 + "}",
    **{
        f"{name}={value}": json.dumps({"created_at": "2030-01-01", "task": "x"} | {name: value})
        for name, value in (
            *(("task", []), ("status", {}), ("seed", [1]), ("resumed_from", 5), ("world", 1)),
            *(("resumed_from", {}), ("resumed_from", "a\0b"), ("launch", "x")),
        )
    },
}


def test_a_damaged_manifest_is_skipped_by_runs_and_named_by_compare(tmp_path: Path, capsys):
    write_run(tmp_path, [1.0], name="good")
    bad = write_run(tmp_path, [1.0], name="bad")
    for name, text in DAMAGED.items():
        (bad / "run.json").write_text(text)
        out = run(capsys, "runs", str(tmp_path))
        assert ("good" in out, "bad" in out) == (True, False), name
        error = run(capsys, "compare", str(tmp_path), "--no_plot", code=2)
        assert f"error: {bad} is not a run directory" in error, name


def test_a_time_out_of_range_and_a_pipe_are_skipped(tmp_path: Path, capsys):
    write_run(tmp_path, [1.0], name="bad", created_at="0001-01-01T00:00:00+14:00")
    piped = write_run(tmp_path, [1.0], name="piped")
    (piped / "run.json").unlink()
    os.mkfifo(piped / "run.json")
    assert run(capsys, "runs", str(tmp_path)) == f"No run in {tmp_path} matches.\n"


NO_FLOAT = "9" * 400


@pytest.mark.parametrize(
    "line", ["[" * 50_000, f'{{"frames": {NO_FLOAT}, "wall_s": 1, "mean_return": {NO_FLOAT}}}']
)
def test_a_damaged_record_is_not_counted(tmp_path: Path, capsys, line: str):
    directory = write_run(tmp_path, [1.0], end=f"{line}\n")
    assert read_standing(directory).mean_return == 1.0
    run(capsys, "runs", str(tmp_path))
    assert "is cut off; not counted" in run(capsys, "compare", str(directory), "--no_plot")


def test_records_in_a_pipe_are_not_read(tmp_path: Path, capsys):
    directory = write_run(tmp_path, [1.0])
    (directory / "metrics.jsonl").unlink()
    os.mkfifo(directory / "metrics.jsonl")
    run(capsys, "runs", str(tmp_path))
    assert "not a regular file" in run(capsys, "compare", str(directory), "--no_plot", code=2)


def test_values_from_a_run_cannot_command_the_terminal_or_the_picture(
    tmp_path: Path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    task = "\x1b]0;title\x07\x9b2J \ud800 $\\frac$"
    for name, algorithm in (("a\x1b[2J", "ppo"), ("b", "$\\frac$ \ud800")):
        write_run(tmp_path, [1.0, 2.0], name=name, task=task, status="\x1b", algorithm=algorithm)
    for command in ("runs", "compare"):
        out = run(capsys, command, ".")
        assert r"\x1b]0;title\x07\x9b2J \ud800 $\frac$" in out
        assert not set("\x1b\x07\x9b") & set(out)
    write_run(tmp_path, [1.0], name="c", task="another")
    assert "\x1b" not in run(capsys, "compare", ".", code=2)
