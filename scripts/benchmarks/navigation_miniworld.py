"""Runs blocks of Miniworld for navigation.py, in a Python of Miniworld's own.

For each line on its standard input, it steps for a block of CPU seconds and prints the frames
drawn per second. Arguments: pixels from left to right, and CPU seconds of a block.
"""

from __future__ import annotations

import importlib
import itertools
import random
import sys
import time
from typing import Any

import gymnasium

ENV_ID = "MiniWorld-FourRooms-v0"


def main() -> None:
    """Step one environment, the most that a process can have."""
    answers, sys.stdout = sys.stdout, sys.stderr  # Miniworld prints, too
    importlib.import_module("pyglet").options["headless"] = True  # before Miniworld opens a window
    importlib.import_module("miniworld")  # registers its environments
    size, block_s = int(sys.argv[1]), float(sys.argv[2])
    env: Any = gymnasium.make(ENV_ID, obs_width=size, obs_height=size)
    env.reset(seed=0)
    draw = random.Random(0)
    actions = itertools.cycle(draw.choices(range(env.action_space.n), [15, 15, 70], k=1000))
    for _ in sys.stdin:
        frames, start = 0, time.process_time()
        while time.process_time() - start < block_s:
            _, _, terminated, truncated, _ = env.step(next(actions))
            if terminated or truncated:
                env.reset()
            frames += 1
        print(frames / (time.process_time() - start), file=answers, flush=True)


if __name__ == "__main__":
    main()
