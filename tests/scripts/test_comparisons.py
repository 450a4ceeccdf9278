"""The comparisons with peers and their programs: their arithmetic, and whose CPU time counts."""

from __future__ import annotations

import json
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from envlab.errors import ConfigurationError
from tests.launcher import ROOT


@pytest.fixture(scope="module")
def peers() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts/benchmarks/compare_peers.py"))


@pytest.fixture(scope="module")
def programs() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts/benchmarks/compare_programs.py"))


def test_each_table_has_one_place_and_is_of_medians(peers, tmp_path: Path, monkeypatch):
    for name in peers["COMPARISONS"]:
        mark = f"<!-- compare_peers.py {name} -->\n"
        assert [page.read_text().count(mark) for page in peers["PAGES"]].count(1) == 1
    ours, theirs = peers["COMPARISONS"]["skrl"]["Isaac-Ant-v0, 2048 environments"]
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- compare_peers.py skrl -->\nold\n<!-- until here -->\nb\n")
    for contender, rates in ((ours, [30.0, 1200.0, 3e6]), (theirs, [400.0, 1.0, 800.0])):
        contender.rates, contender.cpu_rates = rates, [2.0 * rate for rate in rates]
    monkeypatch.setitem(peers["write"].__globals__, "PAGES", [page])
    peers["write"]("skrl", peers["table"]("steps", {"Ant": [ours, theirs]}))
    before, *table, after, end = page.read_text().splitlines()[1:]
    assert (before, after, end) == ("<!-- compare_peers.py skrl -->", "<!-- until here -->", "b")
    assert table[2:] == [
        "| Ant | envlab | 1,200 |  | 2,400 |  |",
        "|  | skrl, its own runner | 400 | 3.00 | 800 | 3.00 |",
    ]


def test_a_contender_that_ends_is_named_with_its_last_words(peers):
    contender = peers["Contender"]("nobody", "no_such_function")
    with (
        pytest.raises(ConfigurationError, match=r"nobody ended early(.|\n)*StopIteration"),
        peers["started"](contender, Path(sys.executable)) as worker,
    ):
        worker.run(0.1)


BUSY = """
import subprocess, sys, time
if len(sys.argv) == 1:
    child = subprocess.Popen([sys.executable, __file__, "child"], stdout=sys.stdout)
    child.wait()
for frames in range(1, 1000):
    end = time.process_time() + 0.05
    while time.process_time() < end:
        pass
    print("frames", 100 * frames, flush=True)
"""
"""100 frames for each 0.05 s of CPU time, 2,000 a second, in a process that it has started."""


def printed(folder: Path, output: str) -> int:
    found = re.findall(r"frames (\d+)\n", output)
    return int(found[-1]) if found else 0


@pytest.mark.long
def test_cpu_time_of_children_counts_once_all_programs_train(programs, tmp_path: Path):
    (tmp_path / "busy.py").write_text(BUSY)
    running = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        command = [sys.executable, str(tmp_path / "busy.py")]
        program = programs["Program"](name, command, printed, tmp_path)
        running.append(programs["Running"](program, tmp_path / name))
    try:
        programs["measure"](running, 2, 0.5)
    finally:
        for one in running:
            one.end()
    for one in running:
        assert len(one.program.rates) >= 2
        assert one.program.rates == pytest.approx([2000] * len(one.program.rates), rel=0.5)


def test_a_program_that_ends_is_named_with_its_last_words(programs, tmp_path: Path):
    command = [sys.executable, "-c", "raise SystemExit('no spec')"]
    running = programs["Running"](
        programs["Program"]("nobody", command, printed, tmp_path), tmp_path
    )
    with pytest.raises(ConfigurationError, match=r"nobody ended with exit code 1(.|\n)*no spec"):
        programs["measure"]([running], 1, 0.1)
    running.end()


def test_frames_are_those_of_all_sessions(programs, tmp_path: Path):
    for place, frames in {"": 500, "sessions/0": 300, "sessions/1": 400}.items():
        (folder := tmp_path / "run" / place).mkdir(parents=True, exist_ok=True)
        lines = [json.dumps({"frames": one}) for one in (100, frames)]
        (folder / "metrics.jsonl").write_text("\n".join([*lines, '{"fra']))
    assert programs["our_frames"](tmp_path, "") == 700
    colours = "12:00\x1b[0m | \x1b[1mINFO\x1b[0m | a | Trial 0"
    output = "".join(
        f"{colours} session {session} spec_t0_s{session} [train]\nepi: 3  frame:{frames}  t: 4\n"
        for session, frames in ((0, "2.00e+03"), (1, "1.20e+04"), (0, "4.00e+03"))
    )
    assert programs["slm_frames"](tmp_path, output) == 16_000


def test_the_ratio_is_of_medians(programs, tmp_path: Path):
    ours, theirs = (programs["Program"](name, [], printed, tmp_path) for name in ("envlab", "peer"))
    ours.rates, theirs.rates = [100.0, 900.0, 2000.0], [100.0, 300.0, 5000.0]
    assert programs["table"]([ours, theirs]).splitlines()[2:] == [
        "| envlab | 900 (100 to 2,000) |  |",
        "| peer | 300 (100 to 5,000) | 3.00 |",
    ]
