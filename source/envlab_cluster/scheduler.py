"""The flags and steps that the commands for schedulers share.

Each command is a :class:`Scheduler`; its own module adds the text of its file.
"""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from envlab.arguments import ArgumentParser
from envlab.errors import ConfigurationError, LaunchError, did_you_mean
from envlab_cluster.training_words import check_places, without_dashes

MARK = "# Made by: "
"""Start of a line in every file made here."""
DEADLINE_S = 60.0
"""Limit of a scheduler's own command."""
RETRIED = (70, 75, 143)
"""Exit codes after which a run is started again; docs/survive.md explains them."""
STDOUT = "-"
"""The value of ``--output`` that prints the file."""


class Kind(NamedTuple):
    """The form of a flag's values."""

    pattern: str
    wrong: str
    """The message for a value that does not match; ``{like}`` is a valid name."""
    type: type[int] | type[str] = str


TEXT = Kind(".*", "")
POSITIVE = "[1-9][0-9]*"
COUNT = Kind(POSITIVE, "but must be at least 1", int)
ANY_NUMBER = Kind("[0-9]+", "but must be at least 0", int)
NOTICE = Kind(
    "[3-9][0-9]|[1-9][0-9]{2,}",
    "but must be at least 30 s: twice the time of an iteration and a checkpoint",
    int,
)
GPUS = Kind(r"(?:([A-Za-z][\w.-]*):)?([0-9]+)", "but must be a number, or type:number as in a100:4")
NAME = Kind(
    "[a-z]([-a-z0-9]{0,48}[a-z0-9])?",  # RFC 1035, and short: names of pods are longer
    "but a name has at most 50 small letters, digits and hyphens, begins with a letter and does "
    "not end with a hyphen. {like} would do",
)


def variable(reserved: str) -> Kind:
    """Return the kind of a variable that does not begin like the scheduler's own."""
    return Kind(
        rf"(?!{reserved})[A-Za-z_]\w*=.*",
        f"but must be NAME=VALUE, and not begin with {reserved}, as the scheduler's own do",
    )


@dataclass(frozen=True)
class Flag:
    """A flag, in schedulers' spelling and in ours."""

    name: str
    metavar: str | None
    """None: it takes no value."""
    help: str
    kind: Kind = TEXT
    default: object = None
    repeats: bool = False
    missing: str = ""
    """The message if it is missing; empty: it is optional."""

    @property
    def spelled(self) -> str:
        """The flag as a scheduler spells it."""
        return f"--{self.name.replace('_', '-')}"

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Add it to a parser."""
        options: dict[str, Any] = {"action": "store_true"}
        if self.metavar is not None:
            options = {"metavar": self.metavar, "type": self.kind.type, "default": self.default}
        if self.repeats:
            options |= {"action": "append", "default": []}
        names = dict.fromkeys((self.spelled, f"--{self.name}"))
        parser.add_argument(*names, dest=self.name, help=self.help, **options)

    def check(self, flags: argparse.Namespace) -> None:
        """Refuse a value of another kind.

        Raises:
            ConfigurationError: With valid values.
        """
        given = getattr(flags, self.name)
        if self.missing and not given:
            raise ConfigurationError(f"{self.spelled} is missing: {self.missing}.")
        for value in given if self.repeats else [given]:
            if value is not None and re.fullmatch(self.kind.pattern, str(value)) is None:
                wrong = self.kind.wrong.format(flag=self.spelled, like=name_like(str(value)))
                raise ConfigurationError(f"{self.spelled} is {value!r}, {wrong}.")


COMMON = (
    Flag("nodes", "N", "nodes (default: 1)", COUNT, default=1),
    Flag("gpus_per_node", "[TYPE:]G", "GPUs a node, a process for each", GPUS),
    Flag("processes_per_node", "N", "processes a node, without GPUs", COUNT),
    Flag("notice_s", "S", "time from the signal to the end (120)", NOTICE, default=120),
    Flag("max_restarts", "N", "torchrun's restarts (default: 0)", ANY_NUMBER, default=0),
    Flag("output", "FILE", "write the file, and submit nothing"),
    Flag("dry_run", None, "print the file, and submit nothing"),
)
"""The flags of every scheduler."""


def name_like(text: str) -> str:
    """Return a name that Kubernetes and SkyPilot take and that resembles a text."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).lstrip("-0123456789")[:50].rstrip("-")
    return name or "envlab"


@dataclass(frozen=True, kw_only=True)
class Scheduler:
    """A command ``envlab cluster NAME``."""

    name: str
    program: str
    """The scheduler's own command."""
    description: str
    example: str
    """Example flags."""
    flags: tuple[Flag, ...]

    @property
    def parser(self) -> ArgumentParser:
        """The command's parser."""
        parser = ArgumentParser(
            prog=f"envlab cluster {self.name}",
            usage="%(prog)s [option ...] LIBRARY [train.py's flags and overrides ...]",
            description=self.description,
            epilog="LIBRARY is rsl_rl, rl_games, skrl, ddppo, or a training script; then come its\n"
            "own flags and overrides. --distributed is added to them, and what a restart needs.\n\n"
            f"  envlab cluster {self.name} --nodes 2 {self.example} \\\n"
            "      rsl_rl --task Isaac-Ant-v0 --max_iterations 2000\n\n"
            f"Without {self.program} on this machine, the file is printed or written.",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        for flag in (*self.flags, *COMMON):
            flag.add_to(parser)
        parser.add_argument("train", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
        return parser

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Return the flags, with unchecked values, and the words of the training.

        Raises:
            ConfigurationError: For an unknown flag, or one after the library.
        """
        for word in arguments:
            if not word.isprintable():
                raise ConfigurationError(
                    f"The argument {word!r} holds a line break or a control character, which a "
                    "script cannot pass on safely. Leave it out."
                )
        parser = self.parser
        flags, unknown = parser.parse_known_args(list(arguments))
        if unknown:
            name = unknown[0].partition("=")[0]
            known = [option for action in parser._actions for option in action.option_strings]
            raise ConfigurationError(
                f"There is no flag {name!r}.{did_you_mean(name, known)} See --help; train.py's "
                "own flags come after the library."
            )
        flags.train = without_dashes(flags.train)
        check_places(flags.train, parser)
        if "--dry_run" in flags.train:
            raise ConfigurationError(
                "--dry_run comes after the library, so the job would not train. Give it before the "
                "library to see what would be submitted."
            )
        return flags

    def deliver(
        self,
        text: str,
        flags: argparse.Namespace,
        *,
        path: str | None,
        start: str,
        submit: Callable[[], int],
    ) -> int:
        """Print a file, write it, or submit it, by the flags; return the exit code.

        Args:
            text: The file.
            flags: Flags of the command.
            path: File to write without ``--output`` if the program is missing; None: print then.
            start: The command that takes a written file, whose path follows.
            submit: Hands it to the program.
        """
        if flags.dry_run or flags.output == STDOUT:
            print(text, end="")
            return 0
        if flags.output is None:
            if shutil.which(self.program) is not None:
                return submit()
            say(f"There is no {self.program} here.")
        path = flags.output or path
        if path is None:
            print(text, end="")
            say("The script is printed. Write it with --output FILE.")
        else:
            write(text, Path(path))
            say(f"Start it with: {start} {shlex.quote(path)}")
        return 0


def fill(template: str, values: Mapping[str, str]) -> str:
    """Return a file's template with each ``@name@`` replaced, with lines indented like the name.

    Args:
        template: The name of a file of this package.
        values: The replacement of each name.
    """
    text = files("envlab_cluster").joinpath(template).read_text(encoding="utf-8")

    def value(match: re.Match[str]) -> str:
        return values[match[2]].rstrip("\n").replace("\n", f"\n{match[1]}")

    return re.sub(r"(?m)(?:^( *))?@(\w+)@", lambda match: (match[1] or "") + value(match), text)


def write(text: str, path: Path) -> None:
    """Write a file for a scheduler; overwrite older ones, but nothing else.

    Raises:
        ConfigurationError: If that is impossible.
    """
    try:
        if path.exists() and MARK not in path.read_text(errors="replace")[:200]:
            raise ConfigurationError(
                f"--output is {path}, which exists and was not made here. Name another file."
            )
        path.write_text(text)
    except OSError as error:
        raise ConfigurationError(
            f"The file {path} cannot be written ({error.strerror}). Name another one by --output."
        ) from None
    say(f"Wrote {path}.")


def submit_by(command: Sequence[str], text: str, *, cwd: str | None = None) -> str:
    """Hand a file to a scheduler's command; return its output.

    Args:
        command: The command, which reads the file from standard input.
        text: The file.
        cwd: Folder of the command.

    Raises:
        LaunchError: If there is no answer, or the file is refused.
    """
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=DEADLINE_S, cwd=cwd
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LaunchError(f"The job could not be submitted: {error}.") from None
    if done.returncode != 0:
        raise LaunchError(
            f"{command[0]} refused the job: {done.stderr.strip() or 'it did not say why'}. Change "
            "the options; --dry_run shows the file."
        )
    return done.stdout


def say(sentence: str) -> None:
    """Print a sentence to stderr, since stdout is for machines."""
    print(sentence, file=sys.stderr)
