"""Flags that the verbs of ``envlab cluster`` share."""

from __future__ import annotations

import argparse
import textwrap
from typing import Any

from envlab.arguments import ArgumentParser
from envlab.errors import ConfigurationError
from envlab_cluster.hosts import DEFAULT_PATH, Host, choose_hosts
from envlab_cluster.ssh import CONNECT_TIMEOUT_S, SSH_CMD, Ssh
from envlab_cluster.state import RunState


class VerbParser(ArgumentParser):
    """The parser of a verb, with an example below its flags.

    Args:
        program: The typed command, as in ``envlab cluster launch``.
        description: Its description.
        example: A command to copy.
        note: A sentence between the flags and the example.
    """

    def __init__(self, program: str, description: str, example: str, note: str = "") -> None:
        super().__init__(
            prog=program,
            description=textwrap.fill(description, 79),
            epilog=f"{note}Example:\n  {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def value(self, *names: str, metavar: str, help: str, **kwargs: Any) -> None:
        """Add a flag that takes a value, and state its default in the help."""
        if kwargs.get("default") not in (None, ""):
            help += " (default: %(default)s)"
        self.add_argument(*names, metavar=metavar, help=help, **kwargs)

    def seconds(self, *names: str, default: float, help: str) -> None:
        """Add a flag that takes a number of seconds, whole ones if its default is whole."""
        self.value(*names, type=type(default), default=default, metavar="SECONDS", help=help)

    def switch(self, name: str, help: str) -> None:
        """Add a flag without a value."""
        self.add_argument(name, action="store_true", help=help)

    def add_host_flags(self) -> None:
        """Add the flags that name hosts and the way to reach them."""
        self.value(
            "--runs_on", metavar="HOST,...", help="hosts: a,b or user@a:2222,b; or names in --hosts"
        )
        self.value(
            "--hosts", metavar="FILE", help="hosts with user, port, key, slots, path (hosts.yaml)"
        )
        path_help = f"folder on the hosts for code, runs and logs (default: ~/{DEFAULT_PATH})"
        self.value("--envlab_path", metavar="PATH", help=path_help)
        self.add_ssh_flags()

    def add_ssh_flags(self) -> None:
        """Add the flags on the connection to hosts, and ``--dry_run``."""
        ssh_help = f"command that logs in, with {{addr}} for user@host (default: {SSH_CMD!r})"
        self.value("--ssh_cmd", metavar="CMD", help=ssh_help)
        self.seconds(
            "--connect_timeout_s",
            default=CONNECT_TIMEOUT_S,
            help="longest time for a host's answer",
        )
        self.switch("--dry_run", "show what would be done, and do nothing")

    def add_run_flag(self) -> None:
        """Add the flag that names a run."""
        run_help = "the run, by its id or the beginning of its id (default: the newest)"
        self.value("--run", metavar="ID", help=run_help)


def ssh_of(flags: argparse.Namespace, run: RunState | None = None) -> Ssh:
    """Return the connection to hosts: by the flags, else as in the run's launch."""
    if flags.connect_timeout_s < 1:
        raise ConfigurationError(
            f"--connect_timeout_s is {flags.connect_timeout_s}, but must be at least 1."
        )
    command = flags.ssh_cmd or (SSH_CMD if run is None else run.ssh_cmd)
    return Ssh(command, flags.connect_timeout_s)


def hosts_of(flags: argparse.Namespace) -> list[Host]:
    """Return the hosts that the flags name."""
    activate = getattr(flags, "env_activate_path", None)
    return choose_hosts(flags.runs_on, flags.hosts, path=flags.envlab_path, activate=activate)


def check_positive(flags: argparse.Namespace, *names: str) -> None:
    """Refuse numbers that must be above 0.

    Raises:
        ConfigurationError: Naming flag and value.
    """
    for name in names:
        value = getattr(flags, name)
        if value is not None and not 0 < value < float("inf"):
            raise ConfigurationError(f"--{name} is {value:g}, but must be greater than 0.")
