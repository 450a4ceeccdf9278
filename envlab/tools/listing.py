"""``envlab list``: the registered tasks as a table."""

from __future__ import annotations

from collections.abc import Sequence

from tabulate import tabulate

from envlab.registry import Task, list_tasks
from envlab.rl.command.arguments import ArgumentParser


def main(arguments: Sequence[str]) -> int:
    """Print the tasks, and return 0."""
    parser = ArgumentParser(prog="envlab list", description="List the registered tasks.")
    parser.add_argument(
        "--keyword", metavar="WORD", help="only tasks whose id or description has it"
    )
    flags = parser.parse_args(list(arguments))
    tasks = list_tasks(flags.keyword)
    if tasks:
        print(table(tasks))
    else:
        print(f"No task matches {flags.keyword!r}.")
    return 0


def table(tasks: Sequence[Task]) -> str:
    """Return tasks as aligned columns under a heading."""
    rows = [(task.id, task.kind, " ".join(task.libraries), task.description) for task in tasks]
    return tabulate(rows, headers=("Task", "Kind", "Libraries", "Description"))
