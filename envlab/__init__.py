"""envlab: vectorised robot-learning environments and every established way to train on them.

Importing the package is cheap on purpose: torch, MuJoCo and Gymnasium load with the modules that
use them.
"""

from __future__ import annotations

__version__ = "0.1.0"
