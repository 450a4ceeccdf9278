"""Populations of agents that evolve while they learn: AgileRL's method over skrl's agents.

Members are skrl's PPO, SAC, TD3 and DDPG, and our DQN and DDQN (:mod:`.dqn`), with networks that
grow and shrink (:mod:`.networks`); :mod:`.nursery` makes them. They share a replay memory
(:mod:`.replay`). The loop of generations and the choice of parents are those of all populations
(:mod:`envlab_populations.population`); fitness is measured in episodes of their own
(:mod:`.learner`), and children are mutated (:mod:`.mutations`).
Semantics and odds are those of AgileRL 0.1.13. Defects of it that this folder does not have:

- Each rank measured fitness separately and rank 0's decided: here it is the mean over all ranks.
- Decisions travelled as pickles through a shared folder: here rank 0 sends them as plain data.
- A clone lost its optimizer's moments, as did every mutant: here parameters that keep their place
  keep their moments.
- Added units and layers changed a network's outputs: here they start without effect.
- On two processes, 2.58.0 fails at the first tournament and 2.9.1 hangs.
"""
