"""rl_games' PPO agents: corrections of methods for several ranks, and for time limits.

Otherwise they are rl_games' own classes. :class:`~envlab.rl_games.learner.RlGamesLearner` makes and
drives them.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from rl_games.algos_torch.a2c_continuous import A2CAgent
from rl_games.algos_torch.a2c_discrete import DiscreteA2CAgent
from rl_games.common.a2c_common import A2CBase
from rl_games.common.tr_helpers import DefaultRewardsShaper
from torch import nn
from torch.nn.utils import clip_grad_norm_

from envlab.distributed.context import DistributedContext
from envlab.distributed.statistics import pooled_moments


class DistributedAgent(A2CBase):
    """Overrides of both agents for their common base class.

    Attributes:
        central_loss: The latest mean loss of the central value network; None before the first.
        context: The process's context.
        uses_ddp: Whether the networks average gradients themselves, in their backward pass.
    """

    LOSSES: ClassVar[tuple[str, ...]]
    """Names of the lists that the library's ``train_epoch`` returns after four durations."""
    recorded: Any = None
    """Updates with a minibatch instead of the library, if updates are recorded."""

    def __init__(
        self, params: dict[str, Any], context: DistributedContext, *, uses_ddp: bool
    ) -> None:
        """Build networks, optimizers and buffers.

        Args:
            params: The library's configuration, including the environment.
            context: The process's context.
            uses_ddp: Whether the networks will be wrapped in DDP.
        """
        config = params["config"]
        self.uses_ddp, self.context = uses_ddp, context
        self.central_loss: float | None = None
        self._shape_rewards = DefaultRewardsShaper(**config["reward_shaper"])
        self._normalises_advantage = config["normalize_advantage"]
        # Both are done here instead: rewards are shaped before time limits add to them, and
        # advantages are normalised over all ranks.
        config |= {"reward_shaper": nn.Identity(), "normalize_advantage": False}
        if context.device.type == "cpu":  # else torch warns in each forward pass
            for group in (config, config.get("central_value_config", {})):
                group["mixed_precision"] = False
        super().__init__("run", params)
        self.bootstraps_final_obs = config["value_bootstrap"]
        self.value_bootstrap = False  # the library's own, from the state before the last step

    def get_values(self, obs: dict[str, Any]) -> torch.Tensor:
        """Return the values of observations, ``(num_envs, 1)``, without changing memories.

        rl_games' recurrent central value network updates its memory in every call, so that the
        state after a rollout, where the next one begins, enters its memory twice.
        """
        if not self.has_central_value:
            return super().get_values(obs)
        memory = self.central_value_net.rnn_states
        values = super().get_values(obs)
        self.central_value_net.rnn_states = memory
        return values

    def env_step(
        self, actions: torch.Tensor
    ) -> tuple[dict[str, Any], torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Step the environments, and shape the rewards.

        The rewards, ``(num_envs, 1)``, include the value of a state in which a time limit ended an
        episode. rl_games itself would add the value of the state before.
        """
        obs, rewards, ended, infos = super().env_step(actions)
        rewards = self._shape_rewards(rewards)
        if self.bootstraps_final_obs and "final_obs" in infos:
            values = self.get_values(self.obs_to_tensors(infos["final_obs"]))
            rewards = rewards + self.gamma * values * infos["time_outs"].unsqueeze(1)
        return obs, rewards, ended, infos

    def prepare_dataset(self, batch_dict: dict[str, Any]) -> None:
        """Turn a rollout into samples, and normalise the advantages of all ranks together."""
        super().prepare_dataset(batch_dict)
        if self._normalises_advantage:
            values = self.dataset.values_dict
            mean, std = pooled_moments(values["advantages"], self.context)
            values["advantages"] = (values["advantages"] - mean) / (std + 1e-8)

    def trancate_gradients_and_step(self) -> None:
        """Clip the gradients and step like the library, but leave their reduction to DDP."""
        if not self.uses_ddp:
            super().trancate_gradients_and_step()
            return
        if self.truncate_grads:
            self.scaler.unscale_(self.optimizer)
            clip_grad_norm_(self.model.parameters(), self.grad_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def update_lr(self, lr: float) -> None:
        """Set the learning rate, which every rank computes: no broadcast, no rounding."""
        _set_learning_rate(self.optimizer, lr)

    def train_central_value(self) -> float:
        """Train the central value network, and keep its loss, which the library only logs."""
        loss = float(super().train_central_value())
        self.central_loss = loss
        # The library's own reduction has sent the rate in float32.
        _set_learning_rate(self.central_value_net.optimizer, self.central_value_net.lr)
        return loss


class ContinuousAgent(DistributedAgent, A2CAgent):
    """PPO for actions that are numbers."""

    LOSSES = ("a_loss", "c_loss", "bounds_loss", "entropy", "kl")

    def train_actor_critic(self, batch: dict[str, Any]) -> tuple[Any, ...]:
        """Update with a minibatch; the library's own update, unless it is recorded."""
        if self.recorded is not None:
            return self.recorded(batch)
        result: tuple[Any, ...] = super().train_actor_critic(batch)
        return result


class DiscreteAgent(DistributedAgent, DiscreteA2CAgent):
    """PPO for actions that are choices."""

    LOSSES = ("a_loss", "c_loss", "entropy", "kl")


def _set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate
