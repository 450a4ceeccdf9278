"""Hosts that several tests share, with an environment whose torchrun starts nothing."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from envlab import cli
from tests.cluster.hosts import Cluster, why_no_servers
from tests.launcher import ROOT

FAKE_PYTHON = """#!/bin/bash
# Stands in for torchrun: writes down its words, lays out its logs, and waits to be ended.
[ "$2" = envlab.distributed.torchrun ] || exec '{python}' "$@"
for word in "$@"; do
    case $word in --log_dir=*) ranks=${{word#*=}} ;; esac
done
printf '%s\\0' "$@" >"${{ranks%/ranks}}/words"
[ ! -e "$HOME/fails" ] || {{ echo "no such device"; exit 9; }}
while [ -e "$HOME/alone" ]; do sleep 0.1; done
echo "[rank 0] training"
mkdir -p "$ranks/none/attempt_0/0" # by which it has started
[ ! -e "$HOME/stubborn" ] || trap '' TERM
while [ ! -e "$HOME/enough" ]; do sleep 0.1; done
echo "[rank 0] trained"
"""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests that start ssh servers, by their fixtures, with the tools that these need."""
    fixtures = set(getattr(item, "fixturenames", ()))
    if fixtures & {"servers", "single"}:
        item.add_marker(pytest.mark.tools("rsync", "ssh", "ssh-keygen", "sshd"))


@pytest.fixture(scope="session")
def fake_environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The activation script of an environment whose ``envlab.distributed.torchrun`` only waits."""
    folder = tmp_path_factory.mktemp("environment")
    python = folder / "python"
    python.write_text(FAKE_PYTHON.format(python=sys.executable))
    python.chmod(0o755)
    (folder / "activate").write_text(f"export PATH='{folder}':$PATH\n")
    return folder / "activate"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder, on a machine without schedulers' commands."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Commander:
    """Commands hosts from this process."""

    def __init__(self, cluster: Cluster, activate: Path, capsys: pytest.CaptureFixture) -> None:
        self.cluster, self._activate, self._capsys = cluster, activate, capsys

    def __call__(
        self,
        verb: str,
        *words: str | Path,
        ends: int = 0,
        cwd: Path = ROOT,
        ssh_cmd: str | None = None,
    ) -> str:
        """Run ``envlab cluster VERB``, which must end with a code; return its output."""
        flags = [f"--ssh_cmd={ssh_cmd or self.cluster.ssh_cmd}"]
        given = [str(word) for word in words]
        names_run = verb in ("status", "kill") or "--run" in given
        if not names_run and not any(word.startswith("--hosts") for word in given):
            flags.append(f"--hosts={self.cluster.folder / 'hosts.yaml'}")
        if verb == "launch" and not any(word.startswith("--env_activate") for word in given):
            flags.append(f"--env_activate_path={self._activate}")
        with contextlib.chdir(cwd):
            code = cli.main(["cluster", verb, *flags, *given])
        captured = self._capsys.readouterr()
        output = captured.out + captured.err
        assert code == ends, output
        return output

    def launch(
        self, tree: Path, *flags: str | Path, more: Sequence[str] = (), **options: Any
    ) -> str:
        """Start the environment's torchrun on the hosts, detached."""
        words = ["rsl_rl", "--task=Isaac-Cartpole-v0", *more]
        return self("launch", "--detach", *flags, *words, cwd=tree, **options)

    def words_of(self, number: int) -> list[str]:
        """Return the words that the last launch gave to torchrun on a host."""
        (file,) = self.cluster.hosts[number].home.rglob("words")
        return file.read_text().split("\0")[:-1]


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three ssh servers on the loopback."""
    reason = why_no_servers()
    if reason is not None:
        pytest.skip(reason)
    cluster = Cluster(tmp_path_factory.mktemp("servers"), 3)
    yield cluster
    cluster.close()


@pytest.fixture
def command(
    servers: Cluster,
    fake_environment: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Commander]:
    """Commands three hosts; nothing may be left on them."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield Commander(servers, fake_environment, capsys)
    left = servers.living()
    servers.end_all()
    for host in servers.hosts:
        shutil.rmtree(host.home)
        host.home.mkdir()
    shutil.rmtree(servers.state, ignore_errors=True)
    assert left == {}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small git working tree with a training script."""
    folder = tmp_path / "tree"
    script = folder / "scripts/reinforcement_learning/rsl_rl/train.py"
    script.parent.mkdir(parents=True)
    script.write_text("print('never run')\n")
    (folder / ".gitignore").write_text("*.secret\n")
    (folder / "a.secret").write_text("not to be sent\n")
    (folder / "large.txt").write_text("0123456789" * 10_000)
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder
