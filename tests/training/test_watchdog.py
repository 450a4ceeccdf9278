"""A rank that hangs, fails or dies is named with its place in the code; the job ends in time."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from envlab.distributed.watchdog import HUNG_EXIT_CODE
from envlab.run.manifest import record_end
from tests.launcher import Launch, torchrun
from tests.trained import manifest_of, only_run
from tests.training.worker_stuck import METRICS

WORKER = Path(__file__).with_name("worker_stuck.py")
TIMEOUT_S = 8.0
SLACK_S = 15.0
"""For a machine on which all these launches run at once, plus two watchdogs' waits."""
FLAGS = [
    *("--task=Isaac-Cartpole-v0", "--headless", "--device=cpu", "--num_envs=16", "--distributed"),
    *("env.sim.num_threads=1", "--max_iterations=1000000", f"--timeout_s={TIMEOUT_S:g}"),
]
FORKED = ("stop", "hold", "skip", "raise", "orphan")
"""How rank 1 comes to grief, in jobs without torchrun; an orphan loses its launcher in the test."""
DEADLINE_S = 150.0


@dataclass
class Ended:
    """A launch in which rank 1 came to grief."""

    run: Path
    codes: list[int]
    output: str

    @property
    def manifest(self) -> dict[str, Any]:
        return manifest_of(self.run)

    @property
    def report(self) -> str:
        return (self.run / "stall.txt").read_text()

    def sentence(self) -> str:
        """Return the one sentence that explains the end; the manifest has the same."""
        assert 0 not in self.codes
        assert self.manifest["status"] == "failed", self.output
        error = self.manifest["error"]
        assert self.output.count(error) == 1, self.output
        assert len(re.findall(r"(?:^error:|ERROR) Rank", self.output, re.MULTILINE)) == 1
        return error


@pytest.fixture(scope="module")
def launches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Launch]]:
    """All jobs at once: they spend most of their time waiting. The orphan's launcher is killed."""
    folder = tmp_path_factory.mktemp("jobs")
    for how in (*FORKED, "sleep", "alone"):
        (folder / how).mkdir()
    alone = [flag for flag in FLAGS if flag != "--distributed"]
    jobs = ",".join([str(folder), *FORKED])
    running = {
        "jobs": Launch([sys.executable, WORKER, "jobs", jobs, *FLAGS], folder),
        "sleep": Launch(torchrun(2, WORKER, "sleep", "rsl_rl", *FLAGS), folder / "sleep"),
        "alone": Launch([sys.executable, WORKER, "sleep", "plain", *alone], folder / "alone"),
    }
    try:
        jobs = running["jobs"]
        jobs.wait_until(lambda: list((folder / "orphan").glob(METRICS)), DEADLINE_S)
        os.kill(pids(folder / "orphan")[0], signal.SIGKILL)
        yield running
    finally:
        for launch in running.values():
            launch.close()


def ended(launches: dict[str, Launch], how: str) -> Ended:
    """Return a job after its end."""
    if how in launches:
        launch = launches[how]
        code = launch.wait(DEADLINE_S)
        return Ended(only_run(launch.folder), [code], launch.output)
    folder = launches["jobs"].folder / how
    deadline = time.monotonic() + DEADLINE_S
    while not (folder / "code").is_file():
        assert time.monotonic() < deadline, (folder / "output.txt").read_text()
        time.sleep(0.05)
    codes = [int(word) for word in (folder / "code").read_text().split()]
    return Ended(only_run(folder), codes, (folder / "output.txt").read_text())


def pids(folder: Path) -> list[int]:
    """Return the processes of a job: its launcher and its ranks."""
    return [int(word) for word in (folder / "pids").read_text().split()]


@pytest.mark.slow
def test_a_run_whose_launcher_was_killed_saves_and_ends(launches):
    jobs = launches["jobs"]
    folder = jobs.folder / "orphan"
    launcher, *ranks = pids(folder)
    deadline = time.monotonic() + 60.0
    output = folder / "output.txt"
    while jobs.living().keys() & set(ranks):
        assert time.monotonic() < deadline, output.read_text()
        time.sleep(0.1)
    run = only_run(folder)
    assert manifest_of(run)["status"] == "preempted", output.read_text()
    assert list(run.glob("checkpoints/model_*.pt"))
    assert f"The launcher (pid {launcher}) has exited" in output.read_text()


def test_a_rank_that_sleeps_in_a_step_is_named_with_its_stack_and_the_waiting_ranks(launches):
    end = ended(launches, "sleep")
    assert re.fullmatch(
        r"Rank 1 \(host \S+, pid \d+\) has made no progress for \d+ s in collect of iteration "
        r"\d+\.",
        end.sentence(),
    )
    assert re.search(r"-> rank 1 +collect of iteration \d+, no progress for", end.output)
    assert re.search(r"   rank 0 +\S+.* of iteration \d+,.* no progress for", end.output)
    assert "time.sleep(1000.0)" in end.output.partition("Stacks of rank 1:")[2]
    assert "Main thread of rank 0:" in end.output
    assert "Stacks of rank 0:" in end.report
    heartbeats = json.loads((end.run / "heartbeats.json").read_text())
    assert [one["rank"] for one in heartbeats["ranks"]] == [0, 1]
    assert "Traceback" not in end.output.partition("torch/distributed/elastic")[0]


def test_a_stopped_rank_is_named_and_killed(launches):
    sentence = ended(launches, "stop").sentence()
    assert re.match(r"Rank 1 .* is stopped \(by SIGSTOP\), last seen \d+ s ago in ", sentence)
    assert re.search(r" of iteration \d+\.$", sentence)


def test_a_rank_whose_native_code_holds_the_interpreter_is_named_and_shows_its_stack(launches):
    end = ended(launches, "hold")
    assert "and native code holds its interpreter, last seen" in end.sentence()
    assert re.search(r"worker_stuck.py\", line \d+ in come_to_grief", end.output)


def test_a_rank_that_passes_over_a_collective_is_named_with_where_both_stand(launches):
    end = ended(launches, "skip")
    assert re.match(r"Rank 1 .* has skipped a collective, or makes one too", end.sentence())
    assert re.search(r"-> rank 1 +learn of iteration \d+, waits in backward pass", end.output)
    assert re.search(r"   rank 0 +reduce \(gather, in iteration\) of iteration \d+", end.output)
    assert "self.context.gather(" in end.report


def test_a_rank_that_raises_shows_its_own_traceback_and_the_others_one_sentence(launches):
    end = ended(launches, "raise")
    assert "failed (ValueError: the robot is broken)" in end.sentence()
    own = end.output.partition("torch/distributed/elastic")[0]
    assert own.count("Traceback (most recent call last)") == 1
    assert "Connection closed by peer" not in own


def test_the_job_ends_soon_after_the_timeout(launches):
    for how in ["sleep", "stop", "hold", "skip"]:
        end = ended(launches, how)
        waited = [float(text) for text in re.findall(r"no progress for ([0-9.]+) s", end.report)]
        assert TIMEOUT_S <= max(waited) < TIMEOUT_S + SLACK_S


def test_one_process_alone_ends_with_its_stack_and_its_code(launches):
    end = ended(launches, "alone")
    assert end.codes == [HUNG_EXIT_CODE]
    assert "time.sleep(1000.0)" in end.report
    assert re.match(r"Rank 0 .* has made no progress for \d+ s in collect of iter", end.sentence())


def test_no_process_of_all_these_is_left(launches):
    for launch in launches.values():
        launch.wait(DEADLINE_S)
        assert launch.left() == {}


def test_an_end_is_recorded_only_where_the_run_is(tmp_path: Path):
    record_end(tmp_path / "elsewhere", "Rank 1 died.", "the report")
    assert not (tmp_path / "elsewhere").exists()
