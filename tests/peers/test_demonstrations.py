"""Files of recorded episodes, read and written by Isaac Lab's own code."""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from envlab import cli
from envlab.envs.dataset_file import open_dataset

pytestmark = pytest.mark.long


@pytest.fixture
def handler(isaac: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Isaac Lab's class of such files, whose folder imports no simulator."""
    package = types.ModuleType("isaac_datasets")
    package.__path__ = [str(isaac / "utils/datasets")]
    monkeypatch.setitem(sys.modules, "isaac_datasets", package)
    module = importlib.import_module("isaac_datasets.hdf5_dataset_file_handler")
    return module.HDF5DatasetFileHandler


def test_isaac_lab_reads_our_episodes_and_we_read_its(handler: Any, tmp_path: Path, capsys):
    ours, theirs = tmp_path / "ours.hdf5", tmp_path / "theirs.hdf5"
    words = ["rsl_rl", "--task=Isaac-Reach-Franka-v0", "--checkpoint=pretrained", "--format=hdf5"]
    assert cli.main(["record", *words, f"--output={ours}", "--num_episodes=1"]) == 0
    with open_dataset(ours) as dataset:
        arrays, _ = dataset.episode("demo_0")
    file = handler()
    file.open(str(ours))
    assert file.get_env_name() == "Isaac-Reach-Franka-v0"
    episode = file.load_episode("demo_0", "cpu")
    assert np.array_equal(episode.data["actions"].numpy(), arrays["actions"])
    position = episode.get_initial_state()["articulation"]["robot"]["joint_position"]
    first = arrays["initial_state/articulation/robot/joint_position"]
    assert np.array_equal(position.numpy(), first)
    written = handler()
    written.create(str(theirs), env_name=file.get_env_name())
    written.write_episode(episode)
    written.close()
    capsys.readouterr()
    assert cli.main(["replay", str(theirs)]) == 0
    assert "demo_0: 360 actions; all states are as recorded" in capsys.readouterr().out
