"""envlab's torchrun listens on one interface, and ends with the sentence of the failed rank."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import psutil
import pytest
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

from envlab.distributed.torchrun import InterfaceStore, last_words
from tests.launcher import run

SCRIPT = """
import json, os, sys, psutil
from pathlib import Path
from envlab.distributed.program import guarded
from envlab.errors import ConfigurationError

def work(arguments):
    launcher = psutil.Process(os.getppid())
    found = [one.laddr.ip for one in launcher.connections("inet") if one.status == "LISTEN"]
    Path(f"rank{os.environ['RANK']}.json").write_text(json.dumps(found))
    raise ConfigurationError("The colour is 'blue', but must be 'red'.")

raise SystemExit(guarded(work, []))
"""


def test_a_launch_listens_on_one_interface_and_ends_with_our_sentence(tmp_path: Path):
    (tmp_path / "script.py").write_text(SCRIPT)
    launcher = [sys.executable, "-m", "envlab.distributed.torchrun"]
    code, output = run([*launcher, "--nproc_per_node=2", "script.py"], tmp_path)
    assert code == 2
    assert output.splitlines()[-1] == "error: The colour is 'blue', but must be 'red'."
    assert "Traceback" not in output
    found = json.loads((tmp_path / "rank0.json").read_text())
    assert len(found) >= 2  # the agents' store, and the one shared with the workers
    assert set(found) == {"127.0.0.1"}


def test_nodes_that_cannot_meet_are_one_sentence(tmp_path: Path):
    launcher = [sys.executable, "-m", "envlab.distributed.torchrun", "--nnodes=2"]
    where = ["--rdzv_backend=c10d", "--rdzv_endpoint=no-such-node.invalid:29400"]
    code, output = run([*launcher, *where, "--rdzv_conf=read_timeout=1", "script.py"], tmp_path)
    assert code == 1
    last = output.splitlines()[-1]
    assert last.startswith("error: The nodes cannot meet (RendezvousConnectionError: ")
    assert "Traceback" not in output


LAUNCH = """
import sys
from envlab.distributed.torchrun import launch

raise SystemExit(launch(2, ["rank.py", *sys.argv[1:]]))
"""
RANK = """
import os, sys, time

if os.environ["RANK"] == "1":
    print("error: Rank 1 is stopped.", file=sys.stderr, flush=True)
    sys.exit(int(sys.argv[1]))
time.sleep(60)
"""


def test_our_launcher_adds_nothing_to_the_messages_of_the_ranks(tmp_path: Path):
    (tmp_path / "launch.py").write_text(LAUNCH)
    (tmp_path / "rank.py").write_text(RANK)
    ended = run([sys.executable, "launch.py", "75"], tmp_path)
    assert ended == (75, "error: Rank 1 is stopped.\n")


THREADS = """
import os
del os.environ["OMP_NUM_THREADS"]  # the tests' own
from envlab.distributed.torchrun import launch

for count in (2, 1):
    assert launch(count, ["-c", "import os; print(os.environ.get('OMP_NUM_THREADS'))"]) == 0
    assert "OMP_NUM_THREADS" not in os.environ
"""


def test_several_ranks_have_one_thread_without_a_notice_and_only_they(tmp_path: Path):
    (tmp_path / "launch.py").write_text(THREADS)
    assert run([sys.executable, "launch.py"], tmp_path) == (0, "1\n1\nNone\n")


def listening(port: int) -> set[str]:
    found = psutil.Process().connections("inet")
    return {one.laddr.ip for one in found if one.status == "LISTEN" and one.laddr.port == port}


def test_localhost_means_the_loopback_where_no_other_node_joins(monkeypatch: pytest.MonkeyPatch):
    for has_other_nodes in (False, True):
        monkeypatch.setattr(InterfaceStore, "has_other_nodes", has_other_nodes)
        store = InterfaceStore("localhost", 0, is_master=True, wait_for_workers=False)
        assert (listening(store.port) == {"127.0.0.1"}) != has_other_nodes
        again = InterfaceStore("localhost", store.port, is_master=False, wait_for_workers=False)
        again.set("key", "value")
        assert store.get("key") == b"value"
        with pytest.raises(dist.DistError, match="EADDRINUSE"):  # which is torch's to refuse
            InterfaceStore("localhost", store.port, is_master=True, wait_for_workers=False)


def test_the_last_line_says_who_failed_first_and_how():
    traced = "error: Rank 3 (pid 7) ended with exit code 1 (ValueError: no);"
    for exitcode, message, words in [
        (-9, "Signal 9 (SIGKILL) received by PID 7", "error: Rank 3 (pid 7) was ended by SIGKILL."),
        (70, "To enable traceback see: ...", "error: Rank 3 (pid 7) ended with exit code 70."),
        (
            1,
            {"message": "ValueError: no\nmore", "extraInfo": {}},
            f"{traced} its traceback is above.",
        ),
    ]:
        failure = ProcessFailure(local_rank=0, pid=7, exitcode=exitcode, error_file="none")
        failure.message = message
        assert last_words(3, failure) == words
