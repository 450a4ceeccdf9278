"""Train a task with skrl, on one process or, under torch.distributed.run, on many; see --help."""

from envlab.cli import train

if __name__ == "__main__":
    raise SystemExit(train("skrl"))
