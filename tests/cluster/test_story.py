"""The whole story with Isaac-Cartpole-v0: three hosts with networks of their own, and one host."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.hosts import Cluster, wait_for, why_no_namespaces, why_no_servers
from tests.launcher import ROOT
from tests.trained import manifest_of, metrics_of, only_run

TRAIN = [
    *("rsl_rl", "--task=Isaac-Cartpole-v0", "--headless", "--device=cpu", "--num_envs=16"),
    *("env.sim.num_threads=1", "agent.save_interval=2", "agent.algorithm.num_learning_epochs=1"),
    "agent.algorithm.num_mini_batches=1",
]


@pytest.fixture
def single(tmp_path: Path) -> Iterator[Cluster]:
    """One ssh server on the loopback."""
    reason = why_no_servers()
    if reason is not None:
        pytest.skip(reason)
    cluster = Cluster(tmp_path, 1, namespaces=False)
    yield cluster
    cluster.close()


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Cluster]:
    """Three hosts on a bridge."""
    reason = why_no_namespaces()
    if reason is not None:
        pytest.skip(reason)
    cluster = Cluster(tmp_path, 3, namespaces=True)
    yield cluster
    cluster.close()


def test_two_processes_on_one_host_to_the_end(single: Cluster):
    words = ["--fetch", "--nproc_per_node=2", *TRAIN, "--max_iterations=2"]
    # Sent from here, and brought back to where the command runs: a clone of its own.
    code, output = single.run("launch", *words, cwd=clone(single.folder))
    assert code == 0, output
    run = only_run(single.folder / "clone")
    manifest = manifest_of(run)
    assert (manifest["status"], manifest["world"]["size"]) == ("finished", 2)
    assert [record["iteration"] for record in metrics_of(run)] == [1, 2]
    assert (run / "checkpoints/model_2.pt").is_file()
    assert re.search(r"^host0 \| \[rank 0\] Writing to ", output, re.MULTILINE), output
    assert f"Run directory: {run.relative_to(single.folder / 'clone')}" in output
    code, output = single.run("status")
    assert code == 0
    assert "finished: iteration 2, " in output
    assert single.living() == {}


def clone(folder: Path) -> Path:
    """Return a private copy of this working tree, as git has it."""
    target = folder / "clone"
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    for name in names:
        if name.startswith(("envlab/", "source/", "scripts/", ".gitignore")):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    subprocess.run(["git", "init", "-q"], cwd=target, check=True)
    return target


def table(output: str) -> dict[str, list[str]]:
    """Return the words of each host's first row in the table of ``status``."""
    rows = [line.split() for line in output.splitlines() if re.match(r"host\d", line)]
    return {row[0]: row[1:] for row in rows if ":" not in row[0]}


@pytest.mark.slow
@pytest.mark.long  # the short suite has one host to its end, and faults of several
def test_three_hosts_from_setup_to_kill(three: Cluster):
    tree = clone(three.folder)
    script = three.folder / "configure.sh"
    script.write_text("echo DONE\n")
    code, output = three.run("setup", f"--config_script={script}", "--wait")
    assert code == 0, output

    endless = [*TRAIN, "--max_iterations=100000"]
    attending = three.start("launch", *endless, cwd=tree)
    at_first = three.hosts[0].path
    wait_for_iteration(three, at_first, 3)
    wait_for_beats(three, at_first)
    code, output = three.run("status")
    assert code == 0
    assert re.search(r"running: iteration \d+, \d+ frames, \d+ frames per second", output), output
    rows = table(output)
    assert [rows[f"host{number}"][:2] for number in range(3)] == [
        [str(number), "running"] for number in range(3)
    ]
    code, output = three.run("command", "hostname; ls -d envlab-cluster/logs 2>/dev/null; true")
    assert code == 0
    assert [line for line in output.splitlines() if line] == [
        *("== host0", "host0", "envlab-cluster/logs", "== host1", "host1", "== host2", "host2")
    ]

    cut = three.hosts[2].node
    assert cut is not None
    cut.ip("link", "set", "eth0", "down")
    first = only_run(at_first)
    wait_for(lambda: manifest_of(first)["status"] == "failed")
    assert re.search(r"Rank 2 \(host host2, pid \d+\)", manifest_of(first)["error"])
    code, output = three.run("status", "--connect_timeout_s=2")
    assert code == 1
    assert table(output)["host2"][:2] == ["2", "unreachable"], output
    assert "error: Rank 2 (host host2" in " ".join(output.split())
    attending.wait_until(lambda: "host2 | out of sight, trying again" in attending.output)
    cut.ip("link", "set", "eth0", "up")
    assert attending.wait(90.0) == 1, attending.output  # after the last lines of host2, too
    assert "host2 | in sight again" in attending.output
    assert "host2: exit code 1" in attending.output
    assert three.living() == {}
    code, output = three.run("kill", "--yes")
    assert code == 0, output
    assert output.count("nothing was running") == 3

    code, output = three.run("launch", "--detach", *endless, "--resume", cwd=tree)
    assert code == 0, output
    wait_for(lambda: len(list(at_first.glob("logs/*/*/*/metrics.jsonl"))) == 2)
    (second,) = {path.parent for path in at_first.glob("logs/*/*/*/run.json")} - {first}
    manifest = manifest_of(second)
    assert Path(manifest["resumed_from"]).is_relative_to(first)
    assert manifest["world"]["size"] == 3
    code, output = three.run("kill", "--yes")
    assert code == 0, output
    assert output.count("nothing is left") == 3
    assert three.living() == {}
    assert manifest_of(second)["status"] == "preempted"
    assert not list(three.state.rglob("*.json"))
    for host in three.hosts[1:]:  # rank 0 alone wrote
        assert not list(host.home.rglob("logs/*/*/*/run.json"))


def wait_for_iteration(cluster: Cluster, folder: Path, iteration: int) -> None:
    """Wait until a run reaches an iteration; on failure, show its hosts' output."""
    try:
        wait_for(
            lambda: [
                path
                for path in folder.glob("logs/*/*/*/metrics.jsonl")
                if len(path.read_text().splitlines()) >= iteration
            ]
        )
    except AssertionError as error:
        logs = [path.read_text() for host in cluster.hosts for path in host.home.rglob("log.txt")]
        raise AssertionError("\n".join([str(error), *logs])) from None


def wait_for_beats(cluster: Cluster, folder: Path) -> None:
    """Wait until the watchdog has written the heartbeats of three ranks."""

    def ranks() -> list[Any]:
        files = folder.glob("logs/*/*/*/heartbeats.json")
        return [one for file in files for one in json.loads(file.read_text())["ranks"]]

    wait_for(lambda: len(ranks()) == len(cluster.hosts))
