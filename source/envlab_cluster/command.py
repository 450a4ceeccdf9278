"""``envlab cluster command``: any command on all hosts at the same time, output by host."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

from envlab.errors import ConfigurationError
from envlab_cluster.arguments import VerbParser, check_positive, hosts_of, ssh_of
from envlab_cluster.hosts import HOSTS_FILE, Host
from envlab_cluster.ssh import TIMEOUT_S, HostError, Ssh, compose_script, on_all
from envlab_cluster.state import all_runs, find_run
from envlab_cluster.training_words import without_dashes

DESCRIPTION = (
    "Run a shell command on all hosts of a run, or of --runs_on, at the same time. Without one: "
    "use of GPUs, or load and memory where there is none."
)
EXAMPLE = "envlab cluster command --runs_on a,b 'tail -n 5 ~/envlab-cluster/setup/log.txt'"
_TIMED_OUT = 124
"""Exit code of coreutils' ``timeout``."""


def main(arguments: Sequence[str]) -> int:
    """Run ``envlab cluster command``."""
    parser = VerbParser("envlab cluster command", DESCRIPTION, EXAMPLE)
    add_flags(parser)
    return run(parser.parse_args(arguments))


def add_flags(parser: VerbParser) -> None:
    """Add the flags of the verb."""
    parser.add_host_flags()
    parser.add_run_flag()
    parser.value("--command", metavar="CMD", help="the command, if not given as words")
    parser.seconds("--timeout_s", default=TIMEOUT_S, help="how long it may take")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND", help="the command")


def run(flags: argparse.Namespace) -> int:
    """Run the command; return 0, or the first other exit code."""
    check_positive(flags, "timeout_s")
    text = _text(flags)
    known = None
    if flags.runs_on is None and flags.hosts is None:
        if flags.run is not None or not Path(HOSTS_FILE).is_file() or all_runs():
            known = find_run(flags.run)
    elif flags.run is not None:
        raise ConfigurationError("--run and --runs_on both name hosts: give one of them.")
    hosts = hosts_of(flags) if known is None else known.hosts
    if flags.dry_run:
        for host in hosts:
            print(f"Would run on {host.name} ({host.target}): {text or 'GPU use, or load'}")
        return 0
    ssh = ssh_of(flags, known)
    try:
        answers = on_all(hosts, lambda host: run_command(host, ssh, text, flags.timeout_s))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            "Interrupted: commands that still run on the hosts are ended after "
            f"{flags.timeout_s:g} s."
        ) from None
    return _print(answers, flags.timeout_s)


def run_command(host: Host, ssh: Ssh, text: str | None, timeout_s: float) -> tuple[int, str]:
    """Run a shell command in a host's home folder; return its exit code and its output.

    The exit code after a timeout is 124.

    Raises:
        HostError: If the host cannot be reached.
    """
    if text is None:
        script = compose_script("load.sh", ())
    else:
        script = compose_script("command.sh", (host.path, text, timeout_s))
    limit_s = timeout_s + ssh.connect_timeout_s + 5.0
    code, printed, _ = ssh.feed(host, script, limit_s, is_expendable=True)
    return code, printed


def _print(answers: dict[Host, tuple[int, str] | HostError], timeout_s: float) -> int:
    result = 0
    for host, answer in answers.items():
        if isinstance(answer, HostError):
            print(f"== {host.name}: {answer.sentence}")
            result = result or 1
            continue
        code, text = answer
        how = f": exit code {code}" if code else ""
        if code == _TIMED_OUT:
            how = f": took more than {timeout_s:g} s, and was ended (exit code {code})"
        print(f"== {host.name}{how}")
        if text.strip():
            print(text.rstrip("\n"))
        result = result or code
    return result


def _text(flags: argparse.Namespace) -> str | None:
    words = without_dashes(flags.words)
    if flags.command is not None and words:
        raise ConfigurationError(
            f"The command is given twice: --command {flags.command!r} and {shlex.join(words)!r}."
        )
    if len(words) == 1:
        return words[0]
    return shlex.join(words) if words else flags.command
