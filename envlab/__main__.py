"""``python -m envlab train ...``, as a launcher starts it: ``-m envlab`` in place of a script."""

from envlab.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
