"""Hosts for tests: real OpenSSH servers, each with a key, a port and a home folder of its own.

All are on the loopback, which any user may have. Processes and files are this machine's.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.agents import free_port
from tests.launcher import ROOT, Launch
from tests.system_tools import find

ACTIVATE = Path(sys.prefix, "bin/activate")
DEADLINE_S = 240.0
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
                self.hosts.append(self._make_host(number))
            for host in self.hosts:
                self.serve(host)
            self._write_files()
        except BaseException:
            self.close()
            raise

    def _make_host(self, number: int) -> TestHost:
        name, home = f"host{number}", self.folder / f"home{number}"
        home.mkdir()
        return TestHost(name, "127.0.0.1", free_port(), home)

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
        command: Sequence[str | Path] = [program, "-D", "-e", "-f", folder / "sshd_config"]
        with (folder / "log.txt").open("wb") as log:
            host.server = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        end = time.monotonic() + 15.0
        while "Server listening" not in (folder / "log.txt").read_text():
            assert host.server.poll() is None, (folder / "log.txt").read_text()
            assert time.monotonic() < end, "sshd did not come up"
            time.sleep(0.02)

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
        self,
        verb: str,
        *words: str | Path,
        cwd: Path = ROOT,
        ssh_cmd: str | None = None,
        terminal: str = "/dev/null",
    ) -> Launch:
        """Start ``envlab cluster VERB`` on the machine that commands the hosts."""
        command: list[str | Path] = [sys.executable, "-m", "envlab.cli", "cluster", verb]
        command += [f"--ssh_cmd={ssh_cmd or self.ssh_cmd}"]
        if verb in ("setup", "launch") or (verb == "command" and "--run" not in words):
            command += [f"--hosts={self.folder / 'hosts.yaml'}"]
        variables = [f"XDG_STATE_HOME={self.state}", f"HOME={self.folder}", "PYTHONUNBUFFERED=1"]
        folder = self.folder / "outputs"
        folder.mkdir(exist_ok=True)
        run_in = ["sh", "-c", f'cd "$0" && exec "$@" <{terminal}', str(cwd)]
        launch = Launch(["env", *variables, *run_in, *command, *words], folder)
        self._launches.append(launch)
        return launch

    def run(
        self,
        verb: str,
        *words: str | Path,
        deadline_s: float = DEADLINE_S,
        cwd: Path = ROOT,
        ssh_cmd: str | None = None,
    ) -> tuple[int, str]:
        """Run ``envlab cluster VERB`` to its end; return its exit code and output."""
        launch = self.start(verb, *words, cwd=cwd, ssh_cmd=ssh_cmd)
        return launch.wait(deadline_s), launch.output

    def living(self) -> dict[int, str]:
        """Return the processes of launches on these hosts, each with a description."""
        found = {}
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if not entry.name.isdigit():
                    continue
                variables = (entry / "environ").read_bytes().split(b"\0")
                homes = {f"HOME={host.home}".encode() for host in self.hosts}
                if homes & set(variables) and any(
                    word.startswith(b"ENVLAB_CLUSTER_RUN=") for word in variables
                ):
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
            if host.server is not None:
                host.server.terminate()
                host.server.wait(10)


def wait_for(condition: Callable[[], object], deadline_s: float = DEADLINE_S) -> None:
    """Wait for a condition outside this process's launches; fail if it takes too long."""
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, f"waited {deadline_s} s in vain"
        time.sleep(0.05)


def unmount(folder: Path) -> None:
    """Unmount a disk, which processes that just ended may still hold for a moment."""
    end = time.monotonic() + 5.0
    while subprocess.run(["umount", str(folder)], capture_output=True).returncode != 0:
        assert time.monotonic() < end, f"{folder} cannot be unmounted"
        time.sleep(0.1)


def _keygen(file: Path) -> None:
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file)]
    subprocess.run(words, check=True, timeout=30)
