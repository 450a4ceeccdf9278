"""The commands and flags of AllenAct's scripts for several nodes, as verbs of ``envlab cluster``.

``dconfig`` is setup, ``dmain`` launch, ``dcommand`` command, ``dkill`` kill. Each takes the flags
of the script of that name, and those of the verb.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

from envlab.cluster import verbs
from envlab.cluster.config_kwargs import overrides_of, read_config_kwargs
from envlab.cluster.hosts import choose_hosts
from envlab.errors import ConfigurationError
from envlab.rl.command.arguments import ArgumentParser

LAUNCH_VALUES = (
    "connect_timeout_s",
    "hosts",
    "keep_snapshots",
    "max_restarts",
    "min_free_mb",
    "nproc_per_node",
    "start_timeout_s",
)
LAUNCH_SWITCHES = ("allow_different_versions", "beside_others", "detach", "dry_run", "fetch")
"""Flags of launch that AllenAct does not have; what is not one of these is train.py's."""


def dconfig(arguments: Sequence[str]) -> int:
    """Run ``scripts/dconfig.py``."""
    return verbs.main(["setup", *setup_words(arguments)])


def dmain(arguments: Sequence[str]) -> int:
    """Run ``scripts/dmain.py``."""
    return verbs.main(["launch", *launch_words(arguments)])


def dcommand(arguments: Sequence[str]) -> int:
    """Run ``scripts/dcommand.py``."""
    return verbs.main(["command", *command_words(arguments)])


def dkill(arguments: Sequence[str]) -> int:
    """Run ``scripts/dkill.py``."""
    return verbs.main(["kill", *kill_words(arguments)])


def setup_words(arguments: Sequence[str]) -> list[str]:
    """Return the words after ``envlab cluster setup``.

    Raises:
        ConfigurationError: For a flag that has no place here.
    """
    parser = _parser(
        "dconfig.py",
        "Run a configuration script on every node: envlab cluster setup. Its log is told at the "
        "end.",
        "scripts/dconfig.py --runs_on 10.0.0.1,10.0.0.2 --config_script my_config.sh",
        "setup",
    )
    parser.add_argument("--runs_on", metavar="IP,...", help="the nodes")
    parser.add_argument("--config_script", metavar="FILE", help="bash script (default: ours)")
    parser.add_argument("--distribute_public_rsa_key", action="store_true", help=argparse.SUPPRESS)
    flags, rest = parser.parse_known_args(list(arguments))
    if flags.distribute_public_rsa_key:
        raise ConfigurationError(
            "--distribute_public_rsa_key is not offered: run ssh-copy-id <node> once for each, "
            "which does the same and asks before it trusts a new host."
        )
    return [*_given(flags, "runs_on", "config_script"), *_ssh(flags), *rest]


def launch_words(arguments: Sequence[str]) -> list[str]:
    """Return the words after ``envlab cluster launch``.

    Raises:
        ConfigurationError: For a flag that has no place here, or nothing to train.
    """
    flags, words = _launch_parser().parse_known_args(list(arguments))
    words = words[1:] if words[:1] == ["--"] else words
    if flags.machine_id is not None:
        raise ConfigurationError(
            f"--machine_id is {flags.machine_id}, but nodes are numbered by the launch. Leave it "
            "out."
        )
    if not words or words[0].startswith("-"):
        raise ConfigurationError(
            "Say what to train first: scripts/dmain.py rsl_rl --task ID ..., or a script with its "
            "arguments."
        )
    if flags.config_kwargs is not None:
        hosts = None if flags.hosts else choose_hosts(flags.runs_on, None)
        values = read_config_kwargs(flags.config_kwargs)
        words += overrides_of(values, None if hosts is None else len(hosts))
    if flags.seed is not None:
        words.append(f"--seed={flags.seed}")
    if flags.extra_tag is not None:
        words.append(f"--run_name={flags.extra_tag}")
    kept = ("runs_on", "env_activate_path", "envlab_path", "distributed_ip_and_port")
    switches = [f"--{name}" for name in LAUNCH_SWITCHES if getattr(flags, name)]
    return [*_given(flags, *kept, *LAUNCH_VALUES), *_ssh(flags), *switches, "--", *words]


def _launch_parser() -> ArgumentParser:
    parser = _parser(
        "dmain.py",
        "Start one training on all nodes: envlab cluster launch. The first word is a library or a "
        "training script; what is no flag below goes to train.py.",
        "scripts/dmain.py rsl_rl --task Isaac-Ant-v0 --runs_on 10.0.0.1,10.0.0.2 "
        "--env_activate_path ~/venv/bin/activate --distributed_ip_and_port 10.0.0.1:5555",
        "launch",
    )
    parser.add_argument("--runs_on", metavar="IP,...", help="the nodes")
    parser.add_argument(
        "--env_activate_path", metavar="PATH", help="on the nodes: what activates the environment"
    )
    parser.add_argument(
        "--envlab_path", "--allenact_path", metavar="PATH", help="on the nodes: folder of our own"
    )
    parser.add_argument("--distributed_ip_and_port", metavar="IP:PORT", help="where the nodes meet")
    parser.add_argument(
        "--config_kwargs", metavar="JSON", help="""configuration: '{"agent": {"seed": 1}}'"""
    )
    parser.add_argument("-s", "--seed", type=int, metavar="N", help="base seed of all nodes")
    parser.add_argument("--extra_tag", metavar="TAG", help="appended to the run's name")
    parser.add_argument("--machine_id", help=argparse.SUPPRESS)
    for name in LAUNCH_VALUES:
        parser.add_argument(f"--{name}", metavar="VALUE", help="see envlab cluster launch")
    for name in LAUNCH_SWITCHES:
        parser.add_argument(f"--{name}", action="store_true", help="see envlab cluster launch")
    return parser


def command_words(arguments: Sequence[str]) -> list[str]:
    """Return the words after ``envlab cluster command``."""
    parser = _parser(
        "dcommand.py",
        "Run a command on all nodes: envlab cluster command. Without --runs_on: on those of the "
        "newest run; without --command: what GPUs do, or load and memory.",
        "scripts/dcommand.py --command 'df -h .'",
        "command",
    )
    parser.add_argument("--runs_on", metavar="IP,...", help="the nodes")
    parser.add_argument("--command", metavar="CMD", help="the command")
    _add_state_file(parser)
    flags, rest = parser.parse_known_args(list(arguments))
    return [*_given(flags, "runs_on", "command"), *_run(flags), *_ssh(flags), *rest]


def kill_words(arguments: Sequence[str]) -> list[str]:
    """Return the words after ``envlab cluster kill``."""
    parser = _parser(
        "dkill.py",
        "Stop a run on all nodes: envlab cluster kill. Without --screen_ids_file and --yes it asks "
        "for each run that is known here.",
        "scripts/dkill.py",
        "kill",
    )
    _add_state_file(parser)
    flags, rest = parser.parse_known_args(list(arguments))
    chosen = _run(flags)
    named = {"--yes", "--all", "--run", "--runs_on", "--hosts"}
    if not chosen and not named & {word.partition("=")[0] for word in rest}:
        chosen = ["--all"]
    return [*chosen, *_ssh(flags), *rest]


def _parser(program: str, description: str, example: str, verb: str) -> ArgumentParser:
    parser = ArgumentParser(
        prog=f"scripts/{program}",
        description=description,
        epilog=f"All flags of envlab cluster {verb} may be given, too.\n\nExample:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--ssh_cmd", metavar="CMD", help="how to log in (default: 'ssh {addr}'); -f is left out"
    )
    return parser


def _add_state_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--screen_ids_file", metavar="FILE", help="state file of the run (default: the newest)"
    )


def _given(flags: argparse.Namespace, *names: str) -> list[str]:
    return [
        f"--{name}={getattr(flags, name)}" for name in names if getattr(flags, name) is not None
    ]


def _run(flags: argparse.Namespace) -> list[str]:
    """Return the flag that names a run by its state file, which is named for it."""
    path = flags.screen_ids_file
    if path is None:
        return []
    if Path(path).suffix != ".json":
        raise ConfigurationError(
            f"--screen_ids_file is {path!r}, but a run's state file ends with .json. "
            "envlab cluster status shows the runs."
        )
    return [f"--run={Path(path).stem}"]


def _ssh(flags: argparse.Namespace) -> list[str]:
    """Return how to log in, without ``-f``, which would cut off what is sent."""
    if flags.ssh_cmd is None:
        return []
    try:
        words = shlex.split(flags.ssh_cmd)
    except ValueError as error:
        raise ConfigurationError(f"--ssh_cmd is {flags.ssh_cmd!r}: {error}.") from None
    kept = shlex.join(word for word in words if word != "-f")
    return [f"--ssh_cmd={kept if '-f' in words else flags.ssh_cmd}"]
