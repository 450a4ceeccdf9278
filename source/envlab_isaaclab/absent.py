"""Small packages that Isaac Lab imports for little: stand-ins where they are not installed."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import tomllib
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tabulate import tabulate


class PrettyTable:
    """A table in text, as the managers print themselves."""

    def __init__(self, field_names: Sequence[Any] | None = None) -> None:
        self.title = ""
        self.field_names = list(field_names or [])
        self.align: dict[str, str] = {}
        self.custom_format: dict[str, Any] = {}
        self.rows: list[list[Any]] = []

    def add_row(self, row: Sequence[Any], **keywords: Any) -> None:
        """Add a row."""
        self.rows.append(list(row))

    def get_string(self, **keywords: Any) -> str:
        """Return the table as text."""
        table = tabulate(
            self.rows, headers=[str(name) for name in self.field_names], tablefmt="psql"
        )
        return f"{self.title}\n{table}" if self.title else table

    __str__ = get_string


def _load(file: Any) -> dict[str, Any]:
    text = file.read() if hasattr(file, "read") else Path(file).read_text(encoding="utf-8")
    return tomllib.loads(text)


def offer() -> None:
    """Let ``prettytable``, ``toml`` and the like be imported where they are not installed.

    ``gym`` is Gymnasium, whose spaces are those that rl_games itself knows.
    """
    made: dict[str, dict[str, Any]] = {
        "prettytable": {"PrettyTable": PrettyTable},
        "toml": {"load": _load, "loads": tomllib.loads},
    }
    for name, names in made.items():
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            module = types.ModuleType(name)
            vars(module).update(names)
            sys.modules[name] = module
    if importlib.util.find_spec("gym") is None:
        for name in ("", ".spaces"):
            sys.modules[f"gym{name}"] = importlib.import_module(f"gymnasium{name}")
