"""envlab's environments as other libraries want them: one module for each, under its own name.

A module imports its library, so that none is needed but the one that is used::

    from envlab.envs.wrappers.sb3 import Sb3VecEnvWrapper

docs/wrappers.md shows each in ten lines.
"""
