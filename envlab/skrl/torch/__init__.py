"""skrl 2.1.1 on PyTorch.

Gaps closed beside those that :mod:`envlab.skrl` names:

- It averages gradients by hand: models are wrapped in ``DistributedDataParallel`` instead
  (:func:`ranks.wrap_models`). ``--grad_sync library`` keeps its own way, with the same result.
- It does not average the gradient of SAC's entropy coefficient: a hook on the tensor does.
- Its running scalers see each rank's own data: :class:`ranks.PooledScaler`.
- Networks made from a configuration ignore RPO's noise, so that RPO is PPO: :mod:`models` adds it.
- Random actions are the same in every step, of no known seed: :mod:`heads` draws them from torch's
  generator.
- Its replay memory permutes all of itself for each batch, or indexes slowly: :mod:`memory`.
- SAC's Gaussian is not squashed by tanh, but clamped: :mod:`heads`.
- DDPG and TD3 fail on actions without bounds: these lie in -1 to 1 there.
- TRPO and CEM have no distributed code: refused on several processes.
"""
