"""Policies from demonstrations: behaviour cloning from files of ``envlab record``.

Its policy, a mixture of Gaussians, is robomimic's BC-GMM (Mandlekar et al., "What Matters in
Learning from Offline Human Demonstrations for Robot Manipulation", arXiv 2108.03298), without its
memory. It is a library like the others, on any number of processes.

Each process reads its share of the demonstrations. A batch is a function of seed and number alone:
every process takes from it the steps of its demonstrations, so that the gradient is the same on any
number of processes.
"""
