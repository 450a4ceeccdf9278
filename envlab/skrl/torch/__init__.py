"""skrl 2.1.1 on PyTorch.

Gaps closed in addition to those listed in :mod:`envlab.skrl`:

- It averages gradients by hand: models are wrapped in ``DistributedDataParallel`` instead
  (:func:`ranks.wrap_models`). ``--grad_sync library`` keeps its own way, with the same result.
- It does not average the gradient of SAC's entropy coefficient: a hook on the tensor does.
- Its running scalers see each rank's own data: :class:`ranks.PooledScaler`.
- Networks made from a configuration ignore RPO's noise, so that RPO is PPO: :mod:`models` adds it.
- Random actions are the same in every step, with an unknown seed: :mod:`heads` draws them from
  torch's generator.
- Its replay memory permutes all its indices for each batch, or indexes slowly: :mod:`memory`.
- SAC's Gaussian is clamped instead of squashed by tanh: :mod:`heads`.
- DDPG and TD3 fail on actions without bounds: their bounds are -1 and 1 then.
- PPO's update reads losses and divergences on the host: on a GPU, :mod:`recorded_update` is in its
  place, and reads once.
- TRPO and CEM have no distributed code: refused on several processes.
"""
