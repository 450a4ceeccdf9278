"""``envlab cluster setup``: run a script on every host, detached, with its log on the host."""

from __future__ import annotations

import argparse
import functools
import shlex
import time
from collections.abc import Sequence
from pathlib import Path

from envlab.errors import ConfigurationError
from envlab_cluster.arguments import VerbParser, check_positive, hosts_of, ssh_of
from envlab_cluster.hosts import HOSTS_FILE, Host
from envlab_cluster.node_script import node_script
from envlab_cluster.snapshot import Snapshot, check_rsync, send_snapshot, take_snapshot
from envlab_cluster.ssh import Answer, HostError, Ssh, on_all, remote_text, results_of

DESCRIPTION = (
    "Run a configuration script on every host, detached, with its log on the host. The default "
    "script makes a virtual environment with envlab from this working tree."
)
EXAMPLE = "envlab cluster setup --runs_on 10.0.0.1,10.0.0.2 --wait"
POLL_S = 1.0
TIMEOUT_S = 3600.0

say = functools.partial(print, flush=True)


def main(arguments: Sequence[str]) -> int:
    """Run ``envlab cluster setup``."""
    parser = VerbParser("envlab cluster setup", DESCRIPTION, EXAMPLE)
    add_flags(parser)
    return run(parser.parse_args(arguments))


def add_flags(parser: VerbParser) -> None:
    """Add the flags of the verb."""
    parser.add_host_flags()
    parser.value(
        "--config_script",
        metavar="FILE",
        help="bash script to run in place of ours; it finds its folder in $ENVLAB_PATH",
    )
    parser.value(
        "--extras",
        default="",
        metavar="A,B",
        help="extras of pyproject.toml for our script to install, as jax,warp (default: none)",
    )
    parser.switch("--wait", "show its progress until it has ended on all hosts")
    parser.seconds("--timeout_s", default=TIMEOUT_S, help="how long --wait waits")


def run(flags: argparse.Namespace) -> int:
    """Set the hosts up; with ``--wait``, return 1 if it failed on one."""
    check_positive(flags, "timeout_s")
    hosts = hosts_of(flags)
    text = _read(flags.config_script)
    snapshot = take_snapshot(Path.cwd()) if flags.config_script is None else None
    if flags.dry_run:
        _show(hosts, snapshot, text)
        return 0
    ssh = ssh_of(flags)
    if snapshot is not None:
        check_rsync()
    folders = results_of(
        on_all(hosts, lambda host: _begin(host, ssh, snapshot, text, flags.extras))
    )
    watch = f"Watch it: {_watching(flags)}"
    if not flags.wait:
        names = ", ".join(host.name for host in hosts)
        say(f"Setting up {names}; each has its log in setup/log.txt. {watch}")
        return 0
    try:
        return _wait(folders, ssh, flags.timeout_s)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"Interrupted: the setup continues. {watch}") from None


def _watching(flags: argparse.Namespace) -> str:
    """Return the command that shows the setup's output on the same hosts."""
    given = {name: getattr(flags, name) for name in ("runs_on", "hosts", "envlab_path", "ssh_cmd")}
    if flags.runs_on is None and flags.hosts is None:
        given["hosts"] = HOSTS_FILE
    words = [f"--{name}={value}" for name, value in given.items() if value is not None]
    tail = 'tail -n 5 "$ENVLAB_PATH/setup/log.txt"'
    return shlex.join(["envlab", "cluster", "command", *words, tail])


def _begin(host: Host, ssh: Ssh, snapshot: Snapshot | None, text: str, extras: str) -> str:
    """Send the files and start the script; return the host's folder with its log."""
    values = ssh.run(host, "settle.sh", host.path).values
    path, folder = values["path"], values["folder"]
    exports = {"ENVLAB_PATH": path, "ENVLAB_EXTRAS": extras}
    if snapshot is not None:
        exports["ENVLAB_SNAPSHOT"] = send_snapshot(snapshot, host, path, ssh).folder
    script = node_script(
        title=f"Setup of {host.name}.",
        cwd=path,
        run_folder=folder,
        activate="",
        exports=exports,
        command=["bash", f"{folder}/config.sh"],
    )
    ssh.run(host, "start.sh", folder, "setup", script, "config.sh", text)
    return folder


def _wait(folders: dict[Host, str], ssh: Ssh, timeout_s: float) -> int:
    """Show the scripts' output until all have ended; return 1 if one failed."""

    def ask(host: Host) -> Answer:
        return ssh.run(host, "state.sh", folders[host], is_expendable=True)

    end = time.monotonic() + timeout_s
    waiting, last, has_failed = set(folders), dict.fromkeys(folders, ""), False
    while waiting and time.monotonic() < end:
        for host, answer in on_all([host for host in folders if host in waiting], ask).items():
            if isinstance(answer, HostError):
                say(str(answer))
                waiting.discard(host)
                has_failed = True
                continue
            line = answer.values["last"]
            if line and line != last[host]:
                say(f"{host.name} | {line}")
                last[host] = line
            if answer.values["alive"] == "1":
                continue
            waiting.discard(host)
            if answer.exit_code == 0:
                say(f"{host.name}: ready")
                continue
            has_failed = True
            code = "unknown" if answer.exit_code is None else answer.exit_code
            say(f"{host.name}: failed with exit code {code}")
            say(
                f"  its log on the host, {folders[host]}/log.txt, ends with:\n{answer.indented_log}"
            )
        if waiting:
            time.sleep(POLL_S)
    if waiting:
        names = ", ".join(host.name for host in folders if host in waiting)
        say(f"Not ready within {timeout_s:g} s: {names}. It continues on the hosts.")
    return 1 if waiting or has_failed else 0


def _read(file: str | None) -> str:
    """Return the text of the configuration script.

    Raises:
        ConfigurationError: If it cannot be read.
    """
    if file is None:
        return remote_text("default_config.sh")
    try:
        return Path(file).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", "it is no text")
        raise ConfigurationError(
            f"--config_script {file} cannot be read ({problem}): give a bash script."
        ) from error


def _show(hosts: list[Host], snapshot: Snapshot | None, text: str) -> None:
    for host in hosts:
        code = f"send {len(snapshot.files)} files to it, and " if snapshot is not None else ""
        say(f"{host.name} ({host.target}): would {code}run this in {host.path}:")
    say(text, end="")
