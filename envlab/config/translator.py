"""One translator of other projects' files: a table says what becomes of each key.

A row takes a key as a setting of ours, refuses it, or says why it has no effect::

    ROWS = {
        "algorithm.gamma": Take("agent.agent.discount_factor", Translator.number),
        "algorithm.recurrent": Refuse("members have no recurrent networks: set it to false"),
        "run.WANDB": NoEffect("add --logger=wandb"),
    }
    file = Translator(values, peer="agilerl", file="dqn.yaml")
    settings = file.translated(ROWS)

Where several keys make one value, a function reads them by the same methods. Nothing is ignored
silently: :meth:`Translator.report` has each key that nothing has read, and why.
"""

from __future__ import annotations

import copy
import fnmatch
import functools
import json
import operator
import re
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, nan
from typing import Any, TypeVar

from envlab.errors import ConfigurationError, did_you_mean

T = TypeVar("T")


@dataclass(frozen=True)
class NoEffect:
    """A key without effect here."""

    why: str


@dataclass(frozen=True)
class Refuse:
    """A key that a user would miss."""

    why: str
    """What follows ``is VALUE, but``, and what to do."""
    unless: tuple[Any, ...] = ()
    """Values that change nothing, besides null and false."""


@dataclass(frozen=True)
class Take:
    """A key that is a setting here."""

    to: str
    """Path of the setting."""
    read: Callable[[Translator, str, Any], Any] | None = None
    """Returns the value for a file, a key and the default: a method such as
    :meth:`Translator.number`, or a function; None: the file's value."""
    default: Any = None
    """Value if the file has none; None: the setting keeps its own default."""
    note: str = ""
    """How its meaning differs, for the report."""


Rows = dict[str, Take | Refuse | NoEffect]
"""What becomes of keys, by their paths; ``*`` matches any text."""


class Translator:
    """The settings of another project's file, which record which of them were read.

    Null counts as absent.

    Attributes:
        file: Name of the file in messages.
        notes: Lines on differences.
        path: Of the part that keys are in; empty for the whole file.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        *,
        peer: str,
        file: str,
        cure: str = "Change the file.",
    ) -> None:
        """Take a file's values, nested as in the file, and the peer's name for the report.

        ``cure`` says what to do about a refusal whose reason does not (after a colon), with
        ``{key}`` for the key's path.
        """
        self.file, self.path, self.notes = file, "", list[str]()
        self._peer, self._cure, self._values = peer, cure, values
        self._read: set[str] = set()
        self._reasons: dict[str, str] = {}

    def part(self, key: str) -> Translator:
        """Return the part of the file at a key, whose keys are relative to it."""
        if not isinstance(value := self.given(key), Mapping | None):
            raise self.refusal(key, value, "must be a dictionary")
        part = copy.copy(self)  # what was read is shared
        part.path = self._full(key)
        return part

    def given(self, key: str) -> Any:
        """Return a value as the file has it, without counting it as read."""
        return self._at(self._full(key))

    def names(self, key: str) -> list[str]:
        """Return the names of the settings in a part."""
        value = self.given(key)
        return [str(name) for name in value] if isinstance(value, Mapping) else []

    def take(self, key: str, default: Any = None) -> Any:
        """Return a value of any kind."""
        self._read.add(self._full(key))
        value = self.given(key)
        return default if value is None else value

    def number(
        self, key: str, default: Any = None, *, least: float = 0.0, below: float = inf
    ) -> Any:
        """Return a float of at least ``least`` and below another, or the default."""
        value = self.take(key, default)
        number = _float(value)
        if value is not None and not least <= number < below:
            bounds = [f"of at least {least:g}"] * (least > -inf)
            bounds += [f"below {below:g}"] * (below < inf)
            raise self.refusal(key, value, f"must be a number {' and '.join(bounds)}".rstrip())
        return None if value is None else number

    def whole(self, key: str, default: int | None = None, *, least: int = 0) -> Any:
        """Return a whole number of at least ``least``, or the default; 1e6 is one."""
        number = self.number(key, default, least=least)
        if number is not None and not number.is_integer():
            raise self.refusal(key, self.take(key, default), "must be a whole number")
        return None if number is None else int(number)

    def count(self, key: str, default: int | None = None) -> Any:
        """Return a whole number of at least 1, or the default."""
        return self.whole(key, default, least=1)

    def flag(self, key: str, default: bool = False) -> bool:
        """Return a truth value."""
        return bool(self._typed(key, bool, "true or false", default))

    def text(self, key: str, default: str | None = None) -> str | None:
        """Return a text, or the default."""
        return self._typed(key, str, "a text", default)

    def mapping(self, key: str) -> dict[str, Any]:
        """Return keys and values, of which there may be none."""
        return self._typed(key, dict, "a dictionary", None) or {}

    def sizes(self, key: str, default: Sequence[int] = ()) -> list[int]:
        """Return whole numbers of at least 1, of which there may be none."""
        value = self.take(key, list(default))
        sizes = [_float(one) for one in value] if isinstance(value, list) else [0.0]
        if not all(size >= 1 and size.is_integer() for size in sizes):
            raise self.refusal(key, value, "must be a list of whole numbers such as [64, 64]")
        return [int(size) for size in sizes]

    def choice(self, key: str, default: Any = None, *, known: Collection[Any]) -> Any:
        """Return one of the known names, or our counterpart of it."""
        value = self.take(key, default)
        if not isinstance(value, Hashable) or value not in known:
            names = [name for name in known if isinstance(name, str)]
            why = f"must be one of {', '.join(map(repr, names))}.{did_you_mean(str(value), names)}"
            raise self.refusal(key, value, why)
        return known[value] if isinstance(known, Mapping) else value

    def refuse(self, key: str, why: str, *unless: Any) -> None:
        """Refuse a value that is neither null, false nor one of those that change nothing."""
        value = self.take(key)
        if value not in (None, False, *unless):
            raise self.refusal(key, value, why)

    def refusal(self, key: str, value: Any, why: str) -> ConfigurationError:
        """Return the one sentence on a value that cannot be taken."""
        path, end = self._full(key), "" if why.endswith("?") else "."
        cure = "" if ": " in why else f" {self._cure.format(key=path)}"
        return ConfigurationError(
            f"{path} in {self.file} is {value!r:.80}, but {why.rstrip('.')}{end}{cure}"
        )

    def translated(self, rows: Rows) -> dict[str, Any]:
        """Return our settings by path, for a table.

        Raises:
            ConfigurationError: For a key that a row refuses, or a value of the wrong kind.
        """
        found = {}
        for key, row in self._expanded(rows):
            if isinstance(row, NoEffect):
                self._reasons[self._full(key)] = row.why
            elif isinstance(row, Refuse):
                self.refuse(key, row.why, *row.unless)
            else:
                value = (row.read or Translator.take)(self, key, row.default)
                if row.note and self.given(key) is not None:
                    self.notes.append(f"{self._full(key)}: {row.note}")
                if value is not None:
                    found[row.to] = value
        return found

    def lay(self, tree: dict[str, Any], *tables: Rows) -> None:
        """Put what tables take into a configuration; see :meth:`translated`."""
        for rows in tables:
            for path, value in self.translated(rows).items():
                put(tree, path, value)

    def rewritten(self, rows: Rows) -> dict[str, Any]:
        """Return all of the file's values, with those keys changed that a table has.

        Raises:
            ConfigurationError: See :meth:`translated`.
        """
        keys = set(paths(self._values))
        present = {key: row for key, row in self._expanded(rows) if key in keys}
        tree = copy.deepcopy(dict(self._values))
        for key, row in present.items():
            *holders, name = key.split(".")
            if not isinstance(row, Refuse):
                del functools.reduce(operator.getitem, holders, tree)[name]
            if isinstance(row, Take):
                self.notes.append(f"{key} is {row.to}")
        self._read |= {path for path in paths(tree) if not isinstance(self._at(path), Mapping)}
        self.lay(tree, present)
        return tree

    def report(self) -> dict[str, str]:
        """Return why each key that nothing has read has no effect; null and false need no reason.

        A part has the keys in it.
        """
        found = {}
        for path in self._unread(self._at(self.path), self.path):
            holder, _, name = path.rpartition(".")
            known = [one.rpartition(".") for one in self._read if self._at(one) is None]
            near = did_you_mean(name, [last for at, _, last in known if at == holder], 1)
            why = f"nothing here is like it{near and '.'}{near}"
            found[path] = self._reasons.get(path, why)
        return found

    def refuse_unknown(self, keys: Collection[str]) -> None:
        """Refuse keys that a command line has set, where nothing here is like them.

        Raises:
            ConfigurationError: Naming the first of them, and the nearest key that was read.
        """
        for path in self.report():
            if path in keys and path not in self._reasons:
                near = did_you_mean(path, self._read, 1) or " Leave it out."
                raise ConfigurationError(f"{path} is no setting of {self.file}.{near}")

    def lines(self) -> list[str]:
        """Return a line for each difference, and for each key without effect."""
        unread = [f"{path} has no effect: {why}" for path, why in self.report().items()]
        return [f"[{self._peer}] {self.file}: {line}" for line in (*self.notes, *unread)]

    def _full(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def _at(self, path: str) -> Any:
        value: Any = self._values
        for name in path.split(".") if path else ():
            value = value.get(name) if isinstance(value, Mapping) else None
        return value

    def _unread(self, values: Any, above: str) -> Iterator[str]:
        """Yield the paths of what nothing has read, of a part that is unread as a whole its own."""
        for name, value in values.items() if isinstance(values, Mapping) else ():
            path = f"{above}.{name}" if above else str(name)
            if path in self._read or value is None or value is False or value == {}:
                continue
            below = any(one.startswith(f"{path}.") for one in (*self._read, *self._reasons))
            if below and isinstance(value, Mapping):
                yield from self._unread(value, path)
            else:
                yield path

    def _typed(self, key: str, kind: type[T], expected: str, default: T | None) -> T | None:
        value = self.take(key, default)
        if value is not None and not isinstance(value, kind):
            raise self.refusal(key, value, f"must be {expected}")
        return value

    def _expanded(self, rows: Rows) -> Iterator[tuple[str, Take | Refuse | NoEffect]]:
        """Yield rows by key; one with ``*`` for each of the file's keys that it matches."""
        for key, row in rows.items():
            given = fnmatch.filter(paths(self._at(self.path)), key) if "*" in key else [key]
            yield from ((one, row) for one in given)


def override(path: str, value: Any) -> str:
    """Return a setting as a word in Hydra's grammar; a dictionary may bring keys of its own.

    Raises:
        ConfigurationError: If a key of a dictionary in it is no name.
    """
    return f"{'++' if value and isinstance(value, dict) else ''}{path}={_text(path, value)}"


def _text(path: str, value: Any) -> str:
    if isinstance(value, dict):
        for key in value:
            if not re.fullmatch(r"[A-Za-z_][\w-]*", key):
                raise ConfigurationError(f"{path} has the key {key!r}, but keys are names.")
        return "{" + ",".join(f"{key}:{_text(path, one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_text(path, one) for one in value) + "]"
    if isinstance(value, str):
        # Backslashes escape only before a quote, or at the end, where a quote follows.
        escaped = re.sub(r"(\\*)'", r"\1\1\\'", value)
        escaped = re.sub(r"(\\+)$", r"\1\1", escaped)
        return f"'{escaped}'"
    return {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}.get(
        text := json.dumps(value), text
    )


def put(tree: dict[str, Any], path: str, value: Any) -> None:
    """Set the value at a dotted path, and make the parts that it lies in."""
    *holders, name = path.split(".")
    for holder in holders:
        tree = tree.setdefault(holder, {})
    tree[name] = value


def paths(values: Any, above: str = "") -> Iterator[str]:
    """Yield the dotted paths of all keys, those that hold others included."""
    for name, value in values.items() if isinstance(values, Mapping) else ():
        yield f"{above}{name}"
        yield from paths(value, f"{above}{name}.")


def _float(value: Any) -> float:
    """Return a number, NaN for what is none; 100_000 is a text in YAML 1.2."""
    try:
        return nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return nan
