"""Completions that the shell offers after the first letters of a command."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.launcher import ROOT


@pytest.mark.long
def test_a_shell_offers_the_words_that_may_follow(tmp_path: Path):
    for line, offered, not_offered in [
        ("envlab ", {"list", "train", "doctor"}, {"rsl_rl"}),
        ("envlab train ", {"rsl_rl", "rl_games", "skrl"}, {"list"}),
        ("envlab train skrl --algorithm s", {"sac"}, {"ppo"}),
        ("envlab train --rl_library s", {"skrl"}, {"rsl_rl"}),
        ("envlab config --task Isaac-Ant-", {"Isaac-Ant-v0"}, {"Isaac-Cartpole-v0"}),
        ("envlab terms r", {"reward"}, {"event"}),
        ("envlab play rsl_rl --task Isaac-Cartpole-D", {"Isaac-Cartpole-Direct-v0"}, set()),
    ]:
        words = completed(tmp_path, line)
        assert offered <= words
        assert not not_offered & words


def completed(folder: Path, line: str) -> set[str]:
    """Return the words that may end a line."""
    found = folder / "found"
    env = os.environ | {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(found),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    subprocess.run([sys.executable, "-m", "envlab.cli"], env=env, check=True, timeout=60)
    return {word.strip() for word in found.read_text().splitlines()}


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["bash", "--norc", "--noprofile", "-i"], id="bash"),
        pytest.param(["zsh", "-f", "-i"], id="zsh", marks=pytest.mark.tools("zsh")),
    ],
)
def test_a_real_shell_completes_a_task(tmp_path: Path, command: list[str]):
    program = tmp_path / "envlab"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m envlab.cli "$@"\n')
    program.chmod(0o755)
    variables = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "source"))),
        "HOME": str(tmp_path),
        "TERM": "dumb",
    }
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(command[0], command, variables)
    try:
        send = f'eval "$(envlab completion {command[0]})"; echo rea""dy\n'
        os.write(terminal, send.encode())
        read_until(terminal, "ready")
        for line, word in (
            ("envlab train rsl_rl --task Isaac-Cartpole-Dir", "Isaac-Cartpole-Direct-v0"),
            ("envlab train --task=Isaac-Quad", "Isaac-Quadcopter-Direct-v0"),
        ):
            os.write(terminal, f"{line}\t".encode())
            seen = read_until(terminal, word)
            assert line in seen
            os.write(terminal, b"\x15")  # Ctrl-U clears the line
    finally:
        os.kill(pid, signal.SIGKILL)
        os.close(terminal)
        os.waitpid(pid, 0)


def read_until(terminal: int, word: str, deadline_s: float = 60.0) -> str:
    """Return a terminal's output up to a word."""
    seen, end = "", time.monotonic() + deadline_s
    while word not in seen:
        left = end - time.monotonic()
        readable = select.select([terminal], [], [], max(0.0, left))[0]
        assert readable, f"{word!r} did not appear: {seen!r}"
        seen += os.read(terminal, 4096).decode(errors="replace")
    return seen
