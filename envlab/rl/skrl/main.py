"""What is the same for skrl on PyTorch and on JAX: defaults, and which of the two is loaded."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
from typing import Any

from envlab.distributed.context import DistributedContext
from envlab.errors import ConfigurationError
from envlab.rl.command.session import Session
from envlab.rl.learner import Learner, Player
from envlab.rl.skrl.cfg import SkrlCfg
from envlab.rl.skrl.flags import FRAMEWORKS

_JAX_PACKAGES = ("jax", "flax", "optax")


def default_cfg(flags: argparse.Namespace) -> SkrlCfg:
    """Return the defaults of the algorithm and framework that the flags name."""
    return SkrlCfg.of(flags.algorithm or "ppo", flags.ml_framework or "torch")


def build(session: Session, env: Any, context: DistributedContext) -> Learner:
    """Return the learner of a settled session, on the framework that its configuration names."""
    learner: Learner = _adapter(session, "learner").build(session, env, context)
    return learner


def make_player(
    session: Session, env: Any, context: DistributedContext, values: dict[str, Any]
) -> Player:
    """Return the player of a checkpoint, on the framework that the configuration names."""
    player: Player = _adapter(session, "play").make_player(session, env, context, values)
    return player


def _adapter(session: Session, module: str) -> Any:
    framework = session.agent_cfg.ml_framework
    if framework not in FRAMEWORKS:
        raise ConfigurationError(
            f"agent.ml_framework is {framework!r}, but must be one of {', '.join(FRAMEWORKS)}."
        )
    if framework == "jax":
        _require_jax()
    return importlib.import_module(f"envlab.rl.skrl.{framework}.{module}")


def _require_jax() -> None:
    missing = [name for name in _JAX_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigurationError(
            f"--ml_framework jax needs {', '.join(missing)}, which cannot be found. Install with: "
            "pip install -c constraints.txt -e '.[jax]'"
        )
