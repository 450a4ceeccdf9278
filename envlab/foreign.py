"""Untrusted files and text: bounded reading, and printing without terminal commands."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

MOST_BYTES = 2**24
"""Limit of a text file: hundreds of times the size that envlab writes."""
_INT_BITS = 64


def check_file(path: Path, most_bytes: int = MOST_BYTES) -> None:
    """Refuse files that could be endless: a pipe, a device, a huge file.

    Raises:
        OSError: If it is one, or there is no such file.
    """
    found = path.stat()
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(f"{path} is a folder")
    if not stat.S_ISREG(found.st_mode):
        raise OSError(f"{path} is not a regular file")
    if found.st_size > most_bytes:
        raise OSError(f"{path} has {found.st_size} bytes, more than {most_bytes}")


def read_text(path: Path, most_bytes: int = MOST_BYTES) -> str:
    """Return a file's text.

    Raises:
        OSError: If it cannot be read, or :func:`check_file` refuses it.
        UnicodeDecodeError: If it is not UTF-8.
    """
    check_file(path, most_bytes)
    return path.read_text(encoding="utf-8")


def bounded_int(text: str, base: int = 10) -> int:
    """Return an integer of at most 64 bits, with or without a sign.

    Raises:
        ValueError: If it has more, or is not an integer.
    """
    if len(text) > 2 * _INT_BITS:  # a longer text would raise Python's own error
        raise ValueError(f"a number has {len(text)} digits, more than 64 bits hold")
    value = int(text, base)
    if not -(2 ** (_INT_BITS - 1)) <= value < 2**_INT_BITS:
        raise ValueError(f"{text} has more than 64 bits")
    return value


def parse_json(text: str | bytes) -> Any:
    """Return the value of JSON text.

    Raises:
        ValueError: If it is not JSON, nests too deeply, or an integer has more than 64 bits.
    """
    try:
        return json.loads(text, parse_int=bounded_int)
    except RecursionError:
        raise ValueError("it nests too deeply") from None


def printable(text: str) -> str:
    """Return text for a terminal: escape sequences and the like spelled out, lines kept."""
    return "".join(
        char if char.isprintable() or char in "\n\t" else char.encode("unicode_escape").decode()
        for char in text
    )
