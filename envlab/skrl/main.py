"""skrl's entry in the table of libraries; ``agent.ml_framework`` chooses its framework.

Only the chosen framework is loaded: JAX need not be installed for PyTorch.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
from types import ModuleType
from typing import TYPE_CHECKING, Any

from envlab.errors import ConfigurationError
from envlab.skrl.cfg import SkrlCfg
from envlab.training.flags import Flags

if TYPE_CHECKING:
    from envlab.distributed.context import DistributedContext
    from envlab.learner import Learner, Player
    from envlab.training.plan import RunPlan

_JAX_PACKAGES = ("jax", "flax", "optax")


def default_cfg(flags: Flags) -> SkrlCfg:
    """Return the defaults of the algorithm and framework that flags name."""
    return SkrlCfg.of(flags.algorithm or "ppo", flags.ml_framework or "torch")


def build(plan: RunPlan, env: Any, context: DistributedContext) -> Learner:
    """Return the learner of a settled plan.

    Raises:
        ConfigurationError: If the configuration cannot train, or JAX is needed but missing.
    """
    cfg = _checked_cfg(plan)
    learner: Learner = adapter_of(cfg, "learner").make_learner(
        env, cfg, plan.learning_context(context), grad_sync=plan.flags.grad_sync
    )
    return learner


def make_player(
    plan: RunPlan, env: Any, context: DistributedContext, values: dict[str, Any]
) -> Player:
    """Return the trained policy of a checkpoint.

    Raises:
        EnvlabError: If it does not fit the configuration, or JAX is needed but missing.
    """
    # Played and exported in float32, whatever the precision of training, and without updates.
    cfg = dataclasses.replace(_checked_cfg(plan), precision="float32", graph="off")
    learner = adapter_of(cfg, "learner").make_learner(env, cfg, context)
    learner.load_models(values)
    player: Player = adapter_of(cfg, "play").make_player(learner)
    return player


def _checked_cfg(plan: RunPlan) -> SkrlCfg:
    """Return a plan's configuration, resolved, if it has the requested algorithm."""
    cfg: SkrlCfg = plan.agent_cfg
    if plan.flags.algorithm not in (None, cfg.algorithm):
        raise ConfigurationError(
            f"--algorithm is {plan.flags.algorithm}, but the agent's configuration is of "
            f"{cfg.algorithm}. Leave one of them out."
        )
    return cfg.resolved()


def adapter_of(cfg: SkrlCfg, part: str) -> ModuleType:
    """Return a module of the framework's folder."""
    missing = [name for name in _JAX_PACKAGES if importlib.util.find_spec(name) is None]
    if cfg.ml_framework == "jax" and missing:
        raise ConfigurationError(
            f"--ml_framework jax needs {', '.join(missing)}, which cannot be found. Install with: "
            "pip install -c constraints.txt -e '.[jax]'"
        )
    return importlib.import_module(f"envlab.skrl.{cfg.ml_framework}.{part}")
