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
        description="write a package with a task for you to change",
        words=("task",),
    ),
    Command(
        name="runs",
        main="envlab.tools.runs:main",
        usage="runs [FOLDER]",
        description="run directories: progress and outcome of each",
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
        description="test a task against the promises of every task: seeds, resumes, ranks",
    ),
    Command(
        name="export-scene",
        main="envlab.tools.export_scene:main",
        usage="export-scene TASK",
        description="write a task's scene as files for MuJoCo's viewer, with meshes",
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
        description="evaluate a run's checkpoints on episodes it was not trained in",
    ),
    Command(
        name="push",
        main="envlab.tools.push:main",
        usage="push RUN hf:OWNER/NAME",
        description="upload a policy to a Hugging Face repository, with a model card",
    ),
    Command(
        name="compare",
        main="envlab.run.compare.command:main",
        usage="compare RUN...",
        description="compare runs of any library over seeds, in a table and a picture",
    ),
    Command(
        name="motion",
        main="envlab.tools.motion:main",
        usage="motion info | convert | view | record | evaluate ...",
        description="motion clips: inspect, convert, record, and measure how a policy follows",
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
        description="replay recorded episodes, and report where they deviate from the record",
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
        description="report abilities and problems of this machine, or of these ranks",
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
