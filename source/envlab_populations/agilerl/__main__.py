"""``python -m envlab_populations.agilerl SCRIPT ...``: run a program that imports ``agilerl``."""

from __future__ import annotations

import sys

from envlab_populations.agilerl.launcher import main

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
