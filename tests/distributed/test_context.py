"""Where a process is: ranks and devices as pure functions, and collectives on two real ranks."""

from __future__ import annotations

import socket
from typing import Any

import pytest
import torch

from envlab.distributed.context import (
    DistributedContext,
    check_distinct_gpus,
    resolve_device,
)
from envlab.errors import DeviceError, LaunchError


def test_device_of_a_process():
    for requested, local_rank, num_local, num_gpus, device in [
        (None, 0, 1, 0, "cpu"),
        (None, 3, 4, 0, "cpu"),
        ("cpu", 3, 4, 8, "cpu"),
        (None, 0, 1, 8, "cuda:0"),
        (None, 2, 4, 8, "cuda:2"),
        ("cuda", 3, 4, 4, "cuda:3"),
        ("cuda:5", 0, 1, 8, "cuda:5"),
        # Slurm shows each process a different GPU.
        (None, 3, 4, 1, "cuda:0"),
        ("cuda", 3, 4, 1, "cuda:0"),
    ]:
        assert resolve_device(requested, local_rank, num_local, num_gpus) == torch.device(device)


def test_an_unavailable_device_is_refused():
    for requested, num_local, num_gpus, message in [
        ("tpu", 1, 1, "'tpu', but must be cpu, cuda or cuda:<index>"),
        ("cuda:x", 1, 1, "'cuda:x', but must be"),
        ("cpu:1", 1, 1, "'cpu:1', but must be"),
        ("cuda", 1, 0, "sees no CUDA device.*--device cpu"),
        ("cuda:1", 2, 4, "2 processes run on this node and each needs its own GPU"),
        ("cuda:4", 1, 4, "cuda:4 is needed, but torch sees 4 GPUs"),
        (None, 8, 4, "8 processes .* sees 4 GPUs. Start at most 4"),
    ]:
        with pytest.raises(DeviceError, match=message):
            resolve_device(requested, 0, num_local, num_gpus)


def test_ranks_that_share_a_gpu_are_refused_with_both_numbers():
    check_distinct_gpus([("a", "g0"), ("a", "g1"), ("b", "g0")])
    gpus = [("a", "g0"), ("b", "g0"), ("b", "g1"), ("b", "g1")]
    with pytest.raises(DeviceError, match=r"3 processes run on node b, .* only 2 different GPUs"):
        check_distinct_gpus(gpus)


def test_a_lone_process_agrees_with_itself():
    context = DistributedContext.single("cpu")
    assert context.broadcast(3) == 3
    assert context.gather(3) == context.gather_to_main(3) == [3]
    assert context.sum(torch.tensor(3.0)) == 3.0
    context.close()


def test_a_lone_process_is_pinned_to_the_gpu_that_was_asked_for(monkeypatch):
    """Otherwise, libraries that take "cuda" use cuda:0."""
    chosen: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    assert DistributedContext.single("cuda:1").device == torch.device("cuda:1")
    assert chosen == [torch.device("cuda:1")]


def test_ranks_know_their_places_and_share_the_cores(pair: list[dict[str, Any]]):
    places = [rank["collectives"]["context"] for rank in pair]
    assert places == [(0, 0, 2, "gloo"), (1, 1, 2, "gloo")]
    for rank in pair:
        threads, used = rank["collectives"]["threads"]
        assert threads == used >= 1


def test_collectives_bring_every_rank_the_same_and_leave_arguments_alone(
    pair: list[dict[str, Any]],
):
    for rank in pair:
        assert rank["collectives"]["broadcast"] == {"from": 0}
        assert rank["collectives"]["gather"] == ["rank 0", "rank 1"]
        assert rank["collectives"]["sum"] == 3.0
        assert rank["collectives"]["gather_more_than_room"] == [
            [b"\0" * sizes[0], b"\1" * sizes[1]]
            for sizes in [(0, 0), (100, 100), (0, 10_000)]
            for _ in range(3)
        ]
    assert [rank["collectives"]["gather_to_main"] for rank in pair] == [[0, 10], None]
    assert [rank["collectives"]["summand"] for rank in pair] == [1.0, 2.0]


def test_a_silent_program_where_the_ranks_meet_is_reported_within_the_timeout(
    monkeypatch: pytest.MonkeyPatch,
):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        ranks = {"RANK": 1, "LOCAL_RANK": 1, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}
        for name, value in {**ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}.items():
            monkeypatch.setenv(name, str(value))
        monkeypatch.setattr(torch, "set_num_threads", lambda number: None)
        message = rf"Rank 1 .* at 127\.0\.0\.1:{port} .* no answer came for 1 s: another program"
        with pytest.raises(LaunchError, match=message):
            DistributedContext.create(True, "cpu", timeout_s=1.0)
