"""Flags that the verbs of ``envlab cluster`` share."""

from __future__ import annotations

import argparse
import textwrap

from envlab.cluster.hosts import DEFAULT_PATH, Host, choose_hosts
from envlab.cluster.ssh import CONNECT_TIMEOUT_S, SSH_CMD, Ssh
from envlab.cluster.state import RunState
from envlab.errors import ConfigurationError
from envlab.rl.command.arguments import ArgumentParser


def verb_parser(verb: str, description: str, example: str) -> ArgumentParser:
    """Return the parser of a verb, with an example below its flags."""
    return ArgumentParser(
        prog=f"envlab cluster {verb}",
        description=textwrap.fill(description, 79),
        epilog=f"Example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_host_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that name hosts and how they are reached."""
    parser.add_argument(
        "--runs_on", metavar="HOST,...", help="hosts: a,b or user@a:2222,b; or names in --hosts"
    )
    parser.add_argument(
        "--hosts", metavar="FILE", help="hosts with user, port, key, slots, path (hosts.yaml)"
    )
    parser.add_argument(
        "--envlab_path",
        metavar="PATH",
        help=f"folder on the hosts for code, runs and logs (default: ~/{DEFAULT_PATH})",
    )
    add_ssh_flags(parser)


def add_ssh_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say how hosts are reached, and ``--dry_run``."""
    parser.add_argument(
        "--ssh_cmd",
        metavar="CMD",
        help=f"command that logs in, with {{addr}} for user@host (default: {SSH_CMD!r})",
    )
    parser.add_argument(
        "--connect_timeout_s",
        type=int,
        default=CONNECT_TIMEOUT_S,
        metavar="SECONDS",
        help="how long a host may take to answer (default: %(default)s)",
    )
    parser.add_argument(
        "--dry_run", action="store_true", help="say what would be done, and do nothing"
    )


def add_run_flag(parser: argparse.ArgumentParser) -> None:
    """Add the flag that names a run."""
    parser.add_argument(
        "--run", metavar="ID", help="the run, by its id or the id's beginning (default: the newest)"
    )


def ssh_of(flags: argparse.Namespace, run: RunState | None = None) -> Ssh:
    """Return how hosts are reached: by the flags, else as the run's launch did."""
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
