"""Trains tasks with rsl_rl, one after the other: IDS, separated by commas, then its words."""

from __future__ import annotations

import sys

from envlab.training.launch import train


def main(arguments: list[str]) -> int:
    ids, *words = arguments
    for task in ids.split(","):
        code = train("rsl_rl", [f"--task={task}", *words])
        if code != 0:
            return code
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
