"""Tests with a ``backend`` run on MuJoCo, and on Warp's CPU device as a GPU would run them."""

from __future__ import annotations

import pytest

ON_BOTH = (
    "test_root_states_are_xyzw_and_in_the_world_frame",
    "test_masses_differ_between_environments_in_one_model",
    "test_actors_of_one_build_may_have_a_size_and_weight_of_their_own_in_each_environment",
)
"""Of each kind of call one: Isaac Gym's names are the same code on both."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Leave most of what runs on Warp to the night."""
    if "mujoco_warp" in item.name and item.name.partition("[")[0] not in ON_BOTH:
        item.add_marker(pytest.mark.long)


@pytest.fixture(params=["mujoco", "mujoco_warp"])
def backend(request, monkeypatch) -> str:
    """Choose the backend of a test's worlds."""
    if request.param == "mujoco_warp":
        pytest.importorskip("mujoco_warp", reason="needs mujoco-warp: pip install -e '.[warp]'")
    monkeypatch.setattr("envlab_isaacgym.physics.BACKEND", request.param)
    return request.param
