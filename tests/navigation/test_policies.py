"""The installed policies of navigation."""

from __future__ import annotations

from pathlib import Path

import pytest

from envlab.cli import main
from envlab.errors import CheckpointError
from envlab.run.pretrained import find_policy


def test_a_task_with_policies_of_two_libraries_names_both():
    with pytest.raises(CheckpointError, match="There is a policy by ddppo, skrl --algorithm=ppo"):
        find_policy("rsl_rl", {}, {"Nav-PointNav-Depth-v0", "Nav-PointNav-Depth-Play-v0"})


@pytest.mark.long
@pytest.mark.parametrize("task", ["Nav-PointNav-Depth", "Nav-ObjectNav-Depth"])
def test_a_shipped_policy_is_exported_as_it_acts(task: str, tmp_path: Path, monkeypatch):
    """Exporting compares the files with the policy, by observations as they are."""
    monkeypatch.chdir(tmp_path)
    words = [f"--task={task}-Play-v0", "--checkpoint=pretrained", "env.houses.num_houses=2"]
    assert main(["export", "ddppo", *words]) == 0
    assert len(list(tmp_path.rglob("policy.onnx"))) == 1
