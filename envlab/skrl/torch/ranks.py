"""Quantities that skrl on PyTorch computes from one rank's samples, computed over all ranks.

AMP's returns at a time limit are here too. skrl 1.4.3, for which Isaac Lab's settings were made,
always adds the discounted value of the next state in AMP, unless the episode terminated, whatever
``time_limit_bootstrap`` says. skrl 2.1.1 adds it to the task's reward with that setting only, and
then scales it with ``task_reward_scale``, which is 0 in Isaac Lab's agents: a policy that imitates
would see each time limit as a failure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch

from envlab.distributed.context import DistributedContext
from envlab.distributed.ddp import PolicyDDP, settle_buckets
from envlab.distributed.statistics import Moments, batch_moments, pooled_moments
from envlab.envs.masks import computed_where
from envlab.skrl.library import load_skrl

load_skrl()

from skrl.resources.preprocessors.torch import RunningStandardScaler  # noqa: E402

ComputeGae = Callable[..., tuple[torch.Tensor, torch.Tensor]]
"""skrl's function: returns and normalised advantages, ``(num_steps, num_envs, 1)``."""


def join_ranks(context: DistributedContext) -> None:
    """Set this process's rank in skrl.

    skrl reads the launcher's variables at import and offers no setter, hence the private names.
    """
    config = load_skrl().config.torch
    config._rank, config._local_rank = context.rank, context.local_rank
    config._world_size, config._is_distributed = context.world_size, context.is_distributed
    config.device = context.device


def pooled_advantages(stock: ComputeGae, context: DistributedContext) -> ComputeGae:
    """Return skrl's ``compute_gae``, changed to end with an episode and normalise over all ranks.

    Without ``time_limit_bootstrap``, skrl 2.1.1 lets values and advantages run across a time limit
    into the next episode; skrl 1.4.3, for which Isaac Lab's settings were made, did not. Here the
    setting only decides whether the agent adds the final state's value to the last reward.
    """

    def compute_gae(**values: Any) -> tuple[torch.Tensor, torch.Tensor]:
        returns, advantages = stock(**values | {"time_limit_bootstrap": True})  # cut at both ends
        if not context.is_distributed:
            return returns, advantages
        advantages = returns - values["values"]
        mean, std = pooled_moments(advantages, context)
        return returns, (advantages - mean) / (std + 1e-8)

    return compute_gae


class PooledScaler(RunningStandardScaler):
    """skrl's ``RunningStandardScaler`` with running statistics over all ranks' data.

    Its tensors are never replaced, so that processes can share them.
    """

    context: ClassVar[DistributedContext]

    @classmethod
    def of(cls, context: DistributedContext) -> type[PooledScaler]:
        """Return the class for a context; skrl makes the objects, and copies their arguments."""
        return type(cls.__name__, (cls,), {"context": context})

    def _compute(
        self, x: torch.Tensor, *, train: bool = False, inverse: bool = False
    ) -> torch.Tensor:
        if train and self.context.is_distributed:
            rows = x.reshape(-1, x.shape[-1])
            batch = batch_moments(rows, self.context, near=self.running_mean)
            count = batch.num_samples
            unbiased = batch.variance * (count / (count - 1))  # like skrl's
            self._parallel_variance(batch.mean, unbiased, count)
            train = False
        result: torch.Tensor = super()._compute(x, train=train, inverse=inverse)
        return result

    def _parallel_variance(self, mean: torch.Tensor, variance: torch.Tensor, count: Any) -> None:
        """Merge a batch's moments like skrl, but in place."""
        own = Moments(self.running_mean, self.running_variance, self.current_count)
        own.merge_(Moments(mean, variance, count))


class SkrlDDP(PolicyDDP):
    """A skrl model in DDP: agents call :meth:`act`, which must pass through DDP's forward."""

    def act(self, inputs: dict[str, Any], *, role: str = "") -> Any:
        return self(inputs, role=role)

    def reduce_parameters(self) -> None:
        """Do nothing: DDP has averaged the gradients during the backward pass."""

    def broadcast_parameters(self, *, rank: int = 0) -> None:
        """Do nothing: DDP did it at construction."""


def wrap_models(models: dict[str, Any]) -> dict[str, Any]:
    """Return an agent's models by role in DDP, except target networks, which have no gradients."""
    wrapped: dict[int, SkrlDDP] = {}
    result = {}
    for role, model in models.items():
        if role.startswith("target_"):
            result[role] = model
            continue
        if id(model) not in wrapped:  # one model can have two roles
            wrapped[id(model)] = SkrlDDP(model)
            settle_buckets(wrapped[id(model)])
        result[role] = wrapped[id(model)]
    return result


class FinalValues:
    """Values of the states in which time limits ended episodes, of the steps of a rollout."""

    def __init__(self) -> None:
        self._steps: list[torch.Tensor] = []

    def of(self, stock: Any) -> Any:
        """Return skrl's class of the agent, changed to keep these values of each step."""
        add = self._steps.append

        def record_transition(agent: Any, **step: Any) -> None:
            add(_final_values(agent, **step))
            stock.record_transition(agent, **step)

        return type(stock.__name__, (stock,), {"record_transition": record_transition})

    def added(self, stock: ComputeGae) -> ComputeGae:
        """Return skrl's ``compute_gae``, changed to add them, discounted, to the rewards.

        ``update`` gives it the sum of the task's and the discriminator's rewards, so that the
        values are not scaled with either.
        """

        def compute_gae(**values: Any) -> tuple[torch.Tensor, torch.Tensor]:
            finals = torch.stack(self._steps)
            self._steps.clear()
            values["rewards"] = values["rewards"] + values["discount_factor"] * finals
            return stock(**values)

        return compute_gae


def _final_values(
    agent: Any,
    *,
    next_observations: torch.Tensor,
    next_states: torch.Tensor | None,
    truncated: torch.Tensor,
    **_: Any,
) -> torch.Tensor:
    """Return the values of final states, 0 where no time limit ended it, ``(num_envs, 1)``."""

    def compute(rows: torch.Tensor | slice) -> torch.Tensor:
        inputs = {
            "observations": agent._observation_preprocessor(next_observations[rows]),
            "states": agent._state_preprocessor(None if next_states is None else next_states[rows]),
        }
        with torch.autocast(device_type=agent._device_type, enabled=agent.cfg.mixed_precision):
            values, _ = agent.value.act(inputs, role="value")
            values = agent._value_preprocessor(values, inverse=True)
        return values.float()

    return computed_where(truncated.squeeze(1), compute).expand(len(truncated), 1)
