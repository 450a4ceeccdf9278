"""Spec, trial, session: SLM-Lab's workflow, and asynchronous training by Hogwild!, over skrl 2.1.1.

A *spec* (:mod:`spec`) names an algorithm, an environment and how often to run it. A *trial*
(:mod:`trial`) runs it in several *sessions* (:mod:`session`), processes that train skrl's agents
independently, or on one set of parameters in shared memory without locks (Niu et al., "Hogwild!",
2011): :mod:`sharing`. Nothing of skrl's updates is copied. Gaps of skrl that are closed here:

- It has no tanh-squashed Gaussian policy: its own clamps actions and leaves log-probabilities as
  they were (:mod:`networks`).
- Its replay memory permutes all of itself for each batch, 0.8 ms at 200,000 transitions
  (:mod:`envlab.skrl.torch.memory`).
- Its running scaler makes new tensors in each update, which cannot be shared (:mod:`sharing`).
- SAC, TD3 and DDPG learn in every step of the environments: :mod:`agents` adds an interval.
"""
