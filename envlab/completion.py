"""Completion of ``envlab ...`` in a shell, by argcomplete: commands, libraries, flags, task ids."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence

import argcomplete

from envlab.commands import commands
from envlab.errors import ConfigurationError
from envlab.libraries import libraries
from envlab.registry import list_tasks
from envlab.training.arguments import agent_parser, export_parser, play_parser, train_parser

SHELLS = ("bash", "zsh")
_START_ZSH = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit -u -D }"


def main(arguments: Sequence[str]) -> int:
    """Print the lines that make a shell complete ``envlab``."""
    if len(arguments) != 1 or arguments[0] not in SHELLS:
        raise ConfigurationError("Name a shell: envlab completion bash, or envlab completion zsh.")
    first, *lines = argcomplete.shellcode(["envlab"], shell=arguments[0]).splitlines()
    if arguments[0] == "zsh":  # whose completion system may not have been started
        lines.insert(0, _START_ZSH)
    print("\n".join([first, *lines]))
    return 0


def complete(of_libraries: Iterable[str]) -> None:
    """Send completions to the shell, and exit; without a shell, do nothing."""
    parser = argparse.ArgumentParser(prog="envlab")
    children = parser.add_subparsers()
    for name in of_libraries:
        children.add_parser(name)
    for command in commands().values():
        child = children.add_parser(command.name)
        if command.words:
            child.add_argument("word", choices=command.words)
    of_library = {
        "train": train_parser,
        "play": play_parser,
        "config": train_parser,
        "export": export_parser,
    }
    for name, parser_of in of_library.items():
        child = children.choices[name]
        child.add_argument("--rl_library", choices=libraries())
        child.add_argument("--task")
        below = _with_tasks(child).add_subparsers()
        for library in libraries().values():
            below.choices[library.name] = _with_tasks(parser_of(library))
    for name in ("random", "zero", "scripted"):
        children.choices[name] = _with_tasks(agent_parser(name))
    argcomplete.autocomplete(parser, always_complete_options="long")


def _with_tasks(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    for action in parser._actions:
        if action.dest == "task":
            action.completer = lambda **_: [task.id for task in list_tasks()]  # type: ignore
    return parser
