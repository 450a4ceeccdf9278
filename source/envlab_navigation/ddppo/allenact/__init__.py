"""AllenAct's experiments: its own objects if it can be imported, else envlab's houses.

``--allenact`` runs a file that was written for AllenAct 0.5.4:

- ``houses``: a file that needs only a few of AllenAct's names gets them from here, and the base
  experiment of AllenAct's multi-node tutorial runs in envlab's houses.
- ``packages``: any other file needs ``allenact`` and ``allenact_plugins``, installed or from the
  checkout of the file, and ``gym``, which ``gym_stand_in`` replaces by Gymnasium.
- ``experiment``: AllenAct's ``ExperimentConfig`` as one of ours; ``stages`` for its pipeline and
  losses, ``model`` for its networks, ``expert`` for its expert sensors.

Sensors, preprocessors, tasks, samplers, networks and losses stay AllenAct's. Collection, updates
over all ranks, stages, validation and checkpoints are DD-PPO's.
"""
