"""Record golden values again: ``python -m tests.golden.record environments``.

Values are recorded again only in a separate commit, whose message names the cause and the largest
difference, which this command prints. On a kind of processor that has no digests yet, a recording
adds them; if the values of the first steps are still those of the file, it changes nothing else. A
frozen configuration is written only where there is none: delete its file to freeze a task again.
"""

from __future__ import annotations

import argparse
import importlib

PARTS = ("environments", "libraries")
"""Modules of this folder; each has ``record()``, which writes its part of ``values``."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.golden.record")
    parser.add_argument("part", choices=PARTS, nargs="+")
    for part in parser.parse_args().part:
        importlib.import_module(f"tests.golden.{part}").record()


if __name__ == "__main__":
    main()
