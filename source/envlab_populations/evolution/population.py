"""A population without envlab's training loop: for your own loop, as in a tutorial."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab_populations.evolution.cfg import BoundsCfg, EvolutionCfg
from envlab_populations.evolution.member import Member, Nursery
from envlab_populations.evolution.models import seen_by
from envlab_populations.evolution.replay import ReplayMemory


def make_population(
    algorithm: str,
    env: Any,
    memory: ReplayMemory,
    *,
    population_size: int = 4,
    network: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    rl_hp_selection: Mapping[str, BoundsCfg] | None = None,
) -> list[Member]:
    """Return members that act one after another in all of the environments.

    Their gradients are this process's own: see :meth:`Member.prepare`. Seed torch equally on all
    processes before the call, so that they have the same weights.

    Args:
        algorithm: ``dqn``, ``ddqn``, ``ddpg``, ``td3`` or ``sac``.
        env: The environments.
        memory: The memory that they write into and learn from.
        population_size: Number of members.
        network: Changes to :class:`envlab_populations.evolution.architecture.NetworkCfg`.
        settings: Changes to skrl's settings of the algorithm; an update is one gradient step.
        rl_hp_selection: Bounds by hyper-parameter that evolves.

    Raises:
        ConfigurationError: For an unknown algorithm or setting, or one that doesn't fit.
    """
    values = {
        "network": dict(network or {}),
        "agent": {"gradient_steps": 1, **(settings or {})},
        "population": {"size": population_size, "tournament_size": 1},
    }
    cfg = merge(EvolutionCfg.of(algorithm), values, "agent")
    if rl_hp_selection is not None:
        cfg.mutations.rl_hp_selection = {
            name: dataclasses.asdict(bounds) for name, bounds in rl_hp_selection.items()
        }
    cfg = cfg.resolved()
    wrapper = seen_by(cfg.algorithm, env)
    nursery = Nursery(
        cfg=cfg,
        env=wrapper,
        num_envs=env.num_envs,
        memory=memory,
        context=DistributedContext(device=env.device),
    )
    return [Member.first(nursery, index) for index in range(population_size)]
