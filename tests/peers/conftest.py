"""The packages of Isaac Lab and mjlab, installed once for all tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.wheels import install


@pytest.fixture(scope="session")
def peers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of both packages; the tests are skipped where PyPI cannot be reached."""
    folder = tmp_path_factory.mktemp("peers")
    install(folder, "isaaclab==2.3.2.post1", "mjlab==1.6.0")
    return folder


@pytest.fixture(scope="session")
def isaac(peers: Path) -> Path:
    return peers / "isaaclab/source/isaaclab/isaaclab"
