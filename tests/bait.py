"""A stranger's module that can be imported, and must not be."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import gymnasium
import pytest

BAIT = "bait_of_another_stranger"
"""Its name; it registers the environment ``Bait-v0``."""
_TEXT = """import gymnasium

gymnasium.register("Bait-v0", entry_point="gymnasium.envs.classic_control:PendulumEnv")
"""


@pytest.fixture
def bait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the module be imported from the current folder, as by ``python -m envlab``."""
    (tmp_path / f"{BAIT}.py").write_text(_TEXT)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield
    sys.modules.pop(BAIT, None)
    gymnasium.registry.pop("Bait-v0", None)
