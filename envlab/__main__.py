"""``python -m envlab train ...``, for launchers: ``-m envlab`` instead of a script."""

from envlab.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
