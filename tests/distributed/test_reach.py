"""A meeting point that does not answer is told in a sentence: what was tried and what helps."""

from __future__ import annotations

import socket
from datetime import timedelta

import pytest

from envlab.distributed import reach
from envlab.distributed.ranks import MeetingPoint
from envlab.distributed.reach import open_store
from envlab.errors import LaunchError
from tests.agents import dead_port, free_port

TIMEOUT = timedelta(seconds=0.4)


@pytest.fixture
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "PATIENCE_S", 0.2)
    monkeypatch.setattr(reach, "REACH_S", 0.4)


def point(host: str, port: int, *, is_kept: bool) -> MeetingPoint:
    return MeetingPoint(host, port, is_kept, "id", "Do this.")


@pytest.mark.usefixtures("in_a_hurry")
@pytest.mark.parametrize(
    ("host", "reason"),
    [("127.0.0.1", "Connection refused"), ("no-such-node.invalid", "Name or service|resolution")],
)
def test_a_place_that_does_not_answer_is_named_with_the_reason(host: str, reason: str):
    expected = (
        rf"Rank 1 on {socket.gethostname()} cannot reach .* at {host}:\d+ .*{reason}.* Do this"
    )
    with dead_port() as port, pytest.raises(LaunchError, match=expected):
        open_store(point(host, port, is_kept=True), 1, TIMEOUT)


@pytest.mark.usefixtures("in_a_hurry")
def test_rank_0_is_waited_for_where_it_keeps_the_store(caplog: pytest.LogCaptureFixture):
    with dead_port() as port, pytest.raises(LaunchError, match="Connection refused"):
        open_store(point("127.0.0.1", port, is_kept=False), 1, TIMEOUT)
    assert "Waiting for rank 0, which does not answer" in caplog.text


def test_rank_0_keeps_no_store_at_an_address_of_another_node():
    with pytest.raises(LaunchError, match=r"Rank 0 .* does not have that address .* Do this"):
        open_store(point("192.0.2.1", free_port(), is_kept=False), 0, TIMEOUT)


def test_a_port_that_is_taken_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = point("127.0.0.1", taken.getsockname()[1], is_kept=False)
        with pytest.raises(LaunchError, match=r"already in use.* Do this"):
            open_store(place, 0, TIMEOUT)


def test_ranks_share_what_they_store():
    place = point("127.0.0.1", free_port(), is_kept=False)
    timeout = timedelta(seconds=10.0)
    kept = open_store(place, 0, timeout)
    open_store(place, 1, timeout).set("key", "from rank 1")
    assert kept.get("key") == b"from rank 1"
