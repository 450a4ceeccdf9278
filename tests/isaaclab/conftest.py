"""The user's Isaac Lab, found as a user's is: by ISAACLAB_PATH, or installed.

``pip install --no-deps isaaclab==2.3.2.post1`` has the files that are needed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from envlab.errors import ConfigurationError
from envlab_isaaclab import upstream


@pytest.fixture(scope="session")
def isaaclab() -> Path:
    try:
        return upstream.find()
    except ConfigurationError as error:
        pytest.skip(f"needs Isaac Lab's files: {error}")
