"""Mistakes of users: each is answered with one sentence on stderr, code 2, and at once.

The rows are in ``mistakes/``: a command line and words that the sentence contains. Those under
``early`` are answered before torch is imported. "At once" is 1.5 s of processor time, which other
programs on the machine do not add to, except where they take the memory's bandwidth: the same work
has then cost ten times as much, so a slow row is compared with a row whose cost is known.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.launcher import ROOT

LIMIT_S = 1.5
"""Processor time, in user and system mode."""
KNOWN = {
    "early": ("train skrl --task=Isaac-Cartpole-v0 --nproc=0", 0.05),
    "late": ("train rsl_rl --task=Isaac-Cartpole-v0 env.nothing=1", 0.15),
}
"""By stage, a row, and its time on a quiet machine."""
FOLDER = ROOT / "tests/mistakes"
TABLES = sorted(FOLDER.rglob("*.yaml"))
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "source")))}


class Worker:
    """A process that forks for each command line; see ``worker_mistakes.py``."""

    def __init__(self, stage: str) -> None:
        """Start it, with torch imported or not (``stage`` is ``late`` or ``early``)."""
        self.process = subprocess.Popen(
            [sys.executable, ROOT / "tests/worker_mistakes.py", stage],
            env=ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.stage = stage

    def limit_s(self) -> float:
        """Return the limit as this machine is now."""
        line, quiet_s = KNOWN[self.stage]
        return LIMIT_S * max(1.0, self.ask(ROOT, line)["cpu_s"] / quiet_s)

    def ask(self, folder: Path, line: str) -> dict[str, Any]:
        """Return a command line's answer, its cost, and whether it loads torch."""
        words = shlex.split(line)
        if words[0].startswith("scripts/"):
            words[0] = str(ROOT / words[0])
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"folder": str(folder), "words": words}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


@pytest.fixture(scope="module")
def workers() -> Iterator[dict[str, Worker]]:
    workers = {stage: Worker(stage) for stage in ("early", "late")}
    yield workers
    for worker in workers.values():
        worker.process.communicate(timeout=60)


@pytest.mark.slow
@pytest.mark.parametrize(
    "table", TABLES, ids=lambda path: str(path.relative_to(FOLDER).with_suffix(""))
)
def test_a_mistake_is_answered_with_one_sentence_at_once(workers, table: Path, tmp_path: Path):
    rows = yaml.safe_load(table.read_text())
    files = rows.pop("files", {})
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    wrong = [
        f"{line}\n  {reason}"
        for stage in rows
        for line, words in rows[stage].items()
        if (reason := fault(workers[stage].ask(tmp_path, line), workers[stage], words))
    ]
    assert not wrong, "\n".join([f"{len(wrong)} rows:", *wrong])
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == set(files), "a mistake has written files"


def fault(answer: dict[str, Any], worker: Worker, words: str) -> str | None:
    """Return what is wrong with an answer: it is to be one sentence with these words, at once."""
    if (answer["code"], answer["out"]) != (2, ""):
        return f"code {answer['code']}, on stdout {answer['out']!r}, on stderr {answer['err']!r}"
    *notes, sentence = answer["err"].splitlines() or [""]  # what was read of a peer's file, perhaps
    is_alone = not notes or (worker.stage == "late" and "Traceback" not in answer["err"])
    if not sentence.startswith("error: ") or words not in sentence or not is_alone:
        return f"no sentence with {words!r}: {answer['err']!r}"
    if answer["cpu_s"] > LIMIT_S and answer["cpu_s"] > (limit_s := worker.limit_s()):
        return f"took {answer['cpu_s']:.1f} s of {limit_s:.1f} s"
    return "imports torch" if worker.stage == "early" and answer["loads_torch"] else None


def test_the_limit_includes_the_start_of_python(workers, tmp_path: Path):
    command = [sys.executable, "-m", "envlab", "train", "skrl", "--task=Isaac-Cartpole-v0"]
    process = subprocess.Popen(
        [*command, "--nproc=0"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    error = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert (process.returncode, error.count("\n")) == (2, 1)
    assert usage.ru_utime + usage.ru_stime < workers["late"].limit_s()
