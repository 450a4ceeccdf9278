"""Train a task with rl_games, on one process or, under torch.distributed.run, on many; see --help.

The training loop is ``Training.run`` in envlab/training/loop.py, the same for every library;
what rl_games does within an iteration is ``iterate`` in envlab/rl_games/learner.py.
"""

from envlab.training.launch import train

if __name__ == "__main__":
    raise SystemExit(train("rl_games"))
