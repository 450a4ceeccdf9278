"""skrl 2.1.1 on JAX (0.10).

Gaps closed in addition to those listed in :mod:`envlab.skrl`:

- When imported, it starts JAX's coordinator, whose clients abort the process when rank 0 dies, and
  its launcher always exits with 0: ranks agree through our process group, and
  :mod:`envlab.distributed.skrl_launcher` makes the launcher fail.
- It averages gradients by a function that JAX recompiles in every call, and does not import the
  module for broadcasting parameters: :class:`ranks.AveragingOptimizer`. JAX has no
  ``DistributedDataParallel``, so ``--grad_sync ddp`` means this one collective per network, and
  ``--grad_sync library`` is refused.
- Its running scalers see each rank's own data, and neither the gradient of SAC's entropy
  coefficient nor the divergence that adapts a learning rate is averaged: :mod:`ranks`.
- Twin critics stay equal forever, agents share their noise, SAC's policy update sees the same noise
  in every update, and random actions are not seeded: :mod:`noise`.
- It indexes the tensors of a mini-batch one by one without compiling:
  :class:`arrays.CompiledMemory`.
- A single number as kernel size is one-dimensional, and images have their channels last:
  :mod:`models` lets one agent file serve both frameworks.
"""
