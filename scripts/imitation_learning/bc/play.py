"""Play a cloned policy, and export it; see --help."""

from envlab.cli import play

if __name__ == "__main__":
    raise SystemExit(play("bc"))
