"""A process's place in its launch, as pure functions of its variables."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import psutil
import pytest

from envlab.distributed import ranks
from envlab.distributed.ranks import (
    launched_rank,
    meeting_point,
    read_ranks,
    restartable_launch,
    slurm_job,
)
from envlab.errors import LaunchError
from tests.refusals import check_refusals

TORCHRUN = {
    **{"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"},
    **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"},
}
SKRL = {
    **{"JAX_RANK": "5", "JAX_LOCAL_RANK": "1", "JAX_WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"},
    **{"JAX_COORDINATOR_ADDR": "10.0.0.1", "JAX_COORDINATOR_PORT": "5000"},
}
"""The variables of its launcher for JAX."""


def without(name: str, variables: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in variables.items() if key != name}


def test_ranks_are_those_of_the_launcher():
    ranks = {"rank": 5, "local_rank": 1, "world_size": 8, "local_world_size": 4}
    assert read_ranks(True, TORCHRUN) == read_ranks(True, SKRL) == ranks
    assert read_ranks(True, without("LOCAL_WORLD_SIZE", SKRL))["local_world_size"] == 8
    assert read_ranks(False, TORCHRUN | {"WORLD_SIZE": "1"})["world_size"] == 1
    assert read_ranks(False, SKRL | {"JAX_WORLD_SIZE": "1"})["world_size"] == 1
    ranks = {"rank": 0, "local_rank": 0, "world_size": 1, "local_world_size": 1}
    assert read_ranks(False, {}) == ranks


def test_a_launch_and_its_flag_belong_together_and_variables_are_whole():
    both, jax = TORCHRUN | SKRL, r"^skrl\.utils\.distributed\.jax .*8 .*--distributed"
    number = "is 'many', but a launcher sets it to a number"
    check_refusals(
        read_ranks,
        [
            (True, {}, r"RANK.*torch\.distributed\.run.*--distributed"),
            (True, without("MASTER_PORT", TORCHRUN), "but MASTER_PORT is not set"),
            (True, without("JAX_LOCAL_RANK", SKRL), "but JAX_LOCAL_RANK is not set"),
            (False, TORCHRUN, r"8 .*--distributed"),
            (False, SKRL, jax),
            (True, both, r"Both RANK.* and JAX_RANK.*Use one launcher"),
            (False, both, r"Both RANK.* and JAX_RANK.*Use one launcher"),
            (True, SKRL | {"JAX_RANK": "many"}, f"JAX_RANK {number}"),
            (True, SKRL | {"JAX_WORLD_SIZE": "many"}, f"JAX_WORLD_SIZE {number}"),
        ],
        LaunchError,
    )


def test_the_rank_is_known_before_torch_is_loaded(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    for name, value, rank in [("JAX_RANK", "3", 3), ("JAX_RANK", "many", 0), ("RANK", "4", 4)]:
        monkeypatch.setenv(name, value)
        assert launched_rank() == rank
        monkeypatch.delenv(name)
    assert launched_rank() == 0
    probe = "import sys, envlab.distributed.ranks; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", probe], check=True, timeout=60)


def started_by(monkeypatch: pytest.MonkeyPatch, *lines: list[str]) -> None:
    """Make it look as if processes with these command lines had started this one."""
    parents = [SimpleNamespace(cmdline=lambda line=line: line) for line in lines]
    this = SimpleNamespace(parents=lambda: parents)
    monkeypatch.setattr(psutil, "Process", lambda: this)


AGENT = ["python", "-m", "torch.distributed.run", "--nnodes=2", "--rdzv_backend=c10d"]
KEPT = TORCHRUN | {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RUN_ID": "id"}


def test_ranks_of_several_nodes_meet_where_their_agents_have_met(monkeypatch: pytest.MonkeyPatch):
    for words, variables, place in [
        (["--rdzv_endpoint=node0:5555", "train.py"], KEPT, "node0:5555"),
        (["--rdzv-endpoint", "10.0.0.1:5555", "train.py"], KEPT, "10.0.0.1:5555"),
        (["--rdzv_endpoint=node0", "train.py"], KEPT, "node0:29400"),
        (["train.py"], KEPT | {"PET_RDZV_ENDPOINT": "node0:1234"}, "node0:1234"),
        # No endpoint, a port that the agent chose, or one node: torch's behaviour.
        (["train.py"], KEPT, "127.0.0.1:1"),
        (["--rdzv_endpoint=localhost:0", "train.py"], KEPT, "127.0.0.1:1"),
        (["--rdzv_endpoint=node0:5555"], KEPT | {"LOCAL_WORLD_SIZE": "8"}, "127.0.0.1:1"),
        (["--rdzv_endpoint=node0:5555"], TORCHRUN, "127.0.0.1:1"),
    ]:
        started_by(monkeypatch, ["sh"], [*AGENT, *words])
        assert str(meeting_point(variables)) == place


def test_a_launch_is_known_through_its_restarts_and_from_others_of_the_same_name():
    def launch(folder: str, attempt: int) -> str | None:
        return restartable_launch(
            {"TORCHELASTIC_ERROR_FILE": f"{folder}/attempt_{attempt}/0/error.json"}
        )

    assert launch("/tmp/torchelastic_a/id_b", 0) == launch("/tmp/torchelastic_a/id_b", 1)
    assert launch("/tmp/torchelastic_a/id_b", 0) != launch("/tmp/torchelastic_c/id_d", 0)
    assert restartable_launch({}) is None


def test_a_slurm_job_is_named_whatever_its_command_line_holds(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ranks.sys, "argv", ["train.py", "--run_name=caf\udce9"])  # as in Latin-1
    assert (slurm_job({"SLURM_JOB_ID": "7"}) or "").startswith("slurm:7:")


def test_agents_of_another_rendezvous_give_no_meeting_point(monkeypatch: pytest.MonkeyPatch):
    words = ["torchrun", "--rdzv_backend=etcd", "--rdzv_endpoint=node0:2379", "train.py"]
    started_by(monkeypatch, words)
    assert str(meeting_point(KEPT)) == "127.0.0.1:1"


def test_ranks_of_skrls_launcher_meet_at_the_coordinators_address():
    point = meeting_point(SKRL)
    assert str(point) == "10.0.0.1:5000"
    assert not point.is_kept  # rank 0 keeps the store
    assert "--coordinator_address" in point.hint
