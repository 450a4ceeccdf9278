"""Trains tasks in sequence: a LIBRARY and its words for each, separated by ``+``."""

from __future__ import annotations

import itertools
import sys

from envlab.training.launch import train


def main(arguments: list[str]) -> int:
    for is_mark, words in itertools.groupby(arguments, key="+".__eq__):
        if is_mark:
            continue
        library, *flags = words
        code = train(library, flags)
        if code != 0:
            return code
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
