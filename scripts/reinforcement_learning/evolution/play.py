"""Run the fittest of a population, print its returns and export its policy; see --help."""

from envlab.cli import play

if __name__ == "__main__":
    raise SystemExit(play("evolution"))
