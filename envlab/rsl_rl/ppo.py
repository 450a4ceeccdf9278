"""rsl_rl's PPO with the statistics and gradients of all ranks."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Protocol

import torch
from rsl_rl.algorithms import PPO
from rsl_rl.storage import RolloutStorage
from rsl_rl.utils import reduce_gradients_in_buckets
from tensordict import TensorDict
from torch import nn

from envlab.distributed.context import DistributedContext
from envlab.distributed.ddp import wrap_actor_critic
from envlab.distributed.readings import Readings
from envlab.distributed.statistics import pooled_moments
from envlab.envs.masks import computed_where
from envlab.rsl_rl._joined_update import JoinedUpdate
from envlab.rsl_rl._policies import load_policy


class PooledBatches(RolloutStorage):
    """A storage that normalises each minibatch's advantages by the moments of all ranks' samples.

    Ranks have equal numbers of environments, and so of minibatches: all meet at each.
    """

    context: ClassVar[DistributedContext]

    @classmethod
    def of(cls, context: DistributedContext) -> type[PooledBatches]:
        """Return the class for a context, which copies of a storage then share."""
        return type(cls.__name__, (cls,), {"context": context})

    def mini_batch_generator(self, *counts: int) -> Iterator[RolloutStorage.Batch]:
        return map(self._normalised, super().mini_batch_generator(*counts))

    def recurrent_mini_batch_generator(self, *counts: int) -> Iterator[RolloutStorage.Batch]:
        return map(self._normalised, super().recurrent_mini_batch_generator(*counts))

    def _normalised(self, batch: RolloutStorage.Batch) -> RolloutStorage.Batch:
        assert batch.advantages is not None
        mean, std = pooled_moments(batch.advantages, self.context)
        batch.advantages = (batch.advantages - mean) / (std + 1e-8)
        return batch


class Update(Protocol):
    """Makes updates instead of the library, such as by graphs.

    Attributes:
        readings: What else is to be read where the losses are.
        mean_std: Mean deviation of actions in the last minibatch; None: read it.
    """

    readings: Readings
    mean_std: float | None

    def __call__(self) -> dict[str, float]:
        """Return the mean losses."""

    def forget(self) -> None:
        """Prepare for other contents of networks and optimizer."""


class DistributedPPO(PPO):
    """PPO with advantages, time limits and gradients over all ranks."""

    actor: Any
    critic: Any
    normalize_advantage_per_mini_batch: bool

    def __init__(
        self, *args: Any, context: DistributedContext, critic_warmup: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        for group in self.optimizer.param_groups:  # shared encoders are listed, and stepped, twice
            group["params"] = list(dict.fromkeys(group["params"]))
        self._context = context
        self.normalises_batches = self.normalize_advantage_per_mini_batch
        if self.normalises_batches:
            self.normalize_advantage_per_mini_batch = False  # not by this rank's moments
            self.storage.__class__ = PooledBatches.of(context)
        self.joined: JoinedUpdate | None = None
        """Makes the library's updates in fewer collectives, if DDP averages the gradients."""
        self._critic_warmup, self._actor_rests = critic_warmup, False
        self.recorded: Update | None = None
        """Makes updates instead of the library, if they are recorded."""
        self.optimizer.register_step_pre_hook(self._hold_actor)

    @property
    def uses_ddp(self) -> bool:
        """Whether torch's DistributedDataParallel averages the gradients."""
        return self.joined is not None

    @property
    def networks(self) -> dict[str, nn.Module]:
        """The networks by name, with the acting one first."""
        found = {"actor": self._raw_actor, "critic": self._raw_critic}
        return found | ({"rnd": self.rnd} if self.rnd else {})

    def begin(self, number: int) -> None:
        """Prepare for an iteration: in the first ones, only the critic may learn."""
        self._actor_rests = number <= self._critic_warmup
        if self._critic_warmup:
            self._raw_actor.obs_normalizer.train(not self._actor_rests)

    def update(self) -> dict[str, float]:
        """Return the mean losses of an update; the library's own, unless it is recorded."""
        if self.joined is not None:
            return self.joined()
        if self.recorded is None:
            return super().update()
        if self._actor_rests:
            self.recorded.mean_std = None
            return super().update()
        return self.recorded()

    def load(self, loaded_dict: dict[str, Any], load_cfg: Any, strict: bool) -> bool:
        if self.recorded is not None:
            self.recorded.forget()
        return bool(super().load(loaded_dict, load_cfg, strict))

    def _hold_actor(self, *_: Any) -> None:
        """Let the optimizer skip the parameters that only the actor has, during the warm-up."""
        if self._actor_rests:
            kept = {id(parameter) for parameter in self._raw_critic.parameters()}
            for parameter in self._raw_actor.parameters():
                if id(parameter) not in kept:
                    parameter.grad = None

    def begin_with(self, values: Mapping[str, Any], path: str) -> None:
        """Use the policy of a checkpoint as the actor to fine-tune.

        Raises:
            CheckpointError: If it does not fit the configured network, or the task.
        """
        load_policy(self._raw_actor, values, path, "actor")

    def acting_copy(self) -> DistributedPPO:
        """Return a PPO that acts with its own networks, until :meth:`follow` renews them.

        It needs no other rank, and must not be updated.
        """
        acting = copy.copy(self)
        networks = copy.deepcopy((self._raw_actor, self._raw_critic))
        acting.actor, acting.critic = acting._raw_actor, acting._raw_critic = networks
        acting.transition = RolloutStorage.Transition()
        acting._context = self._context.alone()
        return acting

    def follow(self, learning: DistributedPPO) -> None:
        """Copy another's current networks, except their memories."""
        self._raw_actor.load_state_dict(learning._raw_actor.state_dict())
        self._raw_critic.load_state_dict(learning._raw_critic.state_dict())

    def memories(self) -> dict[str, Any]:
        """Return the memories of the networks, None for those that are not recurrent."""
        return {"actor": self.actor.get_hidden_state(), "critic": self.critic.get_hidden_state()}

    def set_memories(self, memories: Mapping[str, Any]) -> None:
        """Restore what :meth:`memories` returned."""
        self.actor.reset(hidden_state=memories["actor"])
        self.critic.reset(hidden_state=memories["critic"])

    def wrap(self) -> None:
        """Average the gradients by torch's DistributedDataParallel instead of the library."""
        self.actor, self.critic = wrap_actor_critic(self.actor, self.critic)
        self.joined = JoinedUpdate(self, self.actor.ddp)

    def reduce_parameters(self) -> None:
        if not self.uses_ddp:
            super().reduce_parameters()
        elif self.rnd:  # its predictor has its own optimizer and is not in the DDP module
            reduce_gradients_in_buckets(
                self.rnd.predictor.parameters(), self.gpu_world_size, self.grad_reduce_bucket_mb
            )

    def process_env_step(
        self, obs: TensorDict, rewards: torch.Tensor, dones: torch.Tensor, extras: dict[str, Any]
    ) -> None:
        """Record a step, with the value of the final observation where a time limit ended it."""
        if "final_obs" in extras:
            final, time_outs = extras["final_obs"], extras["time_outs"].bool()
            rewards = self.with_final_values(rewards, final, time_outs)
        super().process_env_step(obs, rewards, dones, {})

    def with_final_values(
        self, rewards: torch.Tensor, final: TensorDict, time_outs: torch.Tensor
    ) -> torch.Tensor:
        """Return rewards with the discounted values of final observations, ``(num_envs,)``.

        Args:
            rewards: ``(num_envs,)``.
            final: Final observations by group, ``(num_envs, ...)``.
            time_outs: Whether a time limit ended the episode, bool ``(num_envs,)``.
        """
        return rewards + self.gamma * self._final_values(final, time_outs).to(self.device)

    def _final_values(self, final: TensorDict, time_outs: torch.Tensor) -> torch.Tensor:
        """Return the values of final observations, 0 where no time limit ended the episode."""
        if not self.critic.is_recurrent:
            return computed_where(
                time_outs,
                lambda rows: self.critic(final[rows].to(self.device)).detach().squeeze(1),
            )
        memory = self.critic.get_hidden_state()  # this call must not change it
        values = self.critic(final.to(self.device)).detach().squeeze(1)
        self.critic.reset(hidden_state=memory)
        return values * time_outs.to(values.device)

    def compute_returns(self, obs: TensorDict) -> None:
        """Compute returns like the library, and advantages normalised over all ranks."""
        super().compute_returns(obs)
        self.normalise_advantages()

    def normalise_advantages(self) -> None:
        """Normalise advantages over the samples of all ranks, unless minibatches are instead."""
        # The library has normalised them by this rank's moments: start again from the returns.
        advantages = self.storage.returns - self.storage.values
        if not self.normalises_batches:
            mean, std = pooled_moments(advantages, self._context)
            advantages = (advantages - mean) / (std + 1e-8)
        self.storage.advantages = advantages
