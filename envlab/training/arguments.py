"""From a command line to flags and overrides, checked before torch is loaded."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from envlab.arguments import ArgumentParser
from envlab.distributed.ranks import check_num_processes, launched_rank, read_ranks
from envlab.errors import ConfigurationError, did_you_mean
from envlab.libraries import Library, libraries
from envlab.registry import get_task, load_entry_point
from envlab.run.pretrained import SELECTOR, fetch, is_remote
from envlab.training import isaac_lab
from envlab.training.flags import (
    Flags,
    add_flags,
    check_flags,
    flag_names,
    flags_of,
    guests_of,
    is_given,
)
from envlab.training.inputs import (
    check_any_run,
    checkpoint_file,
    given_config,
    run_and_name,
)
from envlab.training.viewing import choose_viewer

if TYPE_CHECKING:
    from envlab.config import Override

LAUNCHERS = (
    "--nnodes",
    "--node_rank",
    "--node-rank",
    "--rdzv",
    "--master_",
    "--master-",
)
"""Prefixes of torchrun's flags."""


class TrainingParser(ArgumentParser):
    """A parser whose remaining words must be overrides."""

    def parse_with_overrides(self, arguments: Sequence[str]) -> tuple[Any, list[Override]]:
        """Return the flags, and the parsed overrides in the given order.

        Anything wrong in the words alone is refused here, before torch takes seconds to load.

        Raises:
            ConfigurationError: For an unknown flag, with the nearest ones, for one that makes no
                sense, for two that contradict each other, and for a malformed override.
            CheckpointError: For a checkpoint to play that does not exist.
        """
        flags, words = self.parse_known_args(list(arguments))
        for word in words:
            if word.startswith(LAUNCHERS):
                raise ConfigurationError(
                    f"{word.split('=')[0]} is a flag of the launcher, so it goes before the "
                    "script: python -m torch.distributed.run --nproc_per_node=2 -m envlab train "
                    "... --distributed."
                )
            if word.startswith("-"):
                known = [
                    option
                    for action in self._actions
                    for option in action.option_strings
                    if action.help is not argparse.SUPPRESS
                ]
                raise ConfigurationError(
                    "There is no flag "
                    f"{word.split('=')[0]!r}.{did_you_mean(word.split('=')[0], known)} "
                    "See --help."
                )
            if "=" not in word and not word.startswith("~"):
                raise ConfigurationError(
                    f"{word!r} is neither a flag nor an override; an override is key=value, "
                    "as in agent.max_iterations=20."
                )
        if isinstance(flags, Flags):
            if flags.checkpoint is not None and is_remote(flags.checkpoint):
                flags.checkpoint = str(fetch(flags.checkpoint))
            choose_viewer(flags)
            check_flags(flags)
        from envlab.config import parse_overrides  # loads YAML, which --help does not need

        if isinstance(flags, Flags) and flags.skin is not None:
            quoted = flags.skin.replace("\\", "\\\\").replace("'", "\\'")
            words = [*words, f"env.scene.skin='{quoted}'"]
        return flags, parse_overrides(isaac_lab.translated(words))


def libraries_with(flag: str, besides: type[Flags]) -> list[str]:
    """Return the names of the libraries that have a flag, as ``--algorithm``, which others lack.

    None if it is a flag of ``besides``, of which another command than this has it.
    """
    own = {name: flag_names(flags_of(library)) for name, library in libraries().items()}
    first, *rest = own.values()
    others = first.union(*rest) - first.intersection(*rest) - flag_names(besides)
    return [name for name in own if flag.removeprefix("--") in own[name] & others]


class FlagsParser(TrainingParser):
    """A parser of :class:`Flags`, or of a library's subclass."""

    def __init__(self, flags: type[Flags], command: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._flags, self._command = flags, command
        add_flags(self, flags, command)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Flags | None = None
    ) -> tuple[Flags, list[str]]:
        options = {word.partition("=")[0] for word in args or () if word.startswith("--")}
        for option in options - self._option_string_actions.keys():
            # Here, since argparse would first miss a flag that is required, as --task.
            if owners := libraries_with(option, besides=self._flags):
                raise ConfigurationError(
                    f"{option} is a flag only of {', '.join(owners)}. Leave it out, or choose such "
                    "a library."
                )
        flags = self._flags(command=self._command) if namespace is None else namespace
        return super().parse_known_args(args, flags)


def train_parser(library: Library) -> FlagsParser:
    """Return the parser of ``scripts/reinforcement_learning/<library>/train.py``."""
    parser = _parser(library, "train", description=f"Train a task with {library.name}.")
    parser.add_argument(  # Isaac Lab's script for rl_games
        "--track", action="store_const", const="wandb", dest="logger", help="--logger wandb"
    )
    return parser


def play_parser(library: Library) -> FlagsParser:
    """Return the parser of ``scripts/reinforcement_learning/<library>/play.py``."""
    description = f"Run a policy trained with {library.name}, print its returns and export it."
    parser = _parser(library, "play", description=description)
    (which,) = parser._mutually_exclusive_groups
    which.add_argument(
        "--use_last_checkpoint",
        action="store_const",
        const="latest",
        dest="checkpoint",
        help="--checkpoint latest",
    )
    return parser


def export_parser(library: Library) -> FlagsParser:
    """Return the parser of ``envlab export``."""
    description = f"Write a policy trained with {library.name} as files to run it elsewhere."
    return _parser(library, "export", description=description)


def agent_parser(kind: str) -> FlagsParser:
    """Return the parser of ``random_agent.py``, ``zero_agent.py`` and the like."""
    description = f"Step a task with {kind} actions."
    return FlagsParser(Flags, "agent", prog=f"{kind}_agent", description=description)


def _parser(library: Library, command: str, description: str) -> FlagsParser:
    parser = FlagsParser(
        flags_of(library),
        command,
        prog=f"{library.name} {command}",
        description=description,
        epilog="Everything else is a Hydra override: env.decimation=4 env.scene.num_envs=64",
    )
    isaac_lab.add_flags(parser)
    return parser


_PARSERS = {"play": play_parser, "export": export_parser}
"""The commands that take a trained policy; the others have the flags of ``train``."""


def read_words(
    command: str, library: Library, words: Sequence[str], choice: str = ""
) -> tuple[Flags, list[Override]]:
    """Return the flags and overrides of a command.

    They are checked as far as possible without torch and the task's configuration.

    Args:
        command: ``train``, ``config``, ``play`` or ``export``.
        library: The library that trains, or trained.
        words: The words after the library.
        choice: A line about how the library was chosen, which is printed first.

    Raises:
        EnvlabError: For anything wrong in them.
    """
    if library.prepare is not None:
        words = library.load("prepare")(command, words)
    parser = _PARSERS.get(command, train_parser)(library)
    flags, overrides = parser.parse_with_overrides(words)
    for guest in guests_of(library).values():
        if guest.prepare and is_given(flags, load_entry_point(guest.flags)):
            overrides = load_entry_point(guest.prepare)(flags, overrides)
    _check_early(command, library, flags)
    is_first = launched_rank() == 0
    for line in (choice, isaac_lab.without_effect_line(flags)):
        if line and is_first:
            print(line, file=sys.stderr)
    if flags.video and flags.nproc is None and is_first:
        from envlab.sim.opengl import choose_opengl

        choose_opengl()  # before mujoco is loaded, after which it is fixed
    return flags, overrides


def _check_early(command: str, library: Library, flags: Flags) -> None:
    task = get_task(flags.task)
    if command in _PARSERS:
        is_found = checkpoint_file(flags) or run_and_name(flags)[0] or flags.checkpoint == SELECTOR
        if not is_found:
            check_any_run(library.name, task)
        return
    _check_beginning(library, flags)
    given_config(flags)
    if command != "train":
        return
    if flags.nproc is None:
        read_ranks(flags.distributed, os.environ)
    else:
        check_num_processes(flags.nproc, os.environ)


def _check_beginning(library: Library, flags: Flags) -> None:
    """Refuse to begin a new run with a policy if the library cannot.

    Raises:
        ConfigurationError: Naming the flag.
    """
    if flags.resume or (library.takes_policies and flags.checkpoint is not None):
        return
    for name in ("checkpoint", "load_run"):
        if getattr(flags, name) is not None:
            raise ConfigurationError(
                f"--{name} has no effect on a new run of {library.name}, which begins with no "
                "policy. Add --resume to continue a run, or leave it out."
            )
