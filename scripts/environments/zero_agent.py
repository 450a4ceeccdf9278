"""Step a task with zero actions; see --help."""

import sys

from envlab.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["zero", *sys.argv[1:]]))
