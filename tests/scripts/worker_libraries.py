"""Trains with rl_games, then with skrl on PyTorch, with the same arguments."""

from __future__ import annotations

import sys

from envlab.training.launch import train

MINIBATCH = "agent.params.config.minibatch_size=64"


def main(arguments: list[str]) -> int:
    for library, own in (("rl_games", [MINIBATCH]), ("skrl", [])):
        code = train(library, [*arguments, *own])
        if code != 0:
            return code
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
