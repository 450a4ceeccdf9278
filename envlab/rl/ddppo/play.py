"""Playing a policy that DD-PPO trained, with its memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from envlab.distributed.context import DistributedContext
from envlab.envs import BatchedEnv
from envlab.errors import CheckpointError
from envlab.rl.command.session import Session
from envlab.rl.ddppo.learner import for_env, make_model


class DdppoPlayer:
    """See :class:`envlab.rl.learner.Player`."""

    def __init__(
        self, session: Session, env: BatchedEnv, context: DistributedContext, values: dict[str, Any]
    ) -> None:
        self._cfg, self._env, self._device = session.agent_cfg, env, context.device
        model = make_model(session, env, context)
        try:
            model.load_state_dict(values["model"]["model"])
        except RuntimeError as error:
            raise CheckpointError(
                f"The checkpoint does not fit the configured network "
                f"({str(error).splitlines()[-1].strip()}). Use the run's own configuration."
            ) from error
        self._model = model.to(context.device)
        self._memory, self._last_actions, _ = model.beginning(env.num_envs, self._device)

    @torch.no_grad()
    def act(self, obs: dict[str, torch.Tensor]) -> torch.Tensor:
        prepared = self._model.prepare({name: one.to(self._device) for name, one in obs.items()})
        starts = (self._env.episode_length_buf == 0).to(self._device)
        output, self._memory = self._model(
            {name: values.unsqueeze(0) for name, values in prepared.items()},
            self._last_actions.unsqueeze(0),
            starts.unsqueeze(0),
            self._memory,
        )
        distribution = output.distribution
        actions = distribution.sample() if self._cfg.plays_by_chance else distribution.mode()
        self._last_actions = actions[0]
        return for_env(actions[0], self._cfg, self._env)

    def export(self, directory: Path) -> list[Path]:
        return []
