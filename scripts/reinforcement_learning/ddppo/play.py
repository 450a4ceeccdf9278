"""Run a policy trained with DD-PPO, print its returns and export it; see --help."""

from envlab.cli import play

if __name__ == "__main__":
    raise SystemExit(play("ddppo"))
