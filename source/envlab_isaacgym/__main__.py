"""``python -m envlab_isaacgym SCRIPT ...``: run a script that imports ``isaacgym``."""

from __future__ import annotations

import sys

from envlab_isaacgym.launcher import main

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
