"""Playing and exporting a policy that FastSAC trained."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import torch
from torch import nn

from envlab.distributed.context import DistributedContext
from envlab.envs import BatchedEnv
from envlab.fast_sac.cfg import ReplayCfg
from envlab.fast_sac.learner import FastSacLearner
from envlab.fast_sac.networks import Actor
from envlab.training.export import export_policy
from envlab.training.plan import RunPlan


class FastSacPlayer:
    """See :class:`envlab.learner.Player`."""

    def __init__(
        self, plan: RunPlan, env: BatchedEnv, context: DistributedContext, values: dict[str, Any]
    ) -> None:
        cfg = plan.agent_cfg
        least = max(cfg.algorithm.n_step, -(-cfg.algorithm.batch_size // env.num_envs))
        short = ReplayCfg(size=least * env.num_envs)  # playing does not learn
        cfg = dataclasses.replace(cfg, replay=short, overlap=False, precision="float32")
        learner = FastSacLearner(env, cfg, context)
        learner.load_models(values)
        self._policy = _Policy(learner)
        self._env, self._device = env, context.device

    def act(self, obs: dict[str, torch.Tensor]) -> torch.Tensor:
        actions: torch.Tensor = self._policy(obs["policy"].to(self._device))
        return actions.to(self._env.device)

    def export(self, directory: Path) -> list[Path]:
        policy = self._policy.to("cpu").eval()
        return export_policy(policy, policy, self._env.obs_buf["policy"].shape[1], directory)


class _Policy(nn.Module):
    """Maps raw observations to the best actions in the environment's range."""

    def __init__(self, learner: FastSacLearner) -> None:
        super().__init__()
        scaler, actor = learner.scalers["obs"], learner.actor
        assert isinstance(actor, Actor)  # one process plays
        self.layers = nn.Sequential(actor.body, actor.mean, nn.Tanh())
        self.shift, self.factor = nn.Buffer(scaler.shift), nn.Buffer(scaler.factor)
        self.half_width = nn.Buffer(learner.half_width)
        self.middle = nn.Buffer(learner.middle)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Map ``(batch, num_obs)`` to ``(batch, num_actions)``."""
        actions: torch.Tensor = self.layers((obs - self.shift) * self.factor)
        return actions * self.half_width + self.middle
