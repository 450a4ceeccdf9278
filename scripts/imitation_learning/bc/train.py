"""Clone demonstrations, on one process or, under torch.distributed.run, on many; see --help.

The training loop is ``Training.run`` in envlab/training/loop.py, the same for every library;
what happens within an iteration is ``iterate`` in source/envlab_imitation/learner.py.
"""

from envlab.training.launch import train

if __name__ == "__main__":
    raise SystemExit(train("bc"))
