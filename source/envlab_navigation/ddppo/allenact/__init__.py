"""AllenAct's experiments: its own objects where it can be imported, envlab's houses elsewhere.

``--allenact`` runs a file that was written for AllenAct 0.5.4:

- ``houses``: a file that needs no more of AllenAct than a few names gets these from here, and the
  base experiment of AllenAct's multi-node tutorial runs in envlab's houses.
- ``packages``: any other file needs ``allenact`` and ``allenact_plugins``, from the checkout that
  the file is in or installed, and ``gym``, in whose place ``gym_stand_in`` leads to Gymnasium.
- ``experiment``: AllenAct's ``ExperimentConfig`` as one of ours; ``stages`` for its pipeline and
  losses, ``model`` for its networks, ``expert`` for what its expert sensors observe.

Sensors, preprocessors, tasks, samplers, networks and losses stay AllenAct's. Collection, updates
over all ranks, stages, validation and checkpoints are DD-PPO's.
"""
