"""The comparison with peers' programs: whose frames and CPU time count, and bad input."""

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


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts/benchmarks/compare_programs.py"))


def printed(folder: Path, output: str) -> int:
    found = re.findall(r"frames (\d+)\n", output)
    return int(found[-1]) if found else 0


def test_cpu_time_of_children_counts_once_all_programs_train(script, tmp_path: Path):
    (tmp_path / "busy.py").write_text(BUSY)
    running = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        command = [sys.executable, str(tmp_path / "busy.py")]
        program = script["Program"](name, command, printed, tmp_path)
        running.append(script["Running"](program, tmp_path / name))
    try:
        script["measure"](running, 2, 0.5)
    finally:
        for one in running:
            one.end()
    for one in running:
        assert len(one.program.rates) >= 2
        assert one.program.rates == pytest.approx([2000] * len(one.program.rates), rel=0.5)


def test_a_program_that_ends_is_named_with_its_last_words(script, tmp_path: Path):
    command = [sys.executable, "-c", "raise SystemExit('no spec')"]
    running = script["Running"](script["Program"]("nobody", command, printed, tmp_path), tmp_path)
    with pytest.raises(ConfigurationError, match=r"nobody ended with exit code 1(.|\n)*no spec"):
        script["measure"]([running], 1, 0.1)
    running.end()


def test_frames_are_those_of_all_sessions(script, tmp_path: Path):
    for place, frames in {"": 500, "sessions/0": 300, "sessions/1": 400}.items():
        (folder := tmp_path / "run" / place).mkdir(parents=True, exist_ok=True)
        lines = [json.dumps({"frames": one}) for one in (100, frames)]
        (folder / "metrics.jsonl").write_text("\n".join([*lines, '{"fra']))
    assert script["our_frames"](tmp_path, "") == 700
    colours = "12:00\x1b[0m | \x1b[1mINFO\x1b[0m | a | Trial 0"
    output = "".join(
        f"{colours} session {session} spec_t0_s{session} [train]\nepi: 3  frame:{frames}  t: 4\n"
        for session, frames in ((0, "2.00e+03"), (1, "1.20e+04"), (0, "4.00e+03"))
    )
    assert script["slm_frames"](tmp_path, output) == 16_000


def test_the_ratio_is_of_medians(script, tmp_path: Path):
    ours, theirs = (script["Program"](name, [], printed, tmp_path) for name in ("envlab", "peer"))
    ours.rates, theirs.rates = [100.0, 900.0, 2000.0], [100.0, 300.0, 5000.0]
    assert script["table"]([ours, theirs]).splitlines()[2:] == [
        "| envlab | 900 (100 to 2,000) |  |",
        "| peer | 300 (100 to 5,000) | 3.00 |",
    ]
