"""Train a task with rsl_rl, on one process or, under torch.distributed.run, on many; see --help.

The training loop is ``Training.run`` in envlab/training/loop.py, the same for every library;
what rsl_rl does within an iteration is ``iterate`` in envlab/rsl_rl/learner.py.
"""

from envlab.training.launch import train

if __name__ == "__main__":
    raise SystemExit(train("rsl_rl"))
