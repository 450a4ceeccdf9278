"""The commands of ``envlab``: those of the core, and those of installed packages.

A package adds a command by an entry point of the group ``envlab.commands`` that names a
:class:`Command`. Reading them imports the module of each entry point, so it should contain little
else. One that cannot be loaded is reported and skipped.
"""

from __future__ import annotations

from dataclasses import dataclass

from envlab.plugins import load_plugins
from envlab.tools.terms import KINDS

ENTRY_POINT_GROUP = "envlab.commands"


@dataclass(frozen=True, kw_only=True)
class Command:
    """A word after ``envlab``."""

    name: str
    main: str
    """``module:function``, which maps the following words to the exit code."""
    usage: str
    """The command as typed, for ``envlab --help``, such as ``compare RUN...``."""
    description: str
    """One line, or several, for ``envlab --help``."""
    words: tuple[str, ...] = ()
    """Completions for the first word after it."""


CORE = (
    Command(
        name="list",
        main="envlab.tools.listing:main",
        usage="list [--keyword WORD]",
        description="tasks, and the libraries they are configured for",
    ),
    Command(
        name="new",
        main="envlab.tools.new:main",
        usage="new task NAME",
        description="write a package with a task, to be changed into your own",
        words=("task",),
    ),
    Command(
        name="runs",
        main="envlab.tools.runs:main",
        usage="runs [FOLDER]",
        description="run directories: how far each is, and how it ended",
    ),
    Command(
        name="terms",
        main="envlab.tools.terms:main",
        usage="terms [KIND]",
        description="the terms of tasks: observations, rewards, events, ...",
        words=KINDS,
    ),
    Command(
        name="random",
        main="envlab.tools.agents:random_main",
        usage="random | zero | scripted --task ID ...",
        description="step a task with random or zero actions, or by its scripted policy",
    ),
    Command(name="zero", main="envlab.tools.agents:zero_main", usage="", description=""),
    Command(name="scripted", main="envlab.tools.agents:scripted_main", usage="", description=""),
    Command(
        name="check",
        main="envlab.tools.check:main",
        usage="check TASK",
        description="whether a task keeps what is promised of every task: seeds, resumes, ranks",
    ),
    Command(
        name="export-scene",
        main="envlab.tools.export_scene:main",
        usage="export-scene TASK",
        description="a task's scene as files that MuJoCo's viewer opens, with meshes",
    ),
    Command(
        name="warm",
        main="envlab.tools.warm:main",
        usage="warm --task ID ...",
        description="compile the GPU kernels of a task ahead of its first run",
    ),
    Command(
        name="validate",
        main="envlab.training.validate:main",
        usage="validate RUN",
        description="judge a run's checkpoints by episodes it was not trained in",
    ),
    Command(
        name="push",
        main="envlab.tools.push:main",
        usage="push RUN hf:OWNER/NAME",
        description="a policy to a Hugging Face repository, with a model card",
    ),
    Command(
        name="compare",
        main="envlab.run.compare.command:main",
        usage="compare RUN...",
        description="runs of any library as a table and a picture, over seeds",
    ),
    Command(
        name="motion",
        main="envlab.tools.motion:main",
        usage="motion info | convert | view | record | evaluate ...",
        description="clips that robots follow: look, convert, record, and how well one is followed",
        words=("info", "convert", "view", "record", "evaluate"),
    ),
    Command(
        name="record",
        main="envlab.tools.record:main",
        usage="record LIBRARY --output PATH ...",
        description="record a policy's episodes as a dataset, LeRobot's or in HDF5",
    ),
    Command(
        name="replay",
        main="envlab.tools.replay:main",
        usage="replay FILE ...",
        description="play recorded episodes again, and say where they part from the record",
    ),
    Command(
        name="evidence",
        main="envlab.tools.evidence.command:main",
        usage="evidence list | run NAME | page",
        description="experiments over seeds: claims about learning, and their results",
        words=("list", "run", "page"),
    ),
    Command(
        name="doctor",
        main="envlab.doctor.command:main",
        usage="doctor",
        description="abilities and problems of this machine, or of these ranks",
    ),
    Command(
        name="deploy",
        main="envlab.tools.deploy:main",
        usage="deploy DIRECTORY",
        description="run an exported policy in MuJoCo alone, without torch",
    ),
    Command(
        name="completion",
        main="envlab.completion:main",
        usage="completion bash | zsh",
        description="print the code that makes the shell complete these commands",
        words=("bash", "zsh"),
    ),
)


def commands() -> dict[str, Command]:
    """Return all commands by name, except those followed by a library's name."""
    found = {command.name: command for command in CORE}
    for command in load_plugins(ENTRY_POINT_GROUP, Command).found.values():
        found.setdefault(command.name, command)
    return found
