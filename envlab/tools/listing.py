"""``envlab list``: the registered tasks as a table."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tabulate import tabulate

from envlab.arguments import ArgumentParser
from envlab.registry import Task, list_tasks, load_entry_point
from envlab.run.pretrained import policies
from envlab.training.flags import guest_flags


def main(arguments: Sequence[str]) -> int:
    """Print the tasks, and return 0."""
    parser = ArgumentParser(prog="envlab list", description="List the registered tasks.")
    parser.add_argument(
        "--keyword", metavar="WORD", help="only tasks whose id or description has it"
    )
    guests = {name: guest for name, guest in guest_flags().items() if guest.listing}
    for name, guest in guests.items():
        parser.add_argument(
            f"--{name}", nargs="?", const="", metavar="FOLDER", help=guest.listing_help
        )
    flags = parser.parse_args(list(arguments))
    for name, guest in guests.items():
        folder = getattr(flags, name)
        if folder is not None:
            print(load_entry_point(guest.listing)(folder, flags.keyword))
            return 0
    tasks = list_tasks(flags.keyword)
    if tasks:
        print(table(tasks))
        print(
            "\n* comes with a trained policy: envlab play LIBRARY --task ID --checkpoint pretrained"
        )
    else:
        print(f"No task matches {flags.keyword!r}.")
    return 0


def table(tasks: Sequence[Task]) -> str:
    """Return tasks as aligned columns under a heading; a star marks an installed policy."""
    trained = {(policy.manifest["task"], policy.manifest["library"]) for policy in policies()}
    rows = [(task.id, task.kind, _libraries(task, trained), task.description) for task in tasks]
    return tabulate(rows, headers=("Task", "Kind", "Libraries", "Description"))


def _libraries(task: Task, trained: Collection[tuple[str, str]]) -> str:
    return " ".join(
        name + ("*" if (task.trained_id, name) in trained else "") for name in task.libraries
    )
