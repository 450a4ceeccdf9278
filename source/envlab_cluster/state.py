"""The state of each launch: one JSON file per run, which any later terminal finds."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from pathlib import Path

from envlab.errors import ConfigurationError, LaunchError, did_you_mean
from envlab_cluster.hosts import Host

VERSION = 1


@dataclass(kw_only=True)
class Node:
    """A host's part in a run."""

    host: Host
    node_rank: int
    path: str
    """The host's folder for snapshots, runs and logs, absolute."""
    folder: str
    """The host's folder of this run: ``run.sh``, ``log.txt``, ``pid``, ``exit_code``,
    ``ranks/``."""
    first_rank: int = 0
    """The node's lowest rank; torchrun numbers ranks node by node."""
    num_processes: int = 1
    local_address: str = ""
    pid: int | None = None
    """The process that leads the run's session on the node."""
    ticks: str = ""
    """When it started, in clock ticks since that host's boot."""
    exit_code: int | None = None


@dataclass(kw_only=True)
class RunState:
    """A launch."""

    id: str
    command: list[str]
    """The words after torchrun's own."""
    run_id: str
    """The training's name: its ``--run_id``."""
    ssh_cmd: str
    created_at: str = ""
    endpoint: str = ""
    """Address and port of the rendezvous."""
    snapshot: str = ""
    nodes: list[Node] = field(default_factory=list)
    status: str = "starting"
    """``starting``, ``running``, ``ended``."""

    def token(self, node: Node) -> str:
        """Return the name that a node's processes have in their environment."""
        return f"{self.id}/{node.node_rank}"

    def node_of(self, host: Host) -> Node:
        """Return a host's part."""
        return next(node for node in self.nodes if node.host == host)

    @property
    def hosts(self) -> list[Host]:
        """Return the hosts in the order of their ranks."""
        return [node.host for node in self.nodes]

    @property
    def host_names(self) -> str:
        """Return the hosts' names, for messages."""
        return ", ".join(host.name for host in self.hosts)

    @property
    def file(self) -> Path:
        """Return its state file."""
        return state_folder() / f"{self.id}.json"

    def save(self) -> None:
        """Write it, whole or not at all.

        Raises:
            LaunchError: If it cannot be written.
        """
        text = json.dumps({"version": VERSION, **asdict(self)}, indent=2) + "\n"
        temporary = self.file.with_name(f".{self.id}.{os.getpid()}.tmp")
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(text)
            temporary.replace(self.file)
        except OSError as error:
            raise LaunchError(
                f"The run's state cannot be written to {self.file} ({error.strerror}): make room, "
                "or set XDG_STATE_HOME to a folder that you may write to."
            ) from error

    def update(self) -> None:
        """Write observations, unless the file was deleted meanwhile.

        Raises:
            LaunchError: If it cannot be written.
        """
        if self.file.exists():
            self.save()

    def forget(self) -> None:
        """Delete the file."""
        self.file.unlink(missing_ok=True)


def state_folder() -> Path:
    """Return the folder of the state files."""
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser() / "envlab" / "cluster"


def new_id() -> str:
    """Return a name for a launch: its time, and four digits."""
    return f"{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def all_runs() -> list[RunState]:
    """Return the runs whose files can be read, the newest first; warn of the others."""
    runs = []
    for file in sorted(state_folder().glob("[!.]*.json"), reverse=True):
        try:
            runs.append(read_run(file))
        except LaunchError as error:
            print(f"warning: {error}", file=sys.stderr)
    return runs


def read_run(file: Path) -> RunState:
    """Return the run that a file describes.

    Raises:
        LaunchError: If the file is not one of ours, or damaged.
    """
    try:
        values = json.loads(file.read_text())
        if values.pop("version") != VERSION:
            raise ValueError("another version of envlab wrote it")
        known = {one.name for one in fields(Host)}
        nodes = [
            Node(**{**node, "host": Host(**{k: v for k, v in node["host"].items() if k in known})})
            for node in values.pop("nodes")
        ]
        return RunState(**values, nodes=nodes)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise LaunchError(
            f"The state file {file} cannot be read ({error}): delete it. If its run lives, end "
            f"that by envlab cluster kill --run {file.stem} --runs_on HOST,..."
        ) from error


def find_run(run_id: str | None, *, prefer_living: bool = False) -> RunState:
    """Return the run of an id or of its beginning, or the newest.

    Args:
        run_id: The id, its beginning, or a training's ``--run_id``.
        prefer_living: Whether to prefer, as the newest, a run that is not known to have ended.

    Raises:
        ConfigurationError: If there is none, or the beginning fits several.
    """
    runs = all_runs()
    if not runs:
        raise ConfigurationError(
            f"No run is known here: {state_folder()} has none. Start one by envlab cluster launch, "
            "or name hosts by --runs_on."
        )
    if run_id is None:
        living = [run for run in runs if run.status != "ended"]
        return living[0] if prefer_living and living else runs[0]
    found = [run for run in runs if run.id.startswith(run_id) or run.run_id == run_id]
    if len(found) != 1:
        ids = [run.id for run in found or runs]
        number = "several runs" if found else "no run"
        raise ConfigurationError(
            f"--run {run_id!r} names {number}: there are {', '.join(ids)}."
            f"{did_you_mean(run_id, ids)}"
        )
    return found[0]


@contextmanager
def launch_lock() -> Iterator[None]:
    """Hold the lock that allows one starting launch per account and machine.

    Raises:
        LaunchError: If another launch is starting.
    """
    file = state_folder() / "launch.lock"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle = file.open("a+")
    except OSError as error:
        raise LaunchError(
            f"{file} cannot be written ({error.strerror}): set XDG_STATE_HOME to a folder that you "
            "may write to."
        ) from error
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.seek(0)
            raise LaunchError(
                f"Another launch is starting from here ({handle.read().strip()}): wait until it "
                "has started, then run this command again."
            ) from None
        handle.truncate(0)
        handle.write(f"process {os.getpid()}, since {datetime.now():%H:%M:%S}")
        handle.flush()
        yield
