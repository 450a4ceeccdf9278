"""Ranks on several nodes find each other, whatever the nodes' names are and resolve to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents import agent, end
from tests.nodes import Nodes, why_not

WORKER = Path(__file__).with_name("worker_node.py")


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    """Two nodes, joined by a veth pair."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    made = Nodes()
    yield made
    made.close()


@pytest.mark.tools("ip")
def test_nodes_that_only_resolve_their_own_names_meet(nodes: Nodes, tmp_path: Path):
    first, second = nodes.nodes
    endpoints = ["localhost:5555", f"{first.address}:5555"]
    launches = [
        node.launch(agent(number, endpoints[number], WORKER, tmp_path), tmp_path / node.host)
        for number, node in enumerate(nodes.nodes)
    ]
    assert end(launches) == [0, 0], [launch.output for launch in launches]
    ranks = [json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(2)]
    assert [rank["sum"] for rank in ranks] == [3.0] * 2
    places = {(rank["host"], rank["interface"]) for rank in ranks}
    assert places == {(node.host, node.interface) for node in (first, second)}
    expected = "node0 by port0 (10.213.7.1), node1 by port1 (10.213.7.2)"
    assert f"2 nodes meet: {expected}" in launches[0].output
    # Both traps exist: gloo's own choice, and a rendezvous that the other node cannot resolve.
    assert {rank["own address"] for rank in ranks} == {"127.0.1.1"}
    others = [rank for rank in ranks if rank["host"] != rank["master"]]
    assert [rank["master's address"] for rank in others] == [None]
