"""``envlab new task NAME``: a package with a task, as a template for your own."""

from __future__ import annotations

import importlib.util
import keyword
import os
import re
from collections.abc import Sequence
from pathlib import Path

from envlab.arguments import ArgumentParser
from envlab.errors import ConfigurationError
from envlab.run.commands import typed

TEMPLATE = Path(__file__).with_name("template")
NAME = "my_reach"
"""The package's name in the template; the task is My-Reach-v0."""


def main(arguments: Sequence[str]) -> int:
    """Write the package and print what to do with it; return 0.

    Raises:
        ConfigurationError: If the name is not valid for a package, or is taken.
    """
    parser = ArgumentParser(
        prog="envlab new",
        description="Write a new package with a task: registration, configuration, model, "
        "agent and a test.",
    )
    parser.add_argument("what", choices=("task",), metavar="task", help="task")
    parser.add_argument("name", metavar="NAME", help="name of the package, such as my_reach")
    flags = parser.parse_args(list(arguments))
    folder = write_task(flags.name, Path.cwd())
    task = f"--task={task_id(flags.name)}"
    print(
        f"Wrote {flags.name}/. It is a two-link arm; change it into your task. It works as it is:\n"
        f"  {typed(['pip', 'install', '--no-deps', '--no-build-isolation', '-e', folder.name])}\n"
        f"  {typed(['python', '-m', 'pytest', folder.name])}{_how_to_get_pytest()}\n"
        f"  {typed(['envlab', 'train', 'rsl_rl', task])}    # about 30 s of CPU\n"
        f"  {typed(['envlab', 'play', 'rsl_rl', task, '--video'])}"
    )
    return 0


def _how_to_get_pytest() -> str:
    """Return a comment where pytest is neither here nor installed by envlab.sh when called."""
    is_there = importlib.util.find_spec("pytest") or "ENVLAB_SH" in os.environ
    return "" if is_there else "    # after: pip install pytest"


def write_task(name: str, where: Path) -> Path:
    """Write the package to a new folder, and return the folder.

    Args:
        name: Name of the package, a word of lower-case letters, digits and ``_``.
        where: The folder in which to make it.

    Raises:
        ConfigurationError: If the name is not valid for a package, or the folder exists.
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name) or keyword.iskeyword(name):
        raise ConfigurationError(
            f"{name!r} is not a valid name for a package. Use small letters, digits and _, and "
            "begin with a letter, as in my_reach."
        )
    folder = where / name
    if folder.exists():
        raise ConfigurationError(f"{folder} already exists. Give another name, or remove it.")
    for source in sorted(TEMPLATE.rglob("*")):
        if source.is_file() and "__pycache__" not in source.parts:
            path = folder / str(source.relative_to(TEMPLATE)).replace(NAME, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            text = source.read_text(encoding="utf-8")
            path.write_text(
                text.replace(task_id(NAME), task_id(name)).replace(NAME, name), encoding="utf-8"
            )
    return folder


def task_id(name: str) -> str:
    """Return the id of the task in a package: ``My-Reach-v0`` in ``my_reach``."""
    return "-".join(word.capitalize() for word in name.split("_")) + "-v0"
