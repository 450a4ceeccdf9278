"""Train a population that evolves, on one process or, under torch.distributed.run, on many.

The training loop is ``Training.run`` in envlab/training/loop.py, the same for every library;
what a population does within an iteration is ``iterate`` in
source/envlab_populations/evolution/learner.py.
"""

from envlab.training.launch import train

if __name__ == "__main__":
    raise SystemExit(train("evolution"))
