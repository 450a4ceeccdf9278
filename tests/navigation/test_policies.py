"""The policies of navigation that come installed."""

from __future__ import annotations

import pytest

from envlab.errors import CheckpointError
from envlab.runs.pretrained import find_policy


def test_a_task_with_policies_of_two_libraries_names_both():
    with pytest.raises(CheckpointError, match="There is one by ddppo, skrl --algorithm=ppo"):
        find_policy("rsl_rl", {}, {"Nav-PointNav-Depth-v0", "Nav-PointNav-Depth-Play-v0"})
