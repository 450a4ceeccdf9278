"""Playing and exporting the fittest member of a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from envlab.distributed.context import DistributedContext
from envlab.skrl.env import SkrlVectorEnv
from envlab.skrl.library import ON_POLICY
from envlab.skrl.torch.ranks import join_ranks
from envlab.train.export import export_policy
from envlab.train.session import Session
from envlab_populations.evolution.cfg import EvolutionCfg
from envlab_populations.evolution.member import Member, Nursery
from envlab_populations.evolution.models import check_actions
from envlab_populations.evolution.replay import ReplayMemory


class EvolutionPlayer:
    """See :class:`envlab.learner.Player`."""

    def __init__(
        self, session: Session, env: Any, context: DistributedContext, values: dict[str, Any]
    ) -> None:
        cfg: EvolutionCfg = session.agent_cfg.resolved()
        join_ranks(context)
        self._env = SkrlVectorEnv(env, bounded=cfg.algorithm in ("ddpg", "td3", "sac"))
        spaces = self._env.spaces["agent"]
        check_actions(cfg.algorithm, spaces.action_space)
        memory = None
        if cfg.algorithm not in ON_POLICY:
            memory = ReplayMemory(1, 1, env.device, None)
        nursery = Nursery(cfg=cfg, env=self._env, num_envs=1, memory=memory, context=context)
        members = values["model"]["members"]
        elites = [one for one in members if one["index"] == values["model"]["elite"]]
        self._member = Member.of(nursery, (elites or members)[0])
        self._shape = spaces.observation_space.shape or ()

    def act(self, obs: dict[str, torch.Tensor]) -> torch.Tensor:
        return self._member.best_actions(obs)

    def export(self, directory: Path) -> list[Path]:
        policy = _Best(self._member)
        return export_policy(policy, policy, self._shape, directory, is_traced=True)


class _Best(nn.Module):
    """A member's best actions for observations of its task's own shape."""

    def __init__(self, member: Member) -> None:
        super().__init__()
        self.policy = member.policy
        self._scale = member.agent._observation_preprocessor

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.policy.best(self._scale(obs.flatten(1)))
