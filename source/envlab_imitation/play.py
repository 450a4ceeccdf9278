"""Playing and exporting a cloned policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from gymnasium import spaces
from torch import nn

from envlab.distributed.context import DistributedContext
from envlab.envs import BatchedEnv
from envlab.training.export import export_policy
from envlab.training.plan import RunPlan
from envlab_imitation.learner import best_actions, load_policy, make_policy
from envlab_imitation.policy import Policy


class BcPlayer:
    """See :class:`envlab.learner.Player`."""

    def __init__(
        self, plan: RunPlan, env: BatchedEnv, context: DistributedContext, values: dict[str, Any]
    ) -> None:
        self._policy = make_policy(env, plan.agent_cfg, context)
        load_policy(self._policy, values["model"])
        self._env, self._context = env, context

    def act(self, obs: dict[str, torch.Tensor]) -> torch.Tensor:
        return best_actions(self._policy, obs, self._context).to(self._env.device)

    def export(self, directory: Path) -> list[Path]:
        policy = self._policy.to("cpu").eval()
        groups = [*policy.vectors, *policy.images]
        space = self._env.single_observation_space
        assert isinstance(space, spaces.Dict)
        if len(groups) == 1:
            alone = _OnOne(policy, groups[0])
            return export_policy(
                alone, alone, space[groups[0]].shape or (), directory, is_traced=True
            )
        several = spaces.Dict({group: space[group] for group in groups})
        return export_policy(_OnAll(policy), policy.best, several, directory)


class _OnOne(nn.Module):
    """The best actions for a group of observations."""

    def __init__(self, policy: Policy, group: str) -> None:
        super().__init__()
        self._policy, self._group = policy, group

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self._policy.best({self._group: obs})


class _OnAll(nn.Module):
    """The best actions for several groups, by their names."""

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self._policy = policy

    def forward(self, obs: dict[str, torch.Tensor]) -> torch.Tensor:
        return self._policy.best(obs)
