"""Train a task with DD-PPO, on one process or, under torch.distributed.run, on many; see --help.

The training loop is ``Training.run`` in envlab/training/loop.py, the same for every library;
what ddppo does within an iteration is ``iterate`` in source/envlab_navigation/ddppo/learner.py.
"""

from envlab.training.launch import train

if __name__ == "__main__":
    raise SystemExit(train("ddppo"))
