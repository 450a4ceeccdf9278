"""Step a task with random actions; see --help."""

import sys

from envlab.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["random", *sys.argv[1:]]))
