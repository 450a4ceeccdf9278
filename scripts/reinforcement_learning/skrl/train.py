"""Train a task with skrl, on one process or, under torch.distributed.run, on many; see --help.

The training loop is ``Training.run`` in envlab/training/loop.py, the same for every library;
what skrl does within an iteration is ``iterate`` in envlab/skrl/learner.py.
"""

from envlab.training.launch import train

if __name__ == "__main__":
    raise SystemExit(train("skrl"))
