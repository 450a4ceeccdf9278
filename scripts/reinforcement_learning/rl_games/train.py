"""Train a task with rl_games, on one process or many under torch.distributed.run; see --help."""

from envlab.cli import train

if __name__ == "__main__":
    raise SystemExit(train("rl_games"))
