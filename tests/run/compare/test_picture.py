"""The picture of a comparison: two axes, a line per group, an interval where there is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from envlab.run.compare.groups import Group, group_runs
from envlab.run.compare.picture import draw
from envlab.run.compare.results import find_results
from tests.fake_run import write_run

for package in ("scipy", "matplotlib"):
    pytest.importorskip(package, reason=f"needs {package}: pip install -e '.[compare]'")


def groups_in(root: Path, metric: str = "mean_return") -> list[Group]:
    return group_runs(find_results([str(root)], metric))


def test_each_group_is_a_line_in_both_axes_and_seeds_have_an_interval(tmp_path: Path):
    for seed in range(2):
        write_run(tmp_path, [1.0, 2.0, 3.0 + seed], name=f"a{seed}", seed=seed)
    write_run(tmp_path, [1.0, None, 2.0], name="b", size=2, seconds_per_iteration=1.0)
    figure = draw(groups_in(tmp_path), "mean_return", "Isaac-Cartpole-v0")
    by_frames, by_time = figure.axes
    for axes in (by_frames, by_time):
        assert len(axes.get_lines()) == 2
        assert len(axes.collections) == 1
        assert len({line.get_color() for line in axes.get_lines()}) == 2
    assert by_frames.get_lines()[1].get_xydata().tolist() == [[100, 1], [300, 2]]
    assert by_time.get_lines()[1].get_xydata().tolist() == [[1, 1], [3, 2]]
    assert by_frames.get_lines()[0].get_ydata()[-1] == pytest.approx(3.5)
    assert figure.get_suptitle() == "Isaac-Cartpole-v0"
    assert by_frames.get_xlabel() == "frames of all environments"
    assert by_time.get_xlabel() == "wall time (s)"
    assert by_frames.get_ylabel() == "mean return"
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "rsl_rl, 1 process (2 runs)",
        "rsl_rl, 2 processes (1 run)",
    ]
    assert "95% bootstrap interval" in legend.get_title().get_text()


def test_twelve_groups_still_look_different(tmp_path: Path):
    for size in range(1, 13):
        write_run(tmp_path, [1.0, 2.0], name=f"{size}", size=size)
    lines = draw(groups_in(tmp_path), "mean_return", "x").axes[0].get_lines()
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 12


def test_a_group_without_a_common_range_keeps_its_place_in_the_legend(tmp_path: Path):
    write_run(tmp_path, [1.0, 2.0], name="early", seed=0)
    write_run(tmp_path, [1.0, 2.0], name="late", seed=1, first_iteration=9)
    figure = draw(groups_in(tmp_path), "mean_return", "x")
    assert [len(axes.get_lines()[0].get_xdata()) for axes in figure.axes] == [0, 0]
    assert len(figure.legends[0].get_texts()) == 1


def test_an_axis_on_which_nothing_is_drawn_is_left_out(tmp_path: Path):
    write_run(tmp_path, [1.0, 2.0], name="fast", seed=0)
    write_run(tmp_path, [1.0, 2.0], name="slow", seed=1, seconds_per_iteration=60.0)
    figure = draw(groups_in(tmp_path), "mean_return", "x")
    assert [axes.get_xlabel() for axes in figure.axes] == ["frames of all environments"]


def test_the_metric_is_named_with_its_unit(tmp_path: Path):
    write_run(tmp_path, [1.0])
    for metric, label in {
        "learning_rate": "learning rate",
        "collect_s": "collect (s)",
        "fps": "fps (frames/s)",
        "losses.value_function": "losses.value_function",
    }.items():
        assert draw(groups_in(tmp_path), metric, "x").axes[0].get_ylabel() == label
