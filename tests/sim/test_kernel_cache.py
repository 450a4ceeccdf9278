"""Processes of a machine compile kernels once; Warp is not needed for it."""

from __future__ import annotations

import errno
import logging
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envlab.sim import kernel_cache
from envlab.sim.kernel_cache import compiled_once

WORKER = """
import sys, time
from pathlib import Path
from envlab.sim.kernel_cache import compiled_once

folder, fails = Path(sys.argv[1]), sys.argv[2] == "fails"
(folder / "begun").open("a").write("x")
with compiled_once(folder, "key", "cuda:0"):
    is_first = not (folder / "wp_one").exists()
    if is_first:
        (folder / "compiles").open("a").write("x")
        time.sleep(0.5)
        if fails:
            sys.exit(1)
        (folder / "wp_one").mkdir()
"""


def start(folder: Path, how: str = "works") -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WORKER, str(folder), how])


def test_one_process_compiles_and_the_others_load(tmp_path):
    processes = [start(tmp_path) for _ in range(3)]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert (tmp_path / "compiles").read_text() == "x"
    assert (tmp_path / "envlab" / "key.ready").exists()


def test_where_the_first_one_fails_the_next_compiles(tmp_path):
    failing = start(tmp_path, "fails")
    while not (tmp_path / "compiles").exists():
        time.sleep(0.01)
    next_one = start(tmp_path)
    assert (failing.wait(60), next_one.wait(60)) == (1, 0)
    assert (tmp_path / "compiles").read_text() == "xx"


def test_compiled_kernels_are_loaded_by_all_at_once(tmp_path):
    with compiled_once(tmp_path, "key", "cpu"):
        pass
    with compiled_once(tmp_path, "key", "cpu"), compiled_once(tmp_path, "key", "cpu"):
        pass  # the second would wait for the first forever


def test_progress_is_reported(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(kernel_cache, "REPORT_EVERY_S", 0.01)
    (tmp_path / "wp_of_another_task").mkdir()
    with caplog.at_level(logging.INFO), compiled_once(tmp_path, "key", "cuda:0"):
        (tmp_path / "wp_one").mkdir()
        end = time.monotonic() + 10.0
        while not caplog.messages and time.monotonic() < end:
            time.sleep(0.01)
    (line, *_) = caplog.messages
    assert line.startswith("Compiling kernels for cuda:0: ")
    assert line.endswith(f" s, into {tmp_path}.")


def test_a_folder_that_cannot_be_written_to_is_no_error(tmp_path):
    (tmp_path / "envlab").write_text("a file")
    with compiled_once(tmp_path, "key", "cuda:0"):
        pass


def test_a_file_system_without_locks_is_no_error(tmp_path, monkeypatch):
    def refuse(lock: object, operation: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(kernel_cache.fcntl, "flock", refuse)
    entered = False
    with compiled_once(tmp_path, "key", "cuda:0"):
        entered = True
    assert entered


def test_the_folder_is_warps_own(monkeypatch, tmp_path):
    pytest.importorskip("warp", reason="needs warp-lang: pip install -e '.[dev]'")
    asked = (
        "import warp; warp.config.log_level = 40; warp.init(); print(warp.config.kernel_cache_dir)"
    )
    for name, value in (("WARP_CACHE_PATH", tmp_path), ("XDG_CACHE_HOME", tmp_path / "home")):
        with monkeypatch.context() as changed:
            changed.delenv("WARP_CACHE_PATH", raising=False)
            changed.setenv(name, str(value))
            found = subprocess.run(
                [sys.executable, "-c", asked], capture_output=True, text=True, check=True
            )
            assert str(kernel_cache.kernel_cache()) == found.stdout.splitlines()[-1]
