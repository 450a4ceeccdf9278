"""DD-PPO: decentralised distributed PPO for recurrent agents that see.

Wijmans et al., "DD-PPO: Learning Near-Perfect PointGoal Navigators from 2.5 Billion Frames" (2020),
as Habitat and AllenAct train with it. No other library here combines a recurrent network behind
convolutions, discrete actions, and rollouts that may be cut short, so the trainer is our own. In
the order of an iteration:

- ``storage``: the steps of a rollout, however many it has at its end.
- ``model``: encoder, memory, heads.
- ``losses``: the terms to minimise; ``objective`` adds them up.
- ``learner``: collects, shares counts and moments with the other ranks, and updates.

When a rank stops collecting early is decided in :mod:`envlab_navigation.ddppo.preemption`.
"""
