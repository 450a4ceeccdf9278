"""The run directory: never overwritten, complete, and enough to reproduce the run."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from envlab.distributed.context import DistributedContext
from envlab.distributed.interface import process_space
from envlab.distributed.interrupt import Interrupted, Preempted
from envlab.distributed.progress import LostPeerError
from envlab.errors import RankDivergenceError, RunDirectoryError
from envlab.run import directory as run_module
from envlab.run.directory import Run, hold_lock
from envlab.run.find import find_run
from envlab.run.manifest import read_manifest
from tests.trained import SMALL, manifest_of, metrics_of, only_run, train_in

TIMINGS = ("wall_s", "fps", "collect_s", "learn_s")


def make(root: Path, context: DistributedContext | None = None, **values: Any) -> Run:
    context = context or DistributedContext()
    return Run.create(
        context, library="x", experiment="y", facts={}, configs={}, root=str(root), **values
    )


def timeless(run_directory: Path) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in record.items() if name not in TIMINGS}
        for record in metrics_of(run_directory)
    ]


def test_two_runs_in_the_same_second_get_two_directories(tmp_path: Path, monkeypatch):
    class Clock(run_module.datetime):  # type: ignore[misc, name-defined]
        @classmethod
        def now(cls, tz=None):
            return cls(2030, 1, 2, 3, 4, 5)

    monkeypatch.setattr(run_module, "datetime", Clock)
    names = [make(tmp_path, run_name="a").directory.name for _ in range(3)]
    assert names == [f"2030-01-02_03-04-05_a{end}" for end in ("", "_1", "_2")]


def test_leaving_a_run_writes_its_status(tmp_path: Path):
    for error, status, text in [
        (None, "finished", None),
        (ValueError("wrong"), "failed", "ValueError: wrong"),
        (LostPeerError("Rank 1 died."), "failed", "Rank 1 died."),
        (Preempted(15), "preempted", "received SIGTERM"),
        (Interrupted(15), "interrupted", "received SIGTERM"),
        (KeyboardInterrupt(), "interrupted", "KeyboardInterrupt"),
    ]:
        run = make(tmp_path)
        assert read_manifest(run.directory)["status"] == "running"
        with pytest.raises(type(error)) if error else nullcontext(), run:
            if error is not None:
                raise error
        manifest = read_manifest(run.directory)
        assert (manifest["status"], manifest.get("error")) == (status, text)


def test_a_collective_broken_after_a_signal_is_an_interruption_and_no_other_error(tmp_path: Path):
    for error, status in [
        (RuntimeError("[gloo/transport/tcp/pair.cc:540] Connection closed by peer"), "interrupted"),
        (RankDivergenceError("policy.weight differs"), "failed"),
        (TypeError("wrong"), "failed"),
    ]:
        run = make(tmp_path)
        run.interrupt_signal = lambda: 15
        with pytest.raises(type(error)), run:
            raise error
        assert read_manifest(run.directory)["status"] == status


def test_a_signal_while_the_status_is_written_does_not_lose_it(tmp_path: Path, monkeypatch):
    run = make(tmp_path)
    write, calls = run_module.write_json, []

    def interrupted_write(path: Path, values: Any) -> None:
        calls.append(path)
        if len(calls) == 1:
            raise Interrupted(15)
        write(path, values)

    monkeypatch.setattr(run_module, "write_json", interrupted_write)
    with pytest.raises(ValueError, match="wrong"), run:
        raise ValueError("wrong")
    assert read_manifest(run.directory)["status"] == "failed"


def test_only_rank_0_writes(tmp_path: Path):
    run = make(tmp_path)
    before = (run.directory / "run.json").read_text()
    other = Run(run.directory, DistributedContext(rank=1, world_size=2), {})
    other.update(status="finished")
    other.append_metrics({"iteration": 1})
    with other:
        pass
    assert (run.directory / "run.json").read_text() == before
    assert not (run.directory / "metrics.jsonl").exists()


def test_a_place_that_cannot_be_written_or_was_removed_is_one_sentence(tmp_path: Path):
    (tmp_path / "logs").write_text("a file")
    with pytest.raises(RunDirectoryError, match=r"cannot be made \(Not a directory"):
        make(tmp_path / "logs")
    run = make(tmp_path)
    shutil.rmtree(run.directory)
    with pytest.raises(RunDirectoryError, match="was removed while the run wrote to it"), run:
        run.append_metrics({"iteration": 1})
    assert not run.directory.exists()


def test_the_newest_run_with_a_checkpoint_is_found(tmp_path: Path):
    runs = [make(tmp_path, run_name=name) for name in ("a", "b", "c")]
    for run, created in zip(runs[:2], ("2030-01-02", "2030-01-01"), strict=True):
        (run.checkpoints / "model_5.pt").touch()
        run.update(created_at=created)
    assert find_run("x", "y", root=str(tmp_path)) == runs[0].directory
    assert find_run("x", "y", ".*_b", root=str(tmp_path)) == runs[1].directory
    assert find_run("x", "y", str(runs[1].directory), root=str(tmp_path)) == runs[1].directory
    with pytest.raises(RunDirectoryError, match=r"no run with a checkpoint that matches '.*_c'"):
        find_run("x", "y", ".*_c", root=str(tmp_path))


def test_the_manifest_records_the_run(trained: Path):
    manifest = manifest_of(trained)
    assert manifest["status"] == "finished"
    assert manifest["task"] == "Isaac-Cartpole-v0"
    assert manifest["library"] == "rsl_rl"
    assert manifest["versions"].keys() >= {"envlab", "python", "torch", "mujoco", "rsl-rl-lib"}
    assert manifest["world"]["size"] == 1
    assert re.fullmatch("[0-9a-f]{40}", manifest["git"]["commit"])
    assert manifest["code"].keys() >= {"envlab", "envlab_tasks", "envlab_assets"}
    assert manifest["seed"] == 42
    assert (manifest["iteration"], manifest["frames"]) == (4, 4 * 16 * 32)
    assert manifest["overrides"] == SMALL[4:]
    assert manifest["flags"]["num_envs"] == 32
    assert manifest["command"]


def test_metrics_have_one_schema(trained: Path):
    records = metrics_of(trained)
    for number, record in enumerate(records, 1):
        assert list(record) == (
            "iteration frames wall_s fps collect_s learn_s mean_return mean_episode_length "
            "learning_rate losses episode details".split()
        )
        assert (record["iteration"], record["frames"]) == (number, number * 16 * 32)
        assert record["losses"].keys() == {"value", "surrogate", "entropy"}
    assert "Episode_Reward/alive" in records[-1]["episode"]
    assert "Episode_Termination/time_out" in records[-1]["episode"]


def test_the_parameters_of_a_run_reproduce_it(trained: Path, tmp_path: Path):
    flags = ["--task=Isaac-Cartpole-v0", "--device=cpu", f"--config={trained}"]
    assert train_in(tmp_path, *flags) == 0
    again = only_run(tmp_path)
    for name in ("env.yaml", "agent.yaml"):
        assert (again / "params" / name).read_text() == (trained / "params" / name).read_text()
    assert timeless(again) == timeless(trained)


def test_flags_win_over_overrides_and_both_are_recorded(tmp_path: Path):
    overrides = ["agent.max_iterations=3", "agent.seed=5", "env.scene.num_envs=16"]
    flags = ["--max_iterations=1", "--seed=9", "--num_envs=8", "--run_name=here"]
    assert train_in(tmp_path, "--task=Isaac-Cartpole-v0", "--device=cpu", *overrides, *flags) == 0
    directory = only_run(tmp_path)
    manifest = manifest_of(directory)
    assert directory.name.endswith("_here")
    assert manifest["overrides"] == overrides
    assert manifest["flags"].items() >= {"max_iterations": 1, "seed": 9, "num_envs": 8}.items()
    assert (manifest["iteration"], manifest["seed"], manifest["num_envs"]) == (1, 9, 8)
    assert "num_envs: 8" in (directory / "params/env.yaml").read_text()


def test_a_sweep_makes_a_run_per_combination(tmp_path: Path, capsys):
    sweep = ["-m", "agent.seed=1,2", "env.rewards.alive.weight=1.0,2.0", "--max_iterations=1"]
    task = ["--task=Isaac-Cartpole-v0", "--device=cpu", "--num_envs=4"]
    assert train_in(tmp_path, *task, *sweep) == 0
    folders = sorted(tmp_path.glob("logs/*/*/*/run.json"))
    runs = [manifest_of(path.parent) for path in folders]
    found = sorted(run["overrides"] for run in runs)
    grid = list(itertools.product((1, 2), (1.0, 2.0)))
    assert found == [[f"agent.seed={s}", f"env.rewards.alive.weight={w}"] for s, w in grid]
    assert {run["status"] for run in runs} == {"finished"}
    names = {path.parent.name[len("2026-01-01_00-00-00") :] for path in folders}
    assert names == {f"_seed={seed},weight={weight}" for seed, weight in grid}
    lines = capsys.readouterr().out.strip().splitlines()[-6:]
    assert lines[0].split() == ["seed", "weight", "Final", "return", "Frames", "Minutes", "Run"]
    returns = [metrics_of(path.parent)[0] for path in folders]
    for line, path, record in zip(lines[2:], folders, returns, strict=True):
        mean = "-" if record["mean_return"] is None else f"{record['mean_return']:.3f}"
        assert line.split()[2:] == [mean, "64", "0.0", str(path.parent.relative_to(tmp_path))]


def test_max_frames_is_a_budget_of_environment_steps(tmp_path: Path):
    flags = ["--task=Isaac-Cartpole-v0", "--device=cpu", "--num_envs=4", "--max_frames=129"]
    assert train_in(tmp_path, *flags) == 0  # an iteration is 4 x 16 frames
    assert [record["frames"] for record in metrics_of(only_run(tmp_path))] == [64, 128, 192]


HOLD = """
import sys
from filelock import FileLock
lock = FileLock(sys.argv[1])
lock.acquire()
open(sys.argv[1], "w").write(sys.argv[2])
print("held", flush=True)
sys.stdin.read()
"""

Hold = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Hold]:
    """Makes a process that holds the lock of a folder, and claims to run on a machine."""
    holders = []

    def hold(machine: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", HOLD, str(tmp_path / "lock"), f"b\n47\n{machine}\n"]
        holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        holders.append(holder)
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        return holder

    yield hold
    for holder in holders:
        holder.kill()
        holder.communicate()


def test_a_second_writer_is_refused_until_the_first_is_dead(tmp_path: Path, held: Hold):
    holder = held(process_space())
    with pytest.raises(RunDirectoryError, match=r"another launch \(host b, pid 47\).*--run_id"):
        hold_lock(tmp_path)
    holder.kill()
    holder.communicate()
    assert hold_lock(tmp_path) is not None


def test_a_holder_on_another_machine_without_a_sign_of_life_is_ignored(
    tmp_path: Path, held: Hold, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(run_module, "PATIENCE_S", 0.1)
    held("another machine")
    (tmp_path / "heartbeats.json").write_text("1")
    assert hold_lock(tmp_path) is None
    assert "its holder gave no sign of life" in caplog.text


def test_a_holder_on_another_machine_that_writes_its_heartbeats_is_respected(
    tmp_path: Path, held: Hold
):
    held("another machine")
    (tmp_path / "heartbeats.json").write_text("1")
    beating = threading.Timer(0.5, (tmp_path / "heartbeats.json").write_text, ["2"])
    beating.start()
    with pytest.raises(RunDirectoryError, match="another launch"):
        hold_lock(tmp_path)
    beating.join()


def test_a_child_that_outlives_the_holder_does_not_keep_the_lock(tmp_path: Path):
    """Workers of environments on the host, say, which fork."""
    code = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from envlab.run.directory import hold_lock\n"
        "folder = Path(sys.argv[1])\n"
        "lock = hold_lock(folder)\n"
        "if os.fork() == 0:\n"
        "    (folder / 'child').write_text(str(os.getpid()))\n"
        "    time.sleep(60)\n"
        "while not (folder / 'child').exists(): time.sleep(0.01)\n"
        "time.sleep(0.1)\n"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)])
    try:
        assert hold_lock(tmp_path) is not None
    finally:
        os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


def test_a_run_that_continues_elsewhere_is_left_alone(tmp_path: Path, held: Hold):
    held(process_space())
    (tmp_path / "run.json").write_text('{"status": "running"}')
    (tmp_path / "metrics.jsonl").write_text('{"iteration": 7}\n')
    context = DistributedContext()
    with pytest.raises(RunDirectoryError, match="another launch"):
        Run.reopen(context, tmp_path, library="x", facts={}, iteration=5, frames=50)
    assert (tmp_path / "run.json").read_text() == '{"status": "running"}'
    assert (tmp_path / "metrics.jsonl").read_text() == '{"iteration": 7}\n'


def test_a_run_holds_its_directory_until_it_is_left(tmp_path: Path):
    def is_free() -> bool:
        code = "import sys; from filelock import FileLock; FileLock(sys.argv[1]).acquire(timeout=0)"
        words = [sys.executable, "-c", code, str(run.directory / "lock")]
        return subprocess.run(words, capture_output=True).returncode == 0

    named = {"library": "x", "experiment": "y", "facts": {}, "configs": {}}
    with (run := Run.create(DistributedContext(), **named, root=str(tmp_path))):
        assert not is_free()
    assert is_free()
