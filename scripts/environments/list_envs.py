"""List the registered tasks; see --help."""

import sys

from envlab.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["list", *sys.argv[1:]]))
