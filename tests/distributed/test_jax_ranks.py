"""A process's place under skrl's launcher for JAX, as pure functions of its variables."""

from __future__ import annotations

import pytest

from envlab.distributed.ranks import launched_rank, meeting_point, read_ranks
from envlab.errors import LaunchError
from tests.distributed.test_ranks import TORCHRUN

SKRL = {
    "JAX_RANK": "5",
    "JAX_LOCAL_RANK": "1",
    "JAX_WORLD_SIZE": "8",
    "JAX_COORDINATOR_ADDR": "10.0.0.1",
    "JAX_COORDINATOR_PORT": "5000",
    "LOCAL_WORLD_SIZE": "4",
}


def test_ranks_are_those_of_skrls_launcher():
    ranks = {"rank": 5, "local_rank": 1, "world_size": 8, "local_world_size": 4}
    assert read_ranks(True, SKRL) == ranks
    variables = {name: value for name, value in SKRL.items() if name != "LOCAL_WORLD_SIZE"}
    assert read_ranks(True, variables)["local_world_size"] == 8
    assert read_ranks(False, SKRL | {"JAX_WORLD_SIZE": "1"})["world_size"] == 1


def test_ranks_meet_at_the_coordinators_address():
    point = meeting_point(SKRL)
    assert str(point) == "10.0.0.1:5000"
    assert not point.is_kept  # rank 0 keeps the store
    assert "--coordinator_address" in point.hint


def test_variables_that_are_missing_too_many_or_no_numbers_are_refused():
    with pytest.raises(LaunchError, match=r"^skrl\.utils\.distributed\.jax .*8 .*--distributed"):
        read_ranks(False, SKRL)
    for is_distributed in [True, False]:
        with pytest.raises(LaunchError, match=r"Both RANK.* and JAX_RANK.*Use one launcher"):
            read_ranks(is_distributed, TORCHRUN | SKRL)
    variables = {name: value for name, value in SKRL.items() if name != "JAX_LOCAL_RANK"}
    with pytest.raises(LaunchError, match="but JAX_LOCAL_RANK is not set"):
        read_ranks(True, variables)
    for name in ["JAX_RANK", "JAX_WORLD_SIZE"]:
        with pytest.raises(
            LaunchError, match=f"{name} is 'many', but a launcher sets it to a number"
        ):
            read_ranks(True, SKRL | {name: "many"})


def test_the_rank_is_known_before_torch_is_loaded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setenv("JAX_RANK", "3")
    assert launched_rank() == 3
    monkeypatch.setenv("JAX_RANK", "many")
    assert launched_rank() == 0
