"""Playing a policy that rsl_rl trained: returns over whole episodes, and the exported policy."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import torch
from torch import nn

from envlab.distributed.context import DistributedContext
from envlab.envs import BatchedEnv
from envlab.envs.wrappers.rsl_rl import pack
from envlab.rsl_rl.learner import RslRlLearner
from envlab.train.export import ChannelsFirst, export_policy
from envlab.train.session import Session


class RslRlPlayer:
    """See :class:`envlab.learner.Player`."""

    def __init__(
        self, session: Session, env: BatchedEnv, context: DistributedContext, values: dict[str, Any]
    ) -> None:
        # Played, and exported, in float32, whatever it was trained in.
        cfg = dataclasses.replace(session.agent_cfg, precision="float32")
        learner = RslRlLearner(env, cfg, context)
        learner.load_models(values)
        learner.alg.eval_mode()
        self._model = learner.alg.get_policy()
        self._env, self._device = env, context.device
        self._clip = session.agent_cfg.clip_actions

    def act(self, obs: dict[str, torch.Tensor]) -> torch.Tensor:
        if self._model.is_recurrent:  # nothing is remembered of another episode
            self._model.reset((self._env.episode_length_buf == 0).to(self._device))
        actions = self._model(pack(obs).to(self._device))
        return self._clipped(actions.to(self._env.device))

    def export(self, directory: Path) -> list[Path]:
        model: Any = self._model.to("cpu")
        groups = [*model.obs_groups, *getattr(model, "obs_groups_2d", [])]
        if model.is_recurrent or len(groups) > 1:
            print("Not exported: only policies without memory, on one observation group, can be.")
            return []

        def reference(obs: torch.Tensor) -> torch.Tensor:
            return self._clipped(model(pack({groups[0]: obs})))

        shape = self._env.obs_buf[groups[0]].shape[1:]
        policy = model.as_onnx(verbose=False)
        if len(shape) == 3:  # the library's own wants a vector beside the image
            output = policy.deterministic_output
            policy = nn.Sequential(ChannelsFirst(), *policy.cnns, policy.mlp, output)
        if self._clip is not None:
            policy = nn.Sequential(policy, nn.Hardtanh(-self._clip, self._clip))
        return export_policy(policy, reference, shape, directory)

    def _clipped(self, actions: torch.Tensor) -> torch.Tensor:
        return actions if self._clip is None else actions.clamp(-self._clip, self._clip)
