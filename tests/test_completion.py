"""What the shell offers after the first letters of a command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from envlab.cli import main


@pytest.mark.parametrize(
    ("line", "offered", "not_offered"),
    [
        ("envlab ", {"list", "train", "doctor"}, {"rsl_rl"}),
        ("envlab train ", {"rsl_rl", "rl_games", "skrl"}, {"list"}),
        ("envlab train skrl --algorithm s", {"sac"}, {"ppo"}),
        ("envlab play rsl_rl --task Isaac-Cartpole-D", {"Isaac-Cartpole-Direct-v0"}, set()),
    ],
)
def test_a_shell_is_told_what_may_follow(
    tmp_path: Path, line: str, offered: set[str], not_offered: set[str]
):
    found = tmp_path / "found"
    env = os.environ | {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(found),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    subprocess.run([sys.executable, "-m", "envlab.cli"], env=env, check=True, timeout=60)
    words = {word.strip() for word in found.read_text().splitlines()}
    assert offered <= words
    assert not not_offered & words


def test_the_lines_for_a_shell_are_printed(capsys: pytest.CaptureFixture[str]):
    assert main(["completion", "bash"]) == 0
    assert "complete " in capsys.readouterr().out
    assert main(["completion", "fish"]) == 2
    assert "Name a shell" in capsys.readouterr().err
