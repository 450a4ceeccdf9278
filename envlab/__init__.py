"""envlab: vectorised robot-learning environments and every established way to train on them.

At a Python prompt::

    import envlab

    envlab.list_tasks("ant")                                # what exists
    env = envlab.make("Isaac-Ant-v0", num_envs=16)          # torch tensors, (num_envs, ...)
    run = envlab.train("Isaac-Cartpole-v0", max_iterations=50)
    policy = envlab.load_policy(run)                        # or load_policy("Isaac-Ant-v0")
    envlab.runs()                                           # what was trained here

Importing the package is deliberately cheap: torch, MuJoCo and Gymnasium load with the functions
that use them, on first access.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envlab.prompt import LoadedPolicy, load_policy, train
    from envlab.registry import list_tasks, make
    from envlab.run.training_run import TrainingRun, runs

__all__ = [
    "LoadedPolicy",
    "TrainingRun",
    "__version__",
    "list_tasks",
    "load_policy",
    "make",
    "runs",
    "train",
]
__version__ = "0.2.0"

_MODULES = {
    "LoadedPolicy": "envlab.prompt",
    "TrainingRun": "envlab.run.training_run",
    "list_tasks": "envlab.registry",
    "load_policy": "envlab.prompt",
    "make": "envlab.registry",
    "runs": "envlab.run.training_run",
    "train": "envlab.prompt",
}
"""Modules that define the public names."""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
