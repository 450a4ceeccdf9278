"""A forked launch is like an executed one to tests; each check runs both ways."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.launcher import run, torchrun

TELL = """
import json, os, random, signal, sys
from pathlib import Path

words = Path("/proc/self/cmdline").read_text().rstrip("\\0").split("\\0")
variables = Path("/proc/self/environ").read_text().split("\\0")
line = json.dumps({
    "argv": sys.argv,
    "name": __name__,
    "first path": sys.path[0],
    "folder": os.getcwd(),
    "shown words": words[-3:],
    "shown": sorted(word for word in variables if word.startswith("TOLD=")),
    "told": os.environ["TOLD"],
    "marks": sorted(
        name for name in os.environ
        if name.startswith("ENVLAB_TEST_") and name[12:] not in ("REAL_LAUNCHES", "TOOLS", "USD")
    ),  # without those that CI or --all set
    "leads its session": os.getsid(0) == os.getpid(),
    "signals": [
        signal.getsignal(number) is wanted
        for number, wanted in (
            (signal.SIGTERM, signal.SIG_DFL),
            (signal.SIGINT, signal.default_int_handler),
            (signal.SIGCHLD, signal.SIG_DFL),
        )
    ],
    "files": sum(os.path.exists(f"/proc/self/fd/{fd}") for fd in range(3, 100)),
    "rank": os.environ.get("RANK"),
    "is below torchrun": "torch.distributed.run"
    in Path(f"/proc/{os.getppid()}/cmdline").read_text(),
})
os.write(1, f"{line}\\n".encode())  # in one write: two ranks share the pipe
sys.exit(int(sys.argv[2]))
"""
BOTH = pytest.mark.parametrize(
    "execute", [False, pytest.param(True, marks=pytest.mark.long)], ids=["forked", "executed"]
)


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TOLD", "a value = with = signs")
    path = tmp_path / "tell.py"
    path.write_text(TELL)
    return path


def reports(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


@BOTH
def test_a_script_finds_its_arguments_and_environment(script: Path, tmp_path: Path, execute: bool):
    words = [str(script), "two words", "7"]
    code, output = run([sys.executable, *words], tmp_path, execute=execute)
    assert code == 7, output
    (report,) = reports(output)
    assert report == {
        **{"argv": words, "shown words": words, "name": "__main__"},
        **{"first path": str(tmp_path), "folder": str(tmp_path), "files": 0},
        **{"shown": ["TOLD=a value = with = signs"], "told": "a value = with = signs"},
        "marks": ["ENVLAB_TEST_LAUNCH", "ENVLAB_TEST_SESSION"],
        **{"leads its session": True, "signals": [True, True, True]},
        **{"rank": None, "is below torchrun": False},
    }


@BOTH
def test_torchruns_workers_are_its_children(script: Path, tmp_path: Path, execute: bool):
    code, output = run(torchrun(2, script, "one", "0"), tmp_path, execute=execute)
    assert code == 0, output
    ranks = sorted(reports(output), key=lambda rank: rank["rank"])
    assert [rank["rank"] for rank in ranks] == ["0", "1"]
    words = [str(script), "one", "0"]
    for rank in ranks:
        assert (rank["argv"], rank["shown words"], rank["files"]) == (words, words, 0)
        assert rank["signals"] == [True, True, True]
        assert rank["leads its session"]
        assert rank["is below torchrun"]
