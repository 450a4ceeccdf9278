"""Spec, trial, session: SLM-Lab's workflow, and asynchronous training by Hogwild!, over skrl 2.1.1.

A *spec* (:mod:`spec`) names an algorithm, an environment and how often to run it. A *trial*
(:mod:`trial`) runs it in several *sessions* (:mod:`session`), processes that train skrl's agents
independently, or on one set of parameters in shared memory without locks (Niu et al., "Hogwild!",
2011): :mod:`sharing`. Nothing of skrl's updates is copied. Gaps of skrl that are closed here:

- Its running scaler makes new tensors in each update, which cannot be shared
  (:mod:`envlab.skrl.torch.ranks`).
- SAC, TD3 and DDPG learn in every step of the environments: :mod:`agents` adds an interval.
"""
