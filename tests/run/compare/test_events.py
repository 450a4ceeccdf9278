"""Runs of which there are event files only, as legged_gym and IsaacGymEnvs leave them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from torch.utils.tensorboard import SummaryWriter

from envlab.errors import RunDirectoryError
from envlab.run.compare.command import main
from envlab.run.compare.results import find_results
from envlab.run.records import line_of


def write(folder: Path, values: dict[str, list[float]], step: int = 1) -> None:
    with SummaryWriter(str(folder)) as writer:
        for tag, numbers in values.items():
            for index, number in enumerate(numbers):
                writer.add_scalar(tag, number, index * step)


def legged_gym(folder: Path) -> Path:
    """Two iterations of 6144 frames; the rate is cut to an integer."""
    write(
        folder / "flat_a1" / "Nov22_10-55-51_",
        {
            "Perf/total_fps": [2457.0, 3071.0],
            "Perf/collection time": [2.0, 1.5],
            "Perf/learning_time": [0.5, 0.5],
            "Train/mean_reward": [0.25, 4.0],
            "Episode/rew_tracking_lin_vel": [0.01, 0.5],
        },
    )
    return folder


def test_rsl_rl_frames_are_those_of_its_rate_and_times(tmp_path):
    (run,) = find_results([str(legged_gym(tmp_path))], "mean_return")
    assert run.frames == pytest.approx([6144, 12288], rel=1e-3)
    assert run.values.tolist() == [0.25, 4.0]
    assert run.manifest["task"] == "flat_a1"


def test_rl_games_steps_are_frames_and_its_folders_name_the_task(tmp_path):
    folder = tmp_path / "runs" / "Cartpole_22-11-14-19" / "summaries"
    write(folder, {"rewards/step": [1.0, 2.0], "losses/a_loss": [0.1, 0.2]}, step=8192)
    (run,) = find_results([str(tmp_path)], "losses/a_loss")
    assert run.frames.tolist() == [0.0, 8192.0]
    assert run.values == pytest.approx([0.1, 0.2])
    assert run.manifest["task"] == "Cartpole"


def test_event_files_of_our_own_runs_are_not_counted_again(tmp_path):
    (legged_gym(tmp_path) / "run.json").write_text('{"task": "T", "library": "rsl_rl"}')
    record = {"iteration": 1, "frames": 1, "wall_s": 1, "mean_return": 5.0}
    (tmp_path / "metrics.jsonl").write_bytes(line_of(record))
    (run,) = find_results([str(tmp_path)], "mean_return")
    assert run.values.tolist() == [5.0]


def test_the_table_takes_a_tag_as_the_metric(tmp_path, capsys):
    tag = "Episode/rew_tracking_lin_vel"
    assert main([str(legged_gym(tmp_path)), "--no_plot", "--metric", tag]) == 0
    line = capsys.readouterr().out.splitlines()[2]
    assert line.split()[:5] == ["rsl_rl", "(events)", "1", "flat_a1", "0.5000"]


def test_values_at_no_time_are_left_out(tmp_path):
    for time in [float("nan"), float("inf"), 1e300]:
        with SummaryWriter(str(tmp_path / "flat_a1" / "run")) as writer:
            for step, wall_time in enumerate((1000.0, time, 1001.0)):
                writer.add_scalar("Train/mean_reward", float(step), step, wall_time)
        (run,) = find_results([str(tmp_path)], "mean_return")
        # The writer's own first event has the time of the test.
        assert run.values.tolist() == [0.0, 2.0]
        assert run.wall_s.tolist() == [0.0, 1.0]


def test_a_pipe_among_event_files_is_refused_and_not_waited_for(tmp_path, capsys):
    legged_gym(tmp_path)
    (folder,) = tmp_path.glob("flat_a1/*")
    os.mkfifo(folder / "events.out.tfevents.9")
    with pytest.raises(RunDirectoryError, match=r"tfevents\.9 is not a regular file"):
        find_results([str(tmp_path)], "mean_return")
