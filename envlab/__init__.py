"""envlab: vectorised robot-learning environments and every established way to train on them.

Importing the package is cheap on purpose: torch, MuJoCo and Gymnasium load with the modules that
use them, and :func:`make` when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envlab.envs.making import make

__all__ = ["__version__", "make"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name != "make":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from envlab.envs.making import make

    return make


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
