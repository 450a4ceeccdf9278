"""Small populations for tests, in this process, on a stub of an environment."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.skrl.env import Spaces
from envlab.skrl.library import ON_POLICY
from envlab.skrl.torch.ranks import join_ranks
from envlab_populations.crew import CrewSpace
from envlab_populations.evolution.cfg import SEVERAL, EvolutionCfg
from envlab_populations.evolution.nursery import SkrlNursery
from envlab_populations.evolution.replay import ReplayMemory
from envlab_populations.population.member import Member

NUM_ENVS, NUM_OBS = 8, 5
OBS = spaces.Box(-np.inf, np.inf, (NUM_OBS,), np.float32)
IMAGE = spaces.Box(0.0, 1.0, (12, 12, 3), np.float32)
REALS = spaces.Box(-2.0, 2.0, (2,), np.float32)
CHOICES = spaces.Discrete(4)
CREW = CrewSpace({"speaker": 1, "listener": 2}, {"speaker": 1, "listener": 1})


def nursery(
    algorithm: str,
    *,
    seen: spaces.Space[Any] = OBS,
    context: DistributedContext | None = None,
    values: dict[str, Any] | None = None,
) -> SkrlNursery:
    """Return the nursery of an algorithm's members."""
    context = context or DistributedContext()
    join_ranks(context)
    small = {"agent": {"rollouts": 16} if algorithm == "ppo" else {"batch_size": 32}}
    cfg = merge(merge(EvolutionCfg.of(algorithm), small, "agent"), values or {}, "agent").resolved()
    actions = CHOICES if algorithm in ("dqn", "ddqn") else REALS
    seen = CREW if algorithm in SEVERAL else seen
    env: Any = SimpleNamespace(
        env=SimpleNamespace(num_envs=NUM_ENVS, device=torch.device("cpu")),
        spaces={"agent": Spaces(seen, None, actions)},
    )
    memory = None
    if algorithm not in ON_POLICY:
        memory = ReplayMemory(1024, NUM_ENVS, torch.device("cpu"), None)
    return SkrlNursery(cfg=cfg, env=env, num_envs=NUM_ENVS, memory=memory, context=context)


def trained(made_with: SkrlNursery, index: int = 0, steps: int = 48) -> Member:
    """Return a member that has learned from random transitions."""
    member = Member.first(made_with, index)
    train(member, steps)
    return member


def train(member: Member, steps: int, first: int = 0) -> None:
    """Have a member act and learn on random transitions."""
    size = int(np.prod(member.nursery.env.spaces["agent"].observation_space.shape))
    agent = member.learner.agent
    obs = torch.rand(NUM_ENVS, size)
    for timestep in range(first, first + steps):
        when = {"timestep": timestep, "timesteps": 1000}
        with torch.no_grad():
            agent.pre_interaction(**when)
            actions, _ = agent.act(obs, None, **when)
            following = torch.rand(NUM_ENVS, size)
            never = torch.zeros(NUM_ENVS, 1, dtype=torch.bool)
            seen = {"observations": obs, "next_observations": following, "actions": actions}
            seen |= dict.fromkeys(("states", "next_states"))
            seen |= dict.fromkeys(("terminated", "truncated"), never)
            agent.record_transition(**seen, rewards=torch.rand(NUM_ENVS, 1), infos={}, **when)
        agent.post_interaction(**when)
        obs = following
    agent.tracking_data.clear()


def outputs(member: Member) -> dict[str, torch.Tensor]:
    """Return each network's outputs for fixed inputs."""
    size = int(np.prod(member.nursery.env.spaces["agent"].observation_space.shape))
    generator = torch.Generator().manual_seed(3)
    obs = torch.rand(64, size, generator=generator)
    actions = torch.rand(64, 2, generator=generator)
    models, found = member.learner.agent.models, {}
    with torch.no_grad():
        for role, model in models.items():
            if member.nursery.cfg.algorithm in SEVERAL:
                found[role] = model.compute({"observations": obs, "taken_actions": actions})[0]
            else:
                found[role] = model.net(obs, actions if model.num_extra else None)
    return found
