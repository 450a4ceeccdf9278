"""Run a policy trained with skrl, print its returns and export it; see --help."""

from envlab.cli import play

if __name__ == "__main__":
    raise SystemExit(play("skrl"))
