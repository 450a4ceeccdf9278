"""AllenAct's scripts for several nodes, as verbs of ``envlab cluster``.

``dconfig`` is setup, ``dmain`` launch, ``dcommand`` command, ``dkill`` kill. Each takes the flags
of the script of that name, and those of the verb.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from envlab.errors import ConfigurationError
from envlab.libraries import libraries
from envlab_bridge.config_kwargs import kwargs_of_experiment, overrides_of, read_config_kwargs
from envlab_cluster import command, kill, launch, setup
from envlab_cluster.arguments import VerbParser
from envlab_cluster.hosts import choose_hosts
from envlab_cluster.training_words import is_experiment, without_dashes


def dconfig(arguments: Sequence[str]) -> int:
    """Run ``scripts/dconfig.py``: envlab cluster setup."""
    example = "--runs_on 10.0.0.1,10.0.0.2 --config_script my_config.sh"
    parser = _parser("dconfig", setup, example)
    parser.add_argument("--distribute_public_rsa_key", action="store_true", help=argparse.SUPPRESS)
    flags = parser.parse_args(arguments)
    if flags.distribute_public_rsa_key:
        raise ConfigurationError(
            "--distribute_public_rsa_key is not offered: run ssh-copy-id <node> once for each, "
            "which does the same and asks before it trusts a new host."
        )
    return setup.run(flags)


def dmain(arguments: Sequence[str]) -> int:
    """Run ``scripts/dmain.py``: envlab cluster launch."""
    return launch.run(launch_flags(arguments))


def launch_flags(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the flags of ``envlab cluster launch``; all other words are train.py's.

    Raises:
        ConfigurationError: For a flag that has no place here, or nothing to train.
    """
    example = "rsl_rl --task Isaac-Ant-v0 --runs_on 10.0.0.1,10.0.0.2"
    parser = _parser("dmain", launch, example)
    parser.value("--allenact_path", dest="envlab_path", metavar="PATH", help="see --envlab_path")
    parser.value(
        "--config_kwargs",
        metavar="JSON",
        help="configuration as JSON, or arguments of an experiment",
    )
    parser.value("-s", "--seed", type=int, metavar="N", help="base seed of all nodes")
    parser.value("--extra_tag", metavar="TAG", help="appended to the run's name")
    parser.add_argument("--machine_id", help=argparse.SUPPRESS)
    flags, words = parser.parse_known_args(arguments)
    flags.words = without_dashes(words)
    if flags.machine_id is not None:
        raise ConfigurationError(
            f"--machine_id is {flags.machine_id}, but nodes are numbered by the launch. Leave it "
            "out."
        )
    if not flags.words or flags.words[0].startswith("-"):
        raise ConfigurationError(
            "Say what to train first: scripts/dmain.py rsl_rl --task ID ..., or an experiment's "
            "file, or a script with its arguments."
        )
    flags.words[0] = _spelled_here(flags.words[0])
    takers = [library for library in libraries().values() if library.file_flag]
    if takers and is_experiment(flags.words[0]):
        flags.words = [takers[0].name, *flags.words]
    rest = flags.words[1:]
    names_experiment = any(library.with_file_flag(rest) != rest for library in takers)
    if flags.config_kwargs is not None:
        num_hosts = None if flags.hosts else len(choose_hosts(flags.runs_on, None))
        values = read_config_kwargs(flags.config_kwargs)
        flags.words += (
            kwargs_of_experiment(values, num_hosts)
            if names_experiment
            else overrides_of(values, num_hosts)
        )
    if flags.seed is not None:
        flags.words.append(f"--seed={flags.seed}")
    if flags.extra_tag is not None:
        flags.words.append(f"--run_name={flags.extra_tag}")
    return flags


def _spelled_here(word: str) -> str:
    """Return the place of a file that AllenAct's tutorial spells from its checkout's root."""
    here = Path("source", word)
    is_elsewhere = word.startswith("projects/") and not Path(word).exists() and here.is_file()
    return str(here) if is_elsewhere else word


def dcommand(arguments: Sequence[str]) -> int:
    """Run ``scripts/dcommand.py``: envlab cluster command."""
    parser = _parser("dcommand", command, "--command 'df -h .'")
    _add_state_file(parser)
    flags = parser.parse_args(arguments)
    flags.run = _run_of(flags)
    return command.run(flags)


def dkill(arguments: Sequence[str]) -> int:
    """Run ``scripts/dkill.py``: envlab cluster kill."""
    return kill.run(kill_flags(arguments))


def kill_flags(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the flags of ``envlab cluster kill``: without any, it asks about each known run."""
    parser = _parser("dkill", kill, "--screen_ids_file ~/.local/state/envlab/cluster/RUN.json")
    _add_state_file(parser)
    flags = parser.parse_args(arguments)
    flags.run = _run_of(flags)
    # With --yes, ending all of them would be too risky a guess.
    if not (flags.yes or flags.run or flags.runs_on or flags.hosts):
        flags.all = True
    return flags


def _parser(script: str, verb: ModuleType, example: str) -> VerbParser:
    """Return a parser with all flags of a verb."""
    name = verb.__name__.rpartition(".")[2]
    note = f"This is envlab cluster {name}, and takes all its flags.\n\n"
    parser = VerbParser(
        f"scripts/{script}.py", verb.DESCRIPTION, f"scripts/{script}.py {example}", note
    )
    verb.add_flags(parser)
    return parser


def _add_state_file(parser: VerbParser) -> None:
    parser.value(
        "--screen_ids_file", metavar="FILE", help="state file of the run (default: the newest)"
    )


def _run_of(flags: argparse.Namespace) -> str | None:
    """Return the run that is named by its id, or by its state file, which has its name."""
    path = flags.screen_ids_file
    if path is None:
        return flags.run
    if Path(path).suffix != ".json":
        raise ConfigurationError(
            f"--screen_ids_file is {path!r}, but a run's state file ends with .json. "
            "envlab cluster status shows the runs."
        )
    return Path(path).stem
