"""Metrics: episodes counted by hand, and the window that means cover."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from dataclasses import replace
from typing import Any

import pytest
import torch

from envlab.distributed.context import DistributedContext
from envlab.distributed.readings import Readings
from envlab.sim.recordable import RepeatedOperations
from envlab.training.metrics import (
    WINDOW_EPISODES,
    EpisodeTracker,
    Iteration,
    ProgressLine,
    RunMetrics,
)

CONTEXT = DistributedContext()


def ended_info(ended: list[int], **log: float) -> dict[str, Any]:
    values = {name: torch.tensor(value) for name, value in log.items()}
    return {"num_ended": torch.tensor(sum(ended)), "log": values}


def step(tracker: EpisodeTracker, rewards: list[float], ended: list[int], **log: float) -> None:
    info = ended_info(ended, **log) if any(ended) else {"num_ended": 0, "log": log}
    tracker.add_step(torch.tensor(rewards), torch.tensor(ended, dtype=torch.bool), info)


@pytest.fixture
def tracker() -> EpisodeTracker:
    return EpisodeTracker(2, torch.device("cpu"))


def test_episodes_are_counted_where_they_end(tracker: EpisodeTracker):
    step(tracker, [1.0, 10.0], [0, 0])
    step(tracker, [2.0, 20.0], [1, 0], alive=0.5)  # ends with return 3 after 2 steps
    step(tracker, [4.0, 40.0], [1, 1], alive=0.8)  # 4 after 1 step, 70 after 3
    means = tracker.means.reduce(CONTEXT.gather)
    assert means["return"] == pytest.approx((77.0 / 3.0, 3.0))
    assert means["length"] == (2.0, 3.0)
    assert means["alive"] == pytest.approx(((0.5 + 2 * 0.8) / 3.0, 3.0))


def test_graphs_count_what_the_host_counts():
    on_host, on_device, by_graphs = (EpisodeTracker(4, torch.device("cpu")) for _ in range(3))
    by_graphs.record(lambda: RepeatedOperations)
    generator = torch.Generator().manual_seed(0)
    for iteration in range(4):
        # Other names in the log from the third iteration on, such as a curriculum's.
        names = ["alive", "level"][: 1 + iteration // 2]
        with torch.inference_mode():  # as rollouts of rsl_rl
            for _ in range(8):
                rewards = torch.rand(4, generator=generator)
                ended = torch.rand(4, generator=generator) < 0.3
                log = {name: torch.rand((), generator=generator) for name in names}
                info = {"num_ended": int(ended.sum()), "log": log}
                on_host.add_step(rewards, ended, info)
                for tracker in (on_device, by_graphs):
                    tracker.add_step(rewards, ended, info | {"num_ended": ended.sum()})
        readings = Readings()
        by_graphs.means.ask(readings)
        readings.read()
        expected = on_host.means.reduce(CONTEXT.gather)
        assert on_device.means.reduce(CONTEXT.gather) == expected
        assert by_graphs.means.reduce(CONTEXT.gather) == expected
        assert by_graphs.recording.is_made
        assert expected.keys() == {"return", "length", *names}


ITERATION = Iteration(
    frames=64, collect_s=0.25, learn_s=0.75, learning_rate=0.1, losses={"value": 2.0}
)


@pytest.fixture
def metrics(tracker: EpisodeTracker) -> RunMetrics:
    return RunMetrics(CONTEXT, tracker)


def test_a_record_before_the_first_episode_has_no_means(metrics: RunMetrics):
    record = metrics.reduce(1, ITERATION)
    assert (record.mean_return, record.mean_episode_length) == (None, None)
    assert (record.frames, record.fps) == (64, 64.0)
    assert record.losses == {"value": 2.0}
    assert record.episode == {}


def test_means_cover_the_last_100_episodes_or_more(metrics: RunMetrics, tracker: EpisodeTracker):
    for iteration, (value, count) in enumerate([(9.0, 50), (1.0, 60), (2.0, 40)], 1):
        tracker.means.add("return", value * count, count)
        tracker.means.add("length", 10.0 * count, count)
        record = metrics.reduce(iteration, ITERATION)
    # 60 + 40 episodes are enough, so the first 50 are forgotten.
    assert WINDOW_EPISODES == 100
    assert record.mean_return == pytest.approx((60 * 1.0 + 40 * 2.0) / 100)
    assert record.mean_episode_length == 10.0


def test_an_iteration_without_episodes_keeps_the_means_also_after_a_resume(
    metrics: RunMetrics, tracker: EpisodeTracker
):
    step(tracker, [5.0, 0.0], [1, 0])
    restored = RunMetrics(CONTEXT, EpisodeTracker(2, torch.device("cpu")))
    assert metrics.reduce(1, ITERATION).mean_return == 5.0
    restored.set_state({**metrics.state(), "wall_s": 1000.0})
    for one in (metrics, restored):
        record = one.reduce(2, ITERATION)
        assert (record.mean_return, record.frames) == (5.0, 128)
    assert restored.wall_s >= 1000.0


def test_the_best_return_is_the_highest_also_below_zero(metrics: RunMetrics):
    for value, best in ((None, None), (-2.0, -2.0), (0.0, 0.0), (-1.0, 0.0), (None, 0.0)):
        metrics.note_return(value)
        assert metrics.best_return == best


def test_the_progress_line_fits_the_terminal_and_cuts_no_number(metrics: RunMetrics, monkeypatch):
    values = ("return -1234.57", "length 1000", "1,234,568 frames/s")
    record = replace(
        metrics.reduce(1, ITERATION),
        **{"mean_return": -1234.5678, "mean_episode_length": 1000.0, "fps": 1234567.8},
    )
    for columns, begins, shown in [
        (0, [], [0, 2]),
        (40, ["00:"], []),
        (60, ["00:"], [0]),
        (80, ["00:"], [0, 2]),
        (100, ["00:", "| "], [0, 1, 2]),
    ]:
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 0, columns, 0, 0))
        with os.fdopen(slave, "w") as terminal:
            monkeypatch.setattr(sys, "stderr", terminal)
            progress = ProgressLine(CONTEXT, done=0, total=1500)
            progress.show(record)
            progress.close()
        data = b""
        with contextlib.suppress(OSError), os.fdopen(master, "rb", buffering=0) as reader:
            while True:  # until the kernel says that the other end is closed
                data += reader.read(4096)
        drawn = data.decode().replace("\r", "\n").split("\n")
        (last,) = {line.rstrip() for line in drawn if line.startswith("1/1500 iterations ")}
        assert len(last) < (columns or 80)
        first, *rest = last.split(", ")
        assert [text for text in begins if text not in first] == [], last
        assert rest == [values[number] for number in shown], last


def test_the_progress_line_counts_frames_where_they_are_the_budget(metrics: RunMetrics, capsys):
    progress = ProgressLine(CONTEXT, done=1_000_000, total=2_000_000, unit="frames")
    record = replace(metrics.reduce(7, ITERATION), frames=1_250_000)
    progress.show(record, "stage 1 of 2, learning rate 2.7e-04")
    progress.close()
    first, last = capsys.readouterr().err.splitlines()  # the last is drawn once
    assert first.startswith("1.00M/2.00M frames")
    assert last.startswith("1.25M/2.00M frames")
    assert "stage 1 of 2, learning rate 2.7e-04" in last
    progress = ProgressLine(CONTEXT, done=0, total=25_000, unit="frames")
    progress.show(replace(record, frames=32_768))  # of a last rollout
    progress.close()
    assert capsys.readouterr().err.splitlines()[-1].startswith("32.8k/32.8k frames")


@pytest.mark.long
def test_the_progress_line_makes_no_semaphore_that_a_kill_would_leave():
    program = (
        "import multiprocessing.synchronize as made; made.SemLock.__init__ = None\n"
        "from envlab.distributed.context import DistributedContext\n"
        "from envlab.training.metrics import ProgressLine\n"
        "class Context: is_main = True\n"
        "ProgressLine(Context(), done=0, total=1)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
