"""The table of flags, with Isaac Lab's names: everything about a flag is declared at its field.

Its annotation has its type, its range, and what it excludes or requires (:mod:`envlab.config`);
:func:`flag` its help and its commands. The parser, ``--help``, completion, the checks and the table
in ``docs/flags.md`` follow from this.

Anything else is a Hydra override: ``env.scene.num_envs=64 agent.max_iterations=20``. A flag wins
over an override of the same value. A library with its own flags names a subclass in
:attr:`envlab.libraries.Library.flags`.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import types
import typing
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from envlab.config.ranges import (
    Excludes,
    PositiveInt,
    Range,
    Requires,
    check_conditions,
    check_range,
)
from envlab.distributed.ranks import NUM_PROCESSES
from envlab.distributed.timeouts import DEFAULT_TIMEOUT_S, LEAST_TIMEOUT_S
from envlab.errors import ConfigurationError
from envlab.libraries import Library
from envlab.plugins import load_plugins
from envlab.task import load_entry_point

PORT = 8088
"""The first port that ``--viz web`` tries."""
PRETRAINED = "--checkpoint=pretrained"
ENTRY_POINT_GROUP = "envlab.flags"
_ALL = "train play export agent"
_OF_A_LIBRARY = "train play export"


def flag(
    text: str,
    metavar: str | None = None,
    *,
    of: str = "train",
    default: Any = None,
    names: Sequence[str] = (),
    choices: Collection[str] | None = None,
    convert: Callable[[str], Any] | None = None,
    exclusive_group: str = "",
    path: str = "",
    is_required: bool = False,
    **texts: str,
) -> Any:
    """Return a field that is a flag.

    Args:
        text: The help.
        metavar: Name of the value in the help.
        of: The commands that have it: ``train`` (and ``config``), ``play``, ``export``, ``agent``.
        default: The value if it is not given, or if a command does not have the flag.
        names: All its spellings, if not just ``--<name of the field>``.
        choices: The values that it may have.
        convert: Converts the text to the value, if the field's type does not.
        path: The value that a guest's function sets by it, for messages: ``population.size``.
        exclusive_group: A command line may have only one of the flags of a group.
        is_required: Whether it must be given.
        texts: Further commands that have it, each with its own help.
    """
    about = {
        "metavar": metavar,
        "names": names,
        "choices": choices,
        "convert": convert,
        "exclusive_group": exclusive_group,
        "path": path,
        "required": is_required,
        "helps": dict.fromkeys(of.split(), text) | texts,
    }
    return dataclasses.field(default=default, metadata=about)


def switch(text: str, *, of: str = "train", names: Sequence[str] = ()) -> Any:
    """Return a field that is a flag without a value; see :func:`flag`."""
    return flag(text, of=of, names=names, default=False)


def whole_number(text: str) -> int:
    """Return a whole number, which may be written as 2e6.

    Raises:
        ValueError: If it is none.
    """
    try:
        return int(text)
    except ValueError:
        number = float(text)
        if not number.is_integer():
            raise ValueError(text) from None
        return int(number)


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)  # each takes a millisecond to make
class Flags:
    """The flags of ``train``, ``config``, ``play``, ``export``, ``random`` and ``zero``.

    Each field always exists; those that a command does not have are at their defaults.
    """

    task: str = flag("task id; 'envlab list' shows all", "ID", of=_ALL, is_required=True)
    seed: Annotated[int, Range(at_least=-1)] | None = flag(
        "base seed of everything random; -1 draws one", "N", of=_ALL
    )
    device: str | None = flag(
        "cpu, cuda or cuda:<index> (default: cuda if there is one)", "DEVICE", of=_ALL
    )
    headless: bool = switch("accepted for Isaac Lab's commands; always true", of=_ALL)
    verbose: bool = switch("log everything, on every process", of=_ALL)
    agent: str | None = flag(
        "registry key of the agent's configuration (default: <library>_cfg_entry_point)",
        "KEY",
        of=_OF_A_LIBRARY,
    )
    trust: list[str] | None = flag(
        "let a run's files name code of this module or package, not just that of tasks; may be "
        "given several times",
        "MODULE",
        of=_OF_A_LIBRARY,
    )
    num_envs: Annotated[
        PositiveInt | None,
        Excludes("--global_num_envs", "the first counts per process, the second in all"),
    ] = flag(
        "environments per process (default: the task's; on CPU, what suits the machine)",
        "N",
        play="environments (default: 64)",
        agent="environments (default: 64)",
    )
    num_episodes: PositiveInt | None = flag(
        "episodes to run (default: one per environment)", "N", of="play"
    )
    num_steps: PositiveInt | None = flag("steps (default: 300)", "N", of="agent")
    global_num_envs: PositiveInt | None = flag("environments of all processes together", "N")
    lr_scaling: str | None = flag(
        "multiply learning rates by the number of processes or its root (default: none)",
        choices=("none", "linear", "sqrt"),
    )
    max_iterations: PositiveInt | None = flag("iterations in all, including resumed ones", "N")
    max_frames: Annotated[
        PositiveInt | None, Excludes("--max_iterations", "each says when training ends")
    ] = flag("environment steps of all processes, instead of iterations", "N", convert=whole_number)
    nproc: int | None = flag(
        "start N processes on this machine, which train together", "N", names=NUM_PROCESSES
    )
    distributed: bool = switch("one of several processes of torch.distributed.run")
    grad_sync: str = flag(
        "what averages gradients: torch's DistributedDataParallel (default) or the library; or "
        "local: ranks learn alone, and are averaged every agent.sync_interval iterations",
        choices=("ddp", "library", "local"),
        default="ddp",
    )
    allow_different_code: bool = switch(
        "train although ranks have different files or versions of what they train with"
    )
    timeout_s: Annotated[float, Range(at_least=LEAST_TIMEOUT_S, below=math.inf)] = flag(
        "end the job when a rank makes no progress for this long (default: %(default)g)",
        "SECONDS",
        default=DEFAULT_TIMEOUT_S,
    )
    resume: Annotated[
        bool, Excludes(PRETRAINED, "it holds no optimizer, so training cannot continue from it")
    ] = switch("continue the newest run of the experiment")
    load_run: Annotated[str | None, Excludes(PRETRAINED, "that policy is of no run in logs/")] = (
        flag(
            "the run's folder, a name or a pattern (default: the newest)",
            "RUN",
            of="play export",
            train="where the checkpoint is: the run's folder, a name or a pattern",
        )
    )
    checkpoint: str | None = flag(
        "latest (default), best, a file name, the path of a file or a run, pretrained: one that "
        "envlab brings, hf:OWNER/NAME, or wandb:ENTITY/PROJECT/RUN",
        "CKPT",
        of="play export",
        train="with --resume: latest (default), best, a file name, or the path of a file or a run; "
        "without, by rsl_rl: the teacher, or the policy to fine-tune, also pretrained; "
        "scripted: the task's policy by hand as the teacher",
        exclusive_group="checkpoint",
    )
    joint_order: Literal["envlab", "isaaclab"] = flag(
        "whose order the joints in observations and actions have (default: envlab)",
        of="export",
        choices=("envlab", "isaaclab"),
        convert=str,
        default="envlab",
    )
    run_id: str | None = flag(
        "name of this training; the same command later continues in its run directory", "ID"
    )
    requeue: bool = switch("have Slurm requeue the job when SIGUSR1 (--signal=USR1@180) ends it")
    experiment_name: str | None = flag(
        "folder of the runs (default: the agent's)", "NAME", of=_OF_A_LIBRARY
    )
    run_name: str | None = flag(
        "appended to the run's timestamp", "NAME", names=("--run_name", "--wandb-name")
    )
    logger: str | None = flag("tensorboard (default), wandb, mlflow or trackio", "NAME")
    log_project_name: str | None = flag(
        "project at wandb or trackio, experiment at mlflow (default: WANDB_PROJECT and the like, "
        "or the experiment's name)",
        "NAME",
        names=("--log_project_name", "--wandb-project-name"),
    )
    wandb_entity: str | None = flag(
        "user or team whose project it is (default: WANDB_ENTITY, or the account's own)",
        "NAME",
        names=("--wandb_entity", "--wandb-entity"),
    )
    multirun: bool = switch(
        "run every combination of comma-separated override values", names=("-m", "--multirun")
    )
    dry_run: bool = switch(
        "print configuration, world, run directory and memory; simulate and write nothing"
    )
    config: str | None = flag(
        "start from the configuration of this run, or of a file of 'envlab config', instead of "
        "the task's defaults",
        "PATH",
    )
    validate: bool = switch(
        "evaluate the newest checkpoints during the training, on the first node, like 'envlab "
        "validate'"
    )
    real_time: bool = switch("run in real time", of="play", names=("--real-time", "--real_time"))
    as_trained: Annotated[bool, Requires(PRETRAINED)] = switch(
        "with --checkpoint pretrained: take the environment that the policy was trained in, also "
        "where it differs from the task's",
        of="play export",
    )
    no_export: bool = switch("do not write exported/", of="play")
    json: Path | None = flag("also write the summary to this file", "FILE", of="play")
    video: bool = switch("record environment 0 to videos/", of="train play")
    video_length: Annotated[PositiveInt | None, Requires("--video")] = flag(
        "steps of a video (default: 200)", "N", of="train play"
    )
    video_interval: Annotated[PositiveInt | None, Requires("--video")] = flag(
        "steps between the starts of two videos (default: 2000)", "N"
    )
    skin: str | None = flag(
        "draw the visual meshes of this MJCF file, whose bodies have the same names, or those of "
        "the robot in the menagerie, in place of its shapes; the physics stays as it is",
        "FILE",
        of="train play agent",
    )
    viz: str | None = flag(
        "watch live: web, in a browser, or native, in MuJoCo's window",
        "VIEWER",
        of="train play agent",
        names=("--viz", "--visualizer"),
    )
    viz_port: Annotated[
        Annotated[int, Range(at_least=1, at_most=65535)] | None, Requires("--viz=web")
    ] = flag(
        f"with --viz web: the port, or the next free one (default: {PORT})",
        "N",
        of="train play agent",
    )

    algorithm: str | None = None
    """A flag of libraries that have several."""
    ml_framework: str | None = None
    """A flag of libraries that have several."""
    without_effect: list[str] = dataclasses.field(default_factory=list)
    """The given flags of Isaac Lab that have no effect here."""
    command: str = ""
    """The flags' command: ``train`` (also for ``config``), ``play``, ``export`` or ``agent``."""

    def given(self) -> dict[str, Any]:
        """Return the flags that are not at their defaults."""
        defaults = vars(type(self)(command=self.command))
        return {name: value for name, value in vars(self).items() if value != defaults[name]}


@dataclasses.dataclass(frozen=True, kw_only=True)
class GuestFlags:
    """Flags that a guest adds, by an entry point of the group ``envlab.flags``."""

    flags: str
    """``module:Class``: a dataclass whose fields are flags, as those of :class:`Flags`."""
    prepare: str | None = None
    """``module:function``, ``(flags, overrides) -> overrides``: called before the task is looked
    up, if one of them was given. It may register the task, and translate overrides."""
    plan: str | None = None
    """``module:function``, ``(RunPlan) -> RunPlan``: their effect, if one of them was given, and
    that of ``cfg``."""
    cfg: str | None = None
    """``module:Class``: a configuration whose root is the name of the entry point."""
    free: str = ""
    """Path of a dictionary of it to which overrides add without a ``+``: ``population.ranges``."""
    only: str = ""
    """An attribute that must be true of a library that is to have them."""
    listing: str | None = None
    """``module:function``, ``(folder, keyword) -> text``: what ``envlab list --NAME [FOLDER]``
    prints in place of the registered tasks, NAME being that of the entry point. The folder is empty
    if it is not given, and the keyword None."""
    listing_help: str = ""
    """What ``envlab list --help`` says of it."""


def guest_flags() -> dict[str, GuestFlags]:
    """Return what installed packages add, by the names of their entry points."""
    return load_plugins(ENTRY_POINT_GROUP, GuestFlags).found


def guests_of(library: Library) -> dict[str, GuestFlags]:
    """Return what installed packages add to a library's flags."""
    found = guest_flags().items()
    return {name: one for name, one in found if not one.only or getattr(library, one.only)}


def flags_of(library: Library) -> type[Flags]:
    """Return the class of a library's flags, with those that guests add."""
    own: type[Flags] = Flags if library.flags is None else load_entry_point(library.flags)
    guests = [load_entry_point(guest.flags) for guest in guests_of(library).values()]
    if not guests:
        return own
    options: dict[str, Any] = {"kw_only": True, "eq": False, "repr": False}
    return dataclasses.make_dataclass(own.__name__, (), bases=(*guests, own), **options)


def flag_names(flags: type[Flags]) -> set[str]:
    """Return the names of the flags of a class that some command has."""
    return {field.name for field in dataclasses.fields(flags) if field.metadata.get("helps")}


def check_flags(flags: Flags) -> None:
    """Refuse flags out of their range, or that exclude or lack each other.

    Raises:
        ConfigurationError: Naming the first of them.
    """
    for name, value in vars(flags).items():
        check_range(type(flags), name, value, f"--{name}")
    check_conditions({"--": flags}, lambda setting: given_flag(flags, setting))
    if flags.run_id == "":  # as from an unset variable
        raise ConfigurationError(
            "--run_id is empty, so unrelated runs would share a name. "
            "Give a name, or leave the flag out."
        )
    if flags.multirun and flags.resume and flags.checkpoint is None and flags.load_run is None:
        raise ConfigurationError(
            "--resume takes the newest run, which with -m would be the run before. Name the one "
            "that all begin with by --load_run or --checkpoint; or give a sweep that may be ended "
            "a --run_id from its start, with which the same command continues it."
        )


def is_given(flags: Flags, some: type) -> bool:
    """Return whether one of the flags of a guest's class was given."""
    fields = dataclasses.fields(some)
    return any(getattr(flags, field.name, field.default) != field.default for field in fields)


def guest_words(flags: Flags, command: str) -> list[str]:
    """Return the given flags of guests that a command has too, as words."""
    fields = [
        field
        for guest in guest_flags().values()
        for field in dataclasses.fields(load_entry_point(guest.flags))
        if command in field.metadata["helps"]
    ]
    given = {one.name: getattr(flags, one.name, one.default) for one in fields}
    return [f"--{one.name}={given[one.name]}" for one in fields if given[one.name] != one.default]


def given_flag(flags: Flags, setting: str) -> str | None:
    """Return a flag as it was given; None if it was not.

    Args:
        flags: All flags.
        setting: ``--name``, or ``--name=value`` if only this value counts.
    """
    name, _, wanted = setting.removeprefix("--").partition("=")
    field = type(flags).__dataclass_fields__.get(name)
    if field is None or not setting.startswith("--"):
        return None
    value = getattr(flags, name)
    if value == field.default or wanted not in ("", str(value)):
        return None
    return f"--{name}" if value is True else f"--{name} {value}"


def add_flags(parser: argparse.ArgumentParser, flags: type[Flags], command: str) -> None:
    """Add the flags of a class that a command has."""
    groups: dict[str, argparse._MutuallyExclusiveGroup] = {}
    types_of = typing.get_type_hints(flags)
    for field in dataclasses.fields(flags):
        about = field.metadata
        if command not in about.get("helps", {}):
            continue
        options: dict[str, Any] = {"help": about["helps"][command], "default": field.default}
        kind = _without_none(types_of[field.name])
        if kind is bool:
            options["action"] = "store_true"
        else:
            options |= {name: about[name] for name in ("metavar", "choices", "required")}
            options["type"] = about["convert"] or kind
        if kind == list[str]:
            options |= {"action": "append", "type": str}
        group = about["exclusive_group"]
        if group and group not in groups:
            groups[group] = parser.add_mutually_exclusive_group()
        holder = groups.get(group, parser)
        holder.add_argument(*about["names"] or [f"--{field.name}"], dest=field.name, **options)


def _without_none(kind: Any) -> Any:
    """Return ``int`` for ``int | None``."""
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        return next(one for one in typing.get_args(kind) if one is not types.NoneType)
    return kind
