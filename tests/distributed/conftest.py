"""Jobs of real ranks whose output several tests check."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.launcher import run, torchrun

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The results of both ranks of ``worker_pair.py``."""
    folder = tmp_path_factory.mktemp("pair")
    code, output = run(torchrun(2, HERE / "worker_pair.py", folder), folder)
    assert code == 0, output
    return [torch.load(folder / f"rank{rank}.pt", weights_only=False) for rank in range(2)]


@pytest.fixture(scope="session")
def trio(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The results of the three ranks of ``worker_trio.py``."""
    folder = tmp_path_factory.mktemp("trio")
    code, output = run(torchrun(3, HERE / "worker_trio.py", folder), folder)
    assert code == 0, output
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(3)]


@pytest.fixture(scope="session")
def audits(trio: list[dict[str, Any]]) -> list[dict[str, str | None]]:
    """The audits' messages on each of three ranks."""
    return [rank["audits"] for rank in trio]
