"""envlab's environments with other libraries' interfaces, one module for each library.

A module imports its library, so that only the one in use is needed::

    from envlab.envs.wrappers.sb3 import Sb3VecEnvWrapper

docs/wrappers.md shows each in ten lines.
"""
