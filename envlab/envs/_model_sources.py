"""The text of a model file with all its includes, line by line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from xml.parsers import expat

from envlab.errors import SimulationError


@dataclass(frozen=True)
class Source:
    """A model file and its includes, as one text."""

    lines: tuple[tuple[Path, int, str], ...]
    """File, line number in that file, and text of each line."""

    @property
    def text(self) -> str:
        """All lines, with ``<include>`` replaced by the content of the included files."""
        return "\n".join(text for _, _, text in self.lines)

    @property
    def has_includes(self) -> bool:
        """Whether lines come from more than one file."""
        return len({file for file, _, _ in self.lines}) > 1

    def place(self, line: int) -> tuple[Path, int]:
        """Return the file and line number where a line of :attr:`text`, counted from 1, is from."""
        file, number, _ = self.lines[min(line, len(self.lines)) - 1]
        return file, number

    def find(self, word: str) -> tuple[Path, int] | None:
        """Return the first place with a word."""
        return next(((file, number) for file, number, text in self.lines if word in text), None)


def read_sources(path: Path) -> Source:
    """Read a model file and, recursively, its includes.

    Raises:
        SimulationError: For text that is not XML, or an included file that is missing, naming file
            and line.
    """
    return Source(tuple(_lines(path, path.parent, ())))


def _lines(path: Path, folder: Path, outer: tuple[Path, ...]) -> list[tuple[Path, int, str]]:
    """Return the lines of a file; of an included one, those inside its outermost element.

    Args:
        path: The file.
        folder: Folder of the model's main file, to which paths are relative.
        outer: The files that include this one.
    """
    data = path.read_bytes()
    includes = _includes(path, data)
    lines: list[tuple[Path, int, str]] = []
    start, end = _inside(data) if outer else (0, len(data))
    for position, name in includes:
        lines += _numbered(path, data, start, position)
        start = _end_of_element(data, position)
        inner = _included(path, folder, name, 1 + data.count(b"\n", 0, position))
        if inner in (*outer, path):
            raise SimulationError(
                f"The model {path} includes {inner}, which includes it again. Remove one of the "
                "two."
            )
        lines += _lines(inner, folder, (*outer, path))
    return lines + _numbered(path, data, start, end)


def _includes(path: Path, data: bytes) -> list[tuple[int, str]]:
    """Return where in ``data`` elements ``<include>`` begin, and the files that they name."""
    found: list[tuple[int, str]] = []
    parser = expat.ParserCreate()

    def start(tag: str, attributes: dict[str, str]) -> None:
        if tag == "include":
            found.append((parser.CurrentByteIndex, attributes.get("file", "")))

    parser.StartElementHandler = start
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise SimulationError(
            f"The model {path}, line {error.lineno}, is not well-formed XML: "
            f"{expat.ErrorString(error.code)}. Correct it there."
        ) from None
    return found


def _included(path: Path, folder: Path, name: str, line: int) -> Path:
    for candidate in (folder / name, path.parent / name):
        if name and candidate.is_file():
            return candidate
    raise SimulationError(
        f"The model {path}, line {line}, includes {name!r}, which is not a file. Paths are "
        f"relative to {folder}."
    )


def _inside(data: bytes) -> tuple[int, int]:
    """Return where the content of the outermost element begins and ends."""
    start = re.search(rb"<(?![?!])[^>]*>", re.sub(rb"<!--.*?-->", _blank, data, flags=re.DOTALL))
    if start is None or start.group().endswith(b"/>"):
        return len(data), len(data)
    return start.end(), data.rindex(b"</")


def _blank(match: re.Match[bytes]) -> bytes:
    return b" " * len(match.group())


def _end_of_element(data: bytes, start: int) -> int:
    """Return where an ``<include>`` ends, with or without an end tag."""
    end = data.index(b">", start) + 1
    if data[end - 2 : end] == b"/>":
        return end
    return data.index(b">", data.index(b"</include", end)) + 1


def _numbered(path: Path, data: bytes, start: int, end: int) -> list[tuple[Path, int, str]]:
    first = 1 + data.count(b"\n", 0, start)
    text = data[start:end].decode(errors="replace")
    return [(path, first + i, line) for i, line in enumerate(text.split("\n"))]
