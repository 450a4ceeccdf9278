"""Playing a policy that rsl_rl trained: returns over whole episodes, and the exported policy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from envlab.distributed.context import DistributedContext
from envlab.envs import VectorEnv
from envlab.rl.command.play import run_playing
from envlab.rl.command.session import Session
from envlab.rl.loop.export import ChannelsFirst, export_policy
from envlab.rl.rsl_rl.cfg import RslRlCfg
from envlab.rl.rsl_rl.learner import LIBRARY, Runner, pack


class RslRlPlayer:
    """See :class:`envlab.rl.command.play.Player`."""

    def __init__(
        self, session: Session, env: VectorEnv, context: DistributedContext, values: dict[str, Any]
    ) -> None:
        self._runner = Runner(env, session.agent_cfg, context)
        self._runner.load_models(values)
        self._model = self._runner.get_inference_policy(str(context.device))
        self._clip = self._runner.cfg["clip_actions"]

    def act(self, obs: dict[str, torch.Tensor]) -> torch.Tensor:
        env = self._runner.env
        return self._clipped(self._model(pack(obs).to(self._runner.device)).to(env.device))

    def export(self, directory: Path) -> list[Path]:
        model = self._runner.get_inference_policy("cpu")
        groups = self._runner.cfg["obs_groups"]["actor"]
        if model.is_recurrent or len(groups) > 1:
            print("Not exported: only policies without memory, on one observation group, can be.")
            return []

        def reference(obs: torch.Tensor) -> torch.Tensor:
            return self._clipped(model(pack({groups[0]: obs})))

        shape = self._runner.env.env.obs_buf[groups[0]].shape[1:]
        policy = model.as_onnx(verbose=False)
        if len(shape) == 3:  # the library's own wants a vector beside the image
            output = policy.deterministic_output
            policy = nn.Sequential(ChannelsFirst(), *policy.cnns, policy.mlp, output)
        if self._clip is not None:
            policy = nn.Sequential(policy, nn.Hardtanh(-self._clip, self._clip))
        return export_policy(policy, reference, shape, directory)

    def _clipped(self, actions: torch.Tensor) -> torch.Tensor:
        return actions if self._clip is None else actions.clamp(-self._clip, self._clip)


def main(arguments: Sequence[str]) -> int:
    """Run ``play.py``: see :func:`envlab.rl.command.play.run_playing`."""
    return run_playing(arguments, library=LIBRARY, agent_cfg=RslRlCfg, make_player=RslRlPlayer)
