"""What a scheduler is asked for, checked before it waits in a queue: the same for all of them."""

from __future__ import annotations

import argparse
import re
import secrets
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

from envlab.errors import ConfigurationError, LaunchError, did_you_mean
from envlab.libraries import libraries
from envlab.train.arguments import ArgumentParser
from envlab_cluster.training_words import (
    SCRIPT,
    check_places,
    check_training,
    library_of,
    run_id_of,
    without_dashes,
)

MARK = "# Made by: "
"""How a line begins of every file that was made here."""
DEADLINE_S = 60.0
"""How long a scheduler's own command may take."""
RETRIED = (70, 75, 143)
"""Exit codes after which a run is started again; docs/survive.md says what they mean."""
LEAST_NOTICE_S = 30
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,48}[a-z0-9])?")
"""RFC 1035, and short enough for what is appended to it in the names of pods."""
_GPUS = r"(?:([A-Za-z][\w.-]*):)?([0-9]+)"


@dataclass(frozen=True, kw_only=True)
class Job:
    """A training run on nodes that are alike."""

    name: str
    """The task's id, unless another one was given."""
    train: tuple[str, ...]
    """What torchrun runs: a script, or ``-m`` and a module, and its arguments."""
    nodes: int
    processes_per_node: int
    gpus_per_node: int
    gpu_type: str | None
    """As the scheduler calls it, such as ``a100``; None for any."""
    max_restarts: int
    """Those of torchrun."""
    notice_s: int
    """Seconds between the signal and the end, in which an iteration is finished and saved."""

    @property
    def shutdown_timeout_s(self) -> int:
        """How long torchrun waits for processes that save: the notice, less time to be killed."""
        return self.notice_s - self.notice_s // 6


def spelled(name: str) -> str:
    """Return a flag in schedulers' spelling."""
    return f"--{name.replace('_', '-')}"


def make_parser(scheduler: str, description: str, epilog: str) -> ArgumentParser:
    """Return the parser of ``envlab cluster SCHEDULER``, without flags."""
    return ArgumentParser(
        prog=f"envlab cluster {scheduler}",
        usage="%(prog)s [option ...] LIBRARY [train.py's flags and overrides ...]",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_flag(parser: argparse.ArgumentParser, name: str, **kwargs: object) -> None:
    """Add a flag in schedulers' spelling and in this house's."""
    spellings = dict.fromkeys((spelled(name), f"--{name}"))
    parser.add_argument(*spellings, dest=name, **kwargs)  # type: ignore[arg-type]


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add what every scheduler is asked for, and the words that say what to train."""

    def add(name: str, **kwargs: object) -> None:
        add_flag(parser, name, **kwargs)

    add("nodes", type=int, default=1, metavar="N", help="nodes (default: 1)")
    add("gpus_per_node", metavar="[TYPE:]G", help="GPUs a node, a process for each")
    add("processes_per_node", type=int, metavar="N", help="processes a node, without GPUs")
    add("notice_s", type=int, default=120, metavar="S", help="signal so long before the end (120)")
    add("max_restarts", type=int, default=0, metavar="N", help="torchrun's restarts (default: 0)")
    add("output", metavar="FILE", help="write the file, and submit nothing")
    add("dry_run", action="store_true", help="print the file, and submit nothing")
    parser.add_argument("train", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def parse(parser: ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """Return the flags, of which those of :func:`add_flags` are checked.

    Raises:
        ConfigurationError: For what no scheduler could take.
    """
    for word in arguments:
        if not word.isprintable():
            raise ConfigurationError(
                f"The argument {word!r} holds a line break or a control character, which a script "
                "cannot pass on safely. Leave it out."
            )
    flags, unknown = parser.parse_known_args(list(arguments))
    if unknown:
        name = unknown[0].partition("=")[0]
        known = [option for action in parser._actions for option in action.option_strings]
        raise ConfigurationError(
            f"There is no flag {name!r}.{did_you_mean(name, known)} See --help; train.py's own "
            "flags come after the library."
        )
    flags.train = without_dashes(flags.train)
    check_places(flags.train, parser)
    if "--dry_run" in flags.train:
        raise ConfigurationError(
            "--dry_run stands behind the library, so the job would train nothing. Give it before "
            "the library to see what would be submitted."
        )
    for name, least in (("nodes", 1), ("processes_per_node", 1), ("max_restarts", 0)):
        value = getattr(flags, name)
        if value is not None and value < least:
            raise ConfigurationError(f"{spelled(name)} is {value}, but must be at least {least}.")
    if flags.notice_s < LEAST_NOTICE_S:
        raise ConfigurationError(
            f"--notice-s is {flags.notice_s}, but must be at least {LEAST_NOTICE_S} s: what an "
            "iteration and a checkpoint take, twice."
        )
    return flags


def check_name(flag: str, value: str | None) -> None:
    """Refuse a name that Kubernetes or SkyPilot would refuse; None is no name.

    Raises:
        ConfigurationError: With a name that would do.
    """
    if value is not None and _NAME.fullmatch(value) is None:
        raise ConfigurationError(
            f"--{flag} is {value!r}, but a name has at most 50 small letters, digits and hyphens, "
            f"begins with a letter and does not end with a hyphen. {name_like(value)} would do."
        )


def name_like(text: str) -> str:
    """Return a name that :func:`check_name` takes and that resembles a text."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).lstrip("-0123456789")[:50].rstrip("-")
    return name or "envlab"


def environment(pairs: Sequence[str], *, reserved: str) -> dict[str, str]:
    """Return variables given as ``NAME=VALUE``.

    Raises:
        ConfigurationError: For what is not of this form, or begins as the scheduler's own do.
    """
    for pair in pairs:
        if re.match(rf"(?!{reserved})[A-Za-z_]\w*=", pair) is None:
            raise ConfigurationError(
                f"--env is {pair!r}, but must be NAME=VALUE, and not begin with {reserved}, as "
                "the scheduler's own variables do."
            )
    return dict(pair.split("=", 1) for pair in pairs)


def describe(
    flags: argparse.Namespace,
    *,
    name: str | None,
    folder: Path | None,
    added: Sequence[str] = (),
) -> Job:
    """Return the job that flags ask for.

    Args:
        flags: Those of :func:`parse`.
        name: The job's; None for the task's.
        folder: Where torchrun will start; None for a folder of an image.
        added: Flags that train.py is given besides ``--distributed``.

    Raises:
        EnvlabError: If train.py would refuse what it is given, or flags do not fit each other.
    """
    library, train = _train_words(flags.train, folder, ["--distributed", *added])
    task = check_training(library, flags.train[1:], flags.nodes) if library else None
    gpu_type, gpus = _gpus(flags.gpus_per_node)
    if gpus and flags.processes_per_node not in (None, gpus):
        raise ConfigurationError(
            f"--processes-per-node is {flags.processes_per_node}, but there is one process for "
            f"each of the {gpus} GPUs of a node. Leave it out."
        )
    return Job(
        name=name or task or "envlab",
        train=tuple(train),
        nodes=flags.nodes,
        processes_per_node=gpus or flags.processes_per_node or 1,
        gpus_per_node=gpus,
        gpu_type=gpu_type if gpus else None,
        max_restarts=flags.max_restarts,
        notice_s=flags.notice_s,
    )


def _gpus(text: str | None) -> tuple[str | None, int]:
    match = re.fullmatch(_GPUS, "0" if text is None else text)
    if match is None:
        raise ConfigurationError(
            f"--gpus-per-node is {text!r}, but must be a number, or type:number as in a100:4."
        )
    return match[1], int(match[2])


def _train_words(
    words: Sequence[str], folder: Path | None, added: Sequence[str]
) -> tuple[str | None, list[str]]:
    """Return the library, if it is one of ours, and what torchrun runs."""
    if not words:
        raise ConfigurationError(
            "There is nothing to train. Name a library and a task after the options, as in "
            "--nodes 2 rsl_rl --task Isaac-Cartpole-v0."
        )
    first, *rest = words
    given = {word.partition("=")[0] for word in rest}
    rest += [word for word in added if word.partition("=")[0] not in given]
    if first in libraries():
        path = SCRIPT.format(library=first)
        is_there = folder is not None and (folder / path).is_file()
        return first, [*([path] if is_there else ["-m", "envlab.cli", "train", first]), *rest]
    if not first.endswith(".py"):
        raise ConfigurationError(
            f"{first!r} is neither a library ({', '.join(libraries())}) nor a Python script."
            f"{did_you_mean(first, libraries())} Options of the job come before it."
        )
    if folder is not None and folder.is_dir() and not (folder / first).is_file():
        raise ConfigurationError(
            f"The script {first} is not in {folder}. Start from the folder where it is."
        )
    return library_of(first), [first, *rest]


def with_run_id(job: Job, *, name: str) -> Job:
    """Return a job that goes on in its run when it is started again, under a name that fits."""
    if run_id_of(job.train) is not None:
        return replace(job, name=name)
    return replace(job, name=name, train=(*job.train, f"--run_id={name}-{secrets.token_hex(3)}"))


def torchrun(
    job: Job,
    *,
    nodes: str,
    node_rank: str,
    processes: str,
    endpoint: str,
    options: str = "",
    python: str = "exec python",
) -> str:
    """Return bash that starts torchrun on a node; its arguments are what torchrun runs.

    Args:
        job: What is trained, and on what.
        nodes: How many nodes there are; this and the rest as bash reads it between double quotes.
        node_rank: Which of them this one is; they meet at 0.
        processes: How many processes a node has.
        endpoint: Address and port where they meet.
        options: Further ones of torchrun.
        python: How it is started. By ``exec`` it takes the place of bash, and gets its signals.
    """
    return f"""\
is_host=0
if [ "{node_rank}" = 0 ]; then is_host=1; fi
{python} -m envlab.distributed.torchrun \\
    --nnodes="{nodes}" --nproc_per_node="{processes}" --max_restarts={job.max_restarts} \\
    --rdzv_backend=c10d --rdzv_id={secrets.token_hex(8)} --rdzv_endpoint="{endpoint}" \\
    --rdzv_conf="is_host=$is_host" --shutdown_timeout={job.shutdown_timeout_s} {options}\\
    "$@"
"""


def fill(template: str, values: Mapping[str, str]) -> str:
    """Return a file's template with each ``@name@`` replaced, by lines indented as it stands.

    Args:
        template: The name of a file of this package.
        values: What stands for each name.
    """
    text = files("envlab_cluster").joinpath(template).read_text(encoding="utf-8")

    def value(match: re.Match[str]) -> str:
        return values[match[2]].rstrip("\n").replace("\n", f"\n{match[1]}")

    return re.sub(r"(?m)(?:^( *))?@(\w+)@", lambda match: (match[1] or "") + value(match), text)


STDOUT = "-"
"""What ``--output`` says to have the file printed."""


def write(text: str, path: Path) -> None:
    """Write a file for a scheduler; over an older one, but over nothing else.

    Raises:
        ConfigurationError: If that cannot be.
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


def submit(command: Sequence[str], text: str, what: str, *, cwd: str | None = None) -> str:
    """Hand a file to a scheduler's command; return what that prints.

    Args:
        command: Reads the file from its standard input.
        text: The file.
        what: What the scheduler calls it, such as a script.
        cwd: Where the command runs.

    Raises:
        LaunchError: If there is no answer, or it is no.
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
            f"the options; --dry_run shows the {what}."
        )
    return done.stdout


def say(sentence: str) -> None:
    """Print a sentence beside what is printed for a machine to read."""
    print(sentence, file=sys.stderr)
