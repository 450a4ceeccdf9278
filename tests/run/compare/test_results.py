"""Reading runs: each once, resumed ones as one, and the remains of killed ones."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest
from torch.utils.tensorboard import SummaryWriter

from envlab.errors import ConfigurationError, EnvlabError, RunDirectoryError
from envlab.run.compare.command import main
from envlab.run.compare.results import (
    check_one_task,
    find_results,
    join_resumed,
    read_result,
    with_values,
)
from envlab.run.records import keep_evaluation, line_of
from tests.fake_run import write_run
from tests.refusals import check_refusals

METRIC = "mean_return"


def names(*places: object) -> list[str]:
    return [run.directory.name for run in find_results([str(place) for place in places], METRIC)]


def test_runs_are_found_by_directory_folder_and_pattern_each_once(tmp_path: Path):
    a = write_run(tmp_path, [1.0], name="b_first")
    write_run(tmp_path, [2.0], name="a_second", library="skrl")
    assert names(a) == ["b_first"]
    assert names(tmp_path) == names(tmp_path, a) == ["b_first", "a_second"]  # oldest first
    assert names(f"{tmp_path}/*/cartpole/a_*") == ["a_second"]
    assert names(f"{tmp_path}/skrl*") == ["a_second"]


def test_a_place_without_runs_is_named(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [(["nothing*"], r"no run at 'nothing\*'.*Give a"), (["."], r"no run at '\.'.*Give a")]
    check_refusals(lambda places: find_results(places, METRIC), rows, RunDirectoryError)


def test_a_foreign_run_json_is_refused(tmp_path: Path):
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(RunDirectoryError, match=r"run\.json names no task"):
        read_result(tmp_path, METRIC)


def test_records_become_arrays_and_null_is_no_value(tmp_path: Path):
    run = read_result(write_run(tmp_path, [None, 3.0]), METRIC)
    np.testing.assert_array_equal(run.frames, [100, 200])
    np.testing.assert_array_equal(run.wall_s, [2, 4])
    np.testing.assert_array_equal(run.values, [math.nan, 3])
    np.testing.assert_array_equal(run.has_value, [False, True])
    assert {"mean_return", "losses.value", "episode.Episode_Reward/alive"} <= run.names


@pytest.mark.parametrize("is_moved", [False, True])
def test_a_resumed_run_and_its_origin_are_one_run(tmp_path: Path, is_moved: bool):
    origin = write_run(tmp_path / "logs", [1.0, 2.0, 3.0], name="origin")
    other = write_run(tmp_path / "logs", [9.0], name="other")
    # The checkpoint was written after iteration 2; later iterations were repeated.
    resumed = write_run(
        tmp_path / "logs",
        [30.0, 40.0],
        name="resumed",
        first_iteration=3,
        resumed_from=str(origin / "checkpoints" / "model_2.pt"),
    )
    if is_moved:
        (tmp_path / "logs").rename(tmp_path / "elsewhere")
    runs = join_resumed(find_results([str(tmp_path)], METRIC))
    assert [run.directory.name for run in runs] == [other.name, resumed.name]
    np.testing.assert_array_equal(runs[1].values, [1, 2, 30, 40])
    np.testing.assert_array_equal(runs[1].frames, [100, 200, 300, 400])
    np.testing.assert_array_equal(runs[1].wall_s, [2, 4, 6, 8])
    assert runs[1].continues is not None
    assert runs[1].continues.name == "origin"


def test_a_run_resumed_twice_is_one_run(tmp_path: Path):
    origin = {}
    for number in (1, 2, 3):
        place = {"name": f"run_{number}", "first_iteration": number}
        directory = write_run(tmp_path, [float(number)], **place, **origin)
        origin = {"resumed_from": str(directory / f"checkpoints/model_{number}.pt")}
    (run,) = join_resumed(find_results([str(tmp_path)], METRIC))
    np.testing.assert_array_equal(run.values, [1, 2, 3])


def test_a_resumed_run_without_its_origin_stands_for_itself(tmp_path: Path):
    write_run(tmp_path, [3.0], first_iteration=3, resumed_from="/gone/checkpoints/model_2.pt")
    (run,) = join_resumed(find_results([str(tmp_path)], METRIC))
    np.testing.assert_array_equal(run.frames, [300])
    assert run.continues is None


def test_runs_of_two_tasks_are_refused_with_both_names(tmp_path: Path):
    write_run(tmp_path, [1.0], name="a")
    write_run(tmp_path, [1.0], name="b", task="Isaac-Ant-v0")
    with pytest.raises(ConfigurationError, match=r"2 tasks.*Isaac-Cartpole-v0.*Isaac-Ant-v0"):
        check_one_task(find_results([str(tmp_path)], METRIC))


@pytest.mark.parametrize(
    ("returns", "metric", "message"),
    [
        ([1.0], "losses.valeu", "Did you mean losses.value"),
        ([None], "mean_return", r"None of the runs \(1\) has a value of mean_return"),
        ([1.0], "validation.mean_return", "Run 'envlab validate .*' first"),
        ([1.0], "evaluation.return", "was evaluated. Play their checkpoints first: envlab play"),
        ([], "mean_return", r"None of the runs \(1\) has a value of mean_return"),
    ],
)
def test_a_metric_that_nobody_has_is_refused(tmp_path: Path, returns, metric: str, message: str):
    write_run(tmp_path, returns)
    with pytest.raises(EnvlabError, match=message):
        with_values(find_results([str(tmp_path)], metric), metric)


def test_a_run_that_died_before_its_first_iteration_is_no_error_among_others(tmp_path: Path):
    write_run(tmp_path, [1.0], name="a")
    (write_run(tmp_path, [], name="b") / "metrics.jsonl").unlink()
    runs = find_results([str(tmp_path)], METRIC)
    assert [run.directory.name for run in with_values(runs, METRIC)] == ["a"]


def test_evaluations_are_read_in_the_order_of_training(tmp_path: Path):
    run = write_run(tmp_path, [1.0, 2.0, 3.0])
    (run / "checkpoints").mkdir(exist_ok=True)
    for iteration in (20, 3):
        values = {"iteration": iteration, "frames": 100 * iteration, "wall_s": 2.0 * iteration}
        values |= {"num_episodes": 8, "return": 0.5 * iteration, "intervals": {"return": [0, 1]}}
        assert keep_evaluation(run / "checkpoints", values)
    (run / "checkpoints/evaluation_4.json").write_text("{")
    (run / "checkpoints/evaluation_5.json").write_text('{"num_episodes": 3, "iteration": "x"}')
    result = read_result(run, "evaluation.return")
    assert result.frames.tolist() == [300, 2000]
    assert result.values.tolist() == [1.5, 10.0]
    with pytest.raises(ConfigurationError, match=r"Did you mean evaluation\.return"):
        with_values([read_result(run, "evaluation.retrun")], "evaluation.retrun")


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
