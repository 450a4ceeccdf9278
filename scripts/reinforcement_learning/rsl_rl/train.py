"""Train a task with rsl_rl, on one process or, under torch.distributed.run, on many; see --help."""

from envlab.cli import train

if __name__ == "__main__":
    raise SystemExit(train("rsl_rl"))
