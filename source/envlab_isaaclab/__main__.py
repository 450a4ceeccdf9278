"""``python -m envlab_isaaclab SCRIPT ...``: run a script that imports ``isaaclab``."""

from __future__ import annotations

import sys

from envlab_isaaclab.launcher import main

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
