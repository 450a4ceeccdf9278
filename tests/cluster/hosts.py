"""Hosts for tests: real OpenSSH servers, each with its own key, port and home folder.

All are on the loopback, which any user may have. Processes and files are this machine's.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.agents import free_port
from tests.launcher import DEADLINE_S, ROOT, Launch
from tests.system_tools import find

ACTIVATE = Path(sys.prefix, "bin/activate")
CHEAP_KEYS = "KexAlgorithms=curve25519-sha256"
"""OpenSSH's default, NTRU Prime, takes 0.1 s of a core more at both ends of each connection."""


def why_no_servers() -> str | None:
    """Return why no ssh servers can be started here, None if they can."""
    if not ACTIVATE.exists():
        return f"{sys.prefix} is no virtual environment that a host could activate"
    return None


@dataclass
class TestHost:
    """A host: its server, and the place of its files."""

    __test__ = False
    name: str
    address: str
    port: int
    home: Path
    server: subprocess.Popen[bytes] | None = None

    @property
    def path(self) -> Path:
        return self.home / "envlab-cluster"


class Cluster:
    """Some hosts, the machine that commands them, and its ``hosts.yaml``; ``close`` ends it all."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder = folder
        self.key = folder / "key"
        self._launches: list[Launch] = []
        self.hosts: list[TestHost] = []
        try:
            _keygen(self.key)
            for number in range(count):
                home = folder / f"home{number}"
                home.mkdir()
                self.hosts.append(TestHost(f"host{number}", "127.0.0.1", free_port(), home))
                self.serve(self.hosts[-1])
            self._write_files()
        except BaseException:
            self.close()
            raise

    def serve(self, host: TestHost) -> None:
        """Start a host's server, and wait until it answers."""
        folder = self.folder / f"sshd_{host.name}"
        if not folder.exists():
            folder.mkdir()
            _keygen(folder / "host_key")
        (folder / "sshd_config").write_text(
            f"ListenAddress {host.address}:{host.port}\n"
            f"HostKey {folder}/host_key\nAuthorizedKeysFile {self.key}.pub\nPidFile none\n"
            f"StrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n"
            f"KbdInteractiveAuthentication no\nSetEnv HOME={host.home}\nMaxStartups 100\n"
        )
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        program = find("sshd")  # absolute, as it wants to be called
        assert program is not None
        command = [program, "-D", "-E", folder / "log.txt", "-f", folder / "sshd_config"]
        (folder / "log.txt").write_text("")
        host.server = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
        wait_for(lambda: "Server listening" in (folder / "log.txt").read_text(), 15.0)

    def _write_files(self) -> None:
        lines = []
        for host in self.hosts:
            public = (self.folder / f"sshd_{host.name}/host_key.pub").read_text()
            lines.append(f"[{host.address}]:{host.port} {public}")
        (self.folder / "known_hosts").write_text("".join(lines))
        entries = [
            f"  - {{name: {host.name}, address: {host.address}, port: {host.port}}}\n"
            for host in self.hosts
        ]
        (self.folder / "hosts.yaml").write_text(
            f"key: {self.key}\nenv_activate_path: {ACTIVATE}\nhosts:\n{''.join(entries)}"
        )

    @property
    def ssh_cmd(self) -> str:
        known = f"UserKnownHostsFile={self.folder / 'known_hosts'}"
        return f"ssh -F none -o {CHEAP_KEYS} -o {known} -o StrictHostKeyChecking=yes {{addr}}"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def start(
        self, verb: str, *words: str | Path, cwd: Path = ROOT, terminal: str = "/dev/null"
    ) -> Launch:
        """Start ``envlab cluster VERB`` on the machine that commands the hosts."""
        command: list[str | Path] = [sys.executable, "-m", "envlab.cli", "cluster", verb]
        command += [f"--ssh_cmd={self.ssh_cmd}"]
        if verb in ("setup", "launch") or (verb == "command" and "--run" not in words):
            command += [f"--hosts={self.folder / 'hosts.yaml'}"]
        variables = [f"XDG_STATE_HOME={self.state}", f"HOME={self.folder}", "PYTHONUNBUFFERED=1"]
        folder = self.folder / "outputs"
        folder.mkdir(exist_ok=True)
        run_in = ["sh", "-c", f'cd "$0" && exec "$@" <{terminal}', str(cwd)]
        launch = Launch(["env", *variables, *run_in, *command, *words], folder)
        self._launches.append(launch)
        return launch

    def living(self) -> dict[int, str]:
        """Return the processes of launches on these hosts, each with a description."""
        found, homes = {}, {f"HOME={host.home}".encode() for host in self.hosts}
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                variables = (entry / "environ").read_bytes().split(b"\0")
                is_of_run = any(word.startswith(b"ENVLAB_CLUSTER_RUN=") for word in variables)
                if is_of_run and homes & set(variables):
                    words = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(entry.name)] = words.decode()[:200]
        return found

    def end_all(self) -> None:
        """Kill all processes on the hosts."""
        for pid in self.living():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        """End servers, launches and all that they started; remove the network."""
        for launch in self._launches:
            launch.close()
        self.end_all()
        for host in self.hosts:
            self.stop(host)

    def stop(self, host: TestHost) -> None:
        """End a host's server."""
        if host.server is not None:
            host.server.terminate()
            host.server.wait(10)


def wait_for(condition: Callable[[], object], deadline_s: float = DEADLINE_S) -> None:
    """Wait for a condition outside this process's launches; fail if it takes too long."""
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, f"waited {deadline_s} s in vain"
        time.sleep(0.05)


@contextlib.contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    """Mount a new folder as a disk in memory, or skip the test where that is not allowed."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    made = subprocess.run(mount, capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip(f"such a disk cannot be mounted here ({made.stderr.strip()})")
    yield folder
    # Processes that just ended may hold it for a moment.
    wait_for(lambda: subprocess.run(["umount", folder], capture_output=True).returncode == 0, 5.0)


def _keygen(file: Path) -> None:
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file)]
    subprocess.run(words, check=True, timeout=30)
