"""Playing a policy that DD-PPO trained, with its memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from gymnasium import spaces
from torch import nn

from envlab.distributed.context import DistributedContext
from envlab.envs import BatchedEnv
from envlab.errors import CheckpointError
from envlab.training.export import export_steps
from envlab.training.plan import RunPlan
from envlab_navigation.ddppo.build import make_model
from envlab_navigation.ddppo.cfg import DdppoCfg
from envlab_navigation.ddppo.distributions import Choices
from envlab_navigation.ddppo.learner import for_env
from envlab_navigation.ddppo.model import RecurrentActorCritic


class DdppoPlayer:
    """See :class:`envlab.learner.Player`."""

    def __init__(
        self, plan: RunPlan, env: BatchedEnv, context: DistributedContext, values: dict[str, Any]
    ) -> None:
        self._cfg, self._env, self._device = plan.agent_cfg, env, context.device
        model = make_model(plan, env, context)
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
        if not isinstance(self._model, RecurrentActorCritic):
            print("Not exported: only networks of ddppo's own kind can be.")
            return []
        step = _Step(self._model.cpu(), self._cfg, self._env)
        num = 16
        generator = torch.Generator().manual_seed(0)
        # Current observations: noise instead of images gives features many times as large, and
        # so is their rounding, which differs between torch and ONNX.
        rows = torch.arange(num) % self._env.num_envs
        inputs = {name: self._env.obs_buf[name].cpu()[rows] for name in step.groups}
        memory, actions, starts = self._model.beginning(num, torch.device("cpu"))
        memory = torch.rand(memory.shape, generator=generator)
        inputs |= {"memory": memory, "last_actions": actions, "starts": starts}
        return export_steps(step, inputs, step.outputs, directory)


class _Step(nn.Module):
    """One step of a policy, in float32: observations and memory as inputs.

    Attributes:
        groups: Observations that it takes, in this order.
        outputs: Results: best actions, the memory after them, and logits of choices.
    """

    def __init__(self, model: RecurrentActorCritic, cfg: DdppoCfg, env: BatchedEnv) -> None:
        super().__init__()
        self._model, self._cfg, self._env = model.in_float32(), cfg, env
        self.groups = [*model.vectors, *model.images]
        is_choice = isinstance(env.single_action_space, spaces.Discrete | spaces.MultiDiscrete)
        self.outputs = (
            ("actions", "new_memory", "logits") if is_choice else ("actions", "new_memory")
        )

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        *groups, memory, last_actions, starts = inputs
        obs = self._model.prepare(dict(zip(self.groups, groups, strict=True)))
        output, memory = self._model(
            {name: values.unsqueeze(0) for name, values in obs.items()},
            last_actions.unsqueeze(0),
            starts.unsqueeze(0),
            memory,
        )
        distribution = output.distribution
        actions = for_env(distribution.mode()[0], self._cfg, self._env)
        if isinstance(distribution, Choices):
            return actions, memory, torch.cat(distribution.log_probs, dim=-1)[0]
        return actions, memory
