"""``envlab view --terrain``: the picture of a task's ground."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from envlab.cli import main

ROUGH = ["--task=Isaac-Velocity-Rough-Unitree-Go2-v0"]
GROUND = "env.scene.terrain.terrain_generator"


@pytest.mark.long
def test_the_ground_is_drawn_without_the_robot(tmp_path: Path, capsys):
    small = [f"{GROUND}.num_rows=2", f"{GROUND}.num_cols=10", f"{GROUND}.border_width=1"]
    shown = []
    for kind in (f"{GROUND}.sub_terrains.boxes=null", f"{GROUND}.sub_terrains.boxes.proportion=9"):
        path = tmp_path / "ground.png"
        assert main(["view", "--terrain", *ROUGH, f"--output={path}", *small, kind]) == 0
        shown.append(imread(path))
    assert shown[0].shape[:2] == (720, 1280)
    assert np.abs(shown[0] - shown[1]).max() > 0.1
    told = capsys.readouterr().out
    # Without boxes, 0.2 of 0.8 are stairs up: three of ten columns begin below 0.25, of two tiles.
    assert "pyramid_stairs                     6" in told
    assert "boxes                             18" in told
