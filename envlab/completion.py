"""Completion of ``envlab ...`` in a shell, by argcomplete: commands, libraries, flags, task ids."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence

import argcomplete

from envlab.errors import ConfigurationError
from envlab.registry import list_tasks
from envlab.rl.command.arguments import agent_parser, play_parser, train_parser
from envlab.rl.libraries import libraries

SHELLS = ("bash", "zsh")


def main(arguments: Sequence[str]) -> int:
    """Print the lines that have a shell complete ``envlab``."""
    if len(arguments) != 1 or arguments[0] not in SHELLS:
        raise ConfigurationError("Name a shell: envlab completion bash, or envlab completion zsh.")
    print(argcomplete.shellcode(["envlab"], shell=arguments[0]))
    return 0


def complete(commands: Iterable[str]) -> None:
    """Tell the shell what the words so far may become, and exit; without a shell, do nothing."""
    parser = argparse.ArgumentParser(prog="envlab")
    children = parser.add_subparsers()
    for name in commands:
        children.add_parser(name)
    for name, parser_of in (("train", train_parser), ("play", play_parser)):
        of_library = children.choices[name].add_subparsers()
        for library in libraries().values():
            of_library.choices[library.name] = _with_tasks(parser_of(library))
    for name in ("random", "zero"):
        children.choices[name] = _with_tasks(agent_parser(name))
    children.choices["completion"].add_argument("shell", choices=SHELLS)
    argcomplete.autocomplete(parser, always_complete_options="long")


def _with_tasks(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    for action in parser._actions:
        if action.dest == "task":
            action.completer = lambda **_: [task.id for task in list_tasks()]  # type: ignore
    return parser
