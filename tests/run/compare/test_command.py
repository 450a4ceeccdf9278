"""``envlab compare``: the table, the picture, and refusals."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from envlab import cli
from tests.fake_run import write_run

pytest.importorskip("scipy", reason="needs scipy: pip install -e '.[compare]'")


@pytest.fixture
def logs(tmp_path: Path, monkeypatch) -> Path:
    """Two runs of one process and one of two, in ``logs/`` of the current folder."""
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "logs", [None, 1.0, 4.0, 3.0], name="a", seed=0)
    write_run(tmp_path / "logs", [None, 2.0, 6.0, 5.0], name="b", seed=1)
    write_run(tmp_path / "logs", [None, 1.5, 2.5, 2.5], name="c", size=2, seconds_per_iteration=1.0)
    return tmp_path / "logs"


def compare(capsys, *arguments: str) -> tuple[str, str]:
    """Return the output of a comparison."""
    assert cli.main(["compare", *arguments]) == 0
    captured = capsys.readouterr()
    return captured.out, captured.err


def test_the_table_has_a_line_per_group(logs, capsys):
    out, _ = compare(capsys, "logs", "--no_plot")
    heading, rule, one, two, *notes = out.splitlines()
    assert heading.split() == (
        "group runs task mean_return highest frames wall time frames/s".split()
    )
    # Finals 3 and 5, highest 4 and 6, 400 frames in 8 s and in 4 s.
    for line, numbers in (
        (one, "rsl_rl, 1 process 2 Isaac-Cartpole-v0 4.000 [3.000, 5.000] 5.000 400 8 s 50"),
        (two, "rsl_rl, 2 processes 1 Isaac-Cartpole-v0 2.500 2.500 400 4 s 100"),
    ):
        assert line.split() == numbers.split()
    assert len(rule) == len(one) == len(two)
    assert "One run is a value without an interval." in notes
    assert "Intervals of fewer than 5 runs are too narrow for 95 %." in notes


def test_statuses_are_counted_where_a_run_has_not_finished(logs, capsys):
    write_run(logs, [1.0], name="d", seed=2, status="failed")
    out, _ = compare(capsys, "logs", "--no_plot")
    assert "2 finished, 1 failed" in out
    assert out.splitlines()[0].endswith("status")


def test_notes_name_omitted_truncated_and_joined_runs(logs, capsys):
    write_run(logs, [None], name="young", seed=2)
    write_run(logs, [1.0], name="killed", seed=3, end='{"it')
    resumed_from = "a/b/logs/rsl_rl/cartpole/b/checkpoints/model_2.pt"
    write_run(logs, [7.0], name="on", seed=1, first_iteration=9, resumed_from=resumed_from)
    write_run(logs, [7.0], name="lost", seed=3, first_iteration=9, resumed_from="x/y/z.pt")
    out, _ = compare(capsys, "logs", "--no_plot")
    cartpole = "logs/rsl_rl/cartpole"
    for note in (
        f"{cartpole}/young has no value of mean_return; omitted.",
        f"The last line of {cartpole}/killed/metrics.jsonl is cut off; not counted.",
        f"{cartpole}/on continues {cartpole}/b; they count as one run.",
        f"{cartpole}/lost continues a run that was not given; its curve starts at 900 frames.",
        "rsl_rl, 1 process: 2 runs have the seed 3; they count as if independent.",
        "rsl_rl, 1 process: the runs share no range of frames; there is no curve.",
    ):
        assert note in out


def test_markdown_can_be_pasted(logs, capsys):
    out, err = compare(capsys, "logs", "--format", "markdown")
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in out.splitlines()]
    assert lines[0][:5] == ["group", "runs", "task", "mean_return", "highest"]
    sides = [(cell[0] == ":", cell[-1] == ":") for cell in lines[1]]
    left, right = (True, False), (False, True)
    assert sides == [left, right, left, right, right, right, right, right]
    assert lines[2][:3] == ["rsl_rl, 1 process", "2", "Isaac-Cartpole-v0"]
    assert lines[2][3] == "4.000 [3.000, 5.000]"
    assert err == "Picture: compare.png\n"


def test_json_is_all_that_a_script_reads(logs, capsys):
    out, _ = compare(capsys, "logs", "--format", "json", "--metric", "losses.value")
    result = json.loads(out)
    assert result["metric"] == "losses.value"
    one, two = result["groups"]
    assert (one["num_runs"], one["final"], one["interval"]) == (2, 0.25, [0.25, 0.25])
    assert (two["final"], two["interval"], two["fps"]) == (0.25, None, 100.0)
    assert two["directories"] == ["logs/rsl_rl/cartpole/c"]


def test_a_picture_is_written_and_none_is_lost(logs, capsys):
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install -e '.[compare]'")
    for suffix in ["png", "pdf", "svg"]:
        first = f"my.curves.{suffix}"
        for name in (first, f"my.curves_1.{suffix}"):
            Path(name).write_bytes(b"mine")
        out, _ = compare(capsys, "logs", "--output", first)
        assert out.endswith(f"Picture: my.curves_2.{suffix}\n")
        assert Path(first).read_bytes() == b"mine"
        assert Path(f"my.curves_2.{suffix}").stat().st_size > 5000
    compare(capsys, "logs", "--output", first, "--force")
    assert Path(first).stat().st_size > 5000
    assert not Path("my.curves_3.svg").exists()


def test_without_matplotlib_there_is_still_a_table(logs, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert cli.main(["compare", "logs"]) == 2
    captured = capsys.readouterr()
    assert "rsl_rl, 2 processes" in captured.out
    assert "The picture needs the package" in captured.err
    assert "pip install -c constraints.txt -e '.[compare]'" in captured.err


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4567, "0.457 s"), (119.0, "119 s"), (720.0, "12 min"), (7200.0, "2 h"), (2e5, "2.31 d")],
)
def test_times_are_in_units_for_a_person(tmp_path, capsys, seconds: float, words: str):
    run = write_run(tmp_path, [1.0], seconds_per_iteration=seconds)
    assert words in compare(capsys, str(run), "--no_plot")[0]
