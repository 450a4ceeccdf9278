"""How a sweep (``-m``) labels its runs: their folders' names, and the table at its end."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envlab.config import Override

_LENGTH = 80
"""Characters of a folder's name that values may take; file systems allow 255 in all."""


def swept_values(jobs: Sequence[Sequence[Override]]) -> list[dict[str, str]]:
    """Return the values that differ between the runs of a sweep, by override key.

    Args:
        jobs: The overrides of each run, as :func:`envlab.config.expand_sweep` returns them.
    """
    words = [[str(override.input_line) for override in job] for job in jobs]
    positions = [
        place for place, texts in enumerate(zip(*words, strict=True)) if len(set(texts)) > 1
    ]
    split = [[job[place].partition("=") for place in positions] for job in words]
    return [{key.lstrip("+~"): value for key, _, value in values} for values in split]


def folder_label(swept: Mapping[str, str]) -> str:
    """Return swept values as part of a folder's name, such as ``clip_param=0.1,gamma=0.9``.

    Keys are as short as is unambiguous. Characters that a shell or a file system could misread
    become dashes, and a long label is cut off, as the time before it makes the name unique.
    """
    values = [re.sub(r"[^\w.+-]+", "-", value).strip("-") for value in swept.values()]
    texts = [f"{key}={value}" for key, value in zip(short_keys(list(swept)), values, strict=True)]
    return ",".join(texts)[:_LENGTH]


def short_keys(keys: Sequence[str]) -> list[str]:
    """Return the last parts of dotted keys, as many as distinguish them."""
    shortened = []
    for key in keys:
        parts = key.split(".")
        tails = [".".join(parts[-count:]) for count in range(1, len(parts) + 1)]
        others = [other for other in keys if other != key]
        unique = (t for t in tails if not any(f".{other}".endswith(f".{t}") for other in others))
        shortened.append(next(unique, key))
    return shortened


def sweep_table(swept: Sequence[Mapping[str, str]], directories: Sequence[Path | None]) -> str:
    """Return a line for each started run: its swept values, its results, and where it is.

    Args:
        swept: The result of :func:`swept_values`.
        directories: The run directories so far; None if an earlier start finished the run.
    """
    from tabulate import tabulate  # takes 10 ms, which no --help should wait for

    from envlab.run.records import Standing, read_standing

    keys = list(swept[0]) if swept else []
    rows = []
    for values, directory in zip(swept, directories, strict=False):
        at = Standing() if directory is None else read_standing(directory)
        minutes = None if at.wall_s is None else at.wall_s / 60.0
        where = os.path.relpath(directory) if directory else "finished by an earlier start"
        rows.append([*values.values(), at.mean_return, at.frames, minutes, where])
    headers = [*short_keys(keys), "Final return", "Frames", "Minutes", "Run"]
    formats = [*("" for _ in keys), ".3f", ",d", ".1f", ""]
    return tabulate(rows, headers=headers, floatfmt=formats, intfmt=formats, missingval="-")
