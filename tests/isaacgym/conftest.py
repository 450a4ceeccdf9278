"""Tests with a ``backend`` run on MuJoCo, and on Warp's CPU device as a GPU would run them."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["mujoco", "mujoco_warp"])
def backend(request, monkeypatch) -> str:
    """Choose the backend of a test's worlds."""
    if request.param == "mujoco_warp":
        pytest.importorskip("mujoco_warp", reason="needs mujoco-warp: pip install -e '.[warp]'")
    monkeypatch.setattr("envlab_isaacgym.physics.BACKEND", request.param)
    return request.param
