"""Massively parallel SAC: many environments, large batches, distributional critics.

Seo et al., "Learning Sim-to-Real Humanoid Locomotion in 15 Minutes" (FastSAC, arXiv 2512.01996) and
"FastTD3: Simple, Fast, and Capable Reinforcement Learning for Humanoid Control" (arXiv 2505.22642),
on SAC (Haarnoja et al., arXiv 1812.05905) and C51 (Bellemare et al., arXiv 1707.06887). Their code
(holosoma 0.0.3) needs a range of returns for each task; here rewards are divided by the spread of
the running returns, so that one range serves all tasks.

Each process has its own environments and replay memory; batches are divided, so that the total
batch of an update and the number of updates for a step of all environments are the same on any
number of processes. Gradients are averaged by ``DistributedDataParallel``, the moments of
observations and returns are pooled.
"""
