"""DD-PPO: decentralised distributed PPO for recurrent agents that see.

Wijmans et al., "DD-PPO: Learning Near-Perfect PointGoal Navigators from 2.5 Billion Frames" (2020),
as Habitat and AllenAct train with it. No library of the others has a recurrent network behind
convolutions, choices as actions, and rollouts that may be cut short, all together; so the trainer
is our own. In the order of an iteration:

- ``storage``: the steps of a rollout, as many as there are when it ends.
- ``model``: encoder, memory, heads.
- ``losses``: what is minimised; ``objective`` sums them up.
- ``learner``: collects, shares counts and moments with the other ranks, and updates.

When a rank stops collecting early is decided in :mod:`envlab.distributed.preemption`.
"""
