"""rsl_rl's PPO with the statistics and gradients of all ranks."""

from __future__ import annotations

import contextlib
import functools
import io
import logging
from collections.abc import Callable
from types import FunctionType, SimpleNamespace
from typing import Any

import torch
from rsl_rl.algorithms import PPO
from rsl_rl.modules import EmpiricalNormalization
from rsl_rl.utils import reduce_gradients_in_buckets
from tensordict import TensorDict

from envlab.distributed.context import DistributedContext
from envlab.distributed.ddp import wrap_actor_critic
from envlab.distributed.statistics import pooled_moments
from envlab.envs.masks import computed_where
from envlab.envs.wrappers.rsl_rl import RslRlVecEnvWrapper
from envlab.errors import ConfigurationError
from envlab.precision import compute_in, settle_precision
from envlab.rsl_rl.cfg import RslRlCfg

logger = logging.getLogger(__name__)


def _without_group(stock: Callable[..., None]) -> Callable[..., None]:
    """Return a function to which torch shows no process group; its code stays the library's."""
    seen = {name: getattr(torch, name) for name in stock.__code__.co_names if hasattr(torch, name)}
    seen["distributed"] = SimpleNamespace(is_initialized=lambda: False)
    own = FunctionType(stock.__code__, {**stock.__globals__, "torch": SimpleNamespace(**seen)})
    return functools.update_wrapper(own, stock)


class LocalNormalization(EmpiricalNormalization):
    """rsl_rl's normaliser, over this process's samples alone whatever process group there is.

    rsl_rl 5.5.1 reduces its samples over the default group whenever there is one.
    """

    update = _without_group(EmpiricalNormalization.update)


class DistributedPPO(PPO):
    """PPO whose advantages, time limits and gradients are those of all ranks."""

    actor: Any
    critic: Any

    def __init__(self, *args: Any, context: DistributedContext, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for group in self.optimizer.param_groups:  # shared encoders are listed, and stepped, twice
            group["params"] = list(dict.fromkeys(group["params"]))
        self._context = context
        self._uses_ddp = False

    def wrap(self) -> None:
        """Have torch's DistributedDataParallel average the gradients, not the library."""
        self.actor, self.critic = wrap_actor_critic(self.actor, self.critic)
        self._uses_ddp = True

    def reduce_parameters(self) -> None:
        if not self._uses_ddp:
            super().reduce_parameters()
        elif self.rnd:  # its predictor has an optimizer of its own and is not in the DDP module
            reduce_gradients_in_buckets(
                self.rnd.predictor.parameters(), self.gpu_world_size, self.grad_reduce_bucket_mb
            )

    def process_env_step(
        self, obs: TensorDict, rewards: torch.Tensor, dones: torch.Tensor, extras: dict[str, Any]
    ) -> None:
        """Record a step, with the value of the final observation where a time limit ended it."""
        if "final_obs" in extras:
            rewards = rewards + self.gamma * self._final_values(
                extras["final_obs"], extras["time_outs"].bool()
            ).to(self.device)
        super().process_env_step(obs, rewards, dones, {})

    def _final_values(self, final: TensorDict, time_outs: torch.Tensor) -> torch.Tensor:
        """Return the values of final observations, 0 where no time limit ended the episode."""
        if not self.critic.is_recurrent:
            return computed_where(
                time_outs,
                lambda rows: self.critic(final[rows].to(self.device)).detach().squeeze(1),
            )
        memory = self.critic.get_hidden_state()  # the question must not become part of it
        values = self.critic(final.to(self.device)).detach().squeeze(1)
        self.critic.reset(hidden_state=memory)
        return values * time_outs.to(values.device)

    def compute_returns(self, obs: TensorDict) -> None:
        """Compute returns as the library does, and advantages normalised over all ranks."""
        super().compute_returns(obs)
        if not self.normalize_advantage_per_mini_batch:
            # The library has normalised them by this rank's moments: begin again from the returns.
            advantages = self.storage.returns - self.storage.values
            mean, std = pooled_moments(advantages, self._context)
            self.storage.advantages = (advantages - mean) / (std + 1e-8)


def make_ppo(
    env: RslRlVecEnvWrapper, cfg: RslRlCfg, context: DistributedContext, *, grad_sync: str
) -> DistributedPPO:
    """Build networks, optimizer and storage.

    Args:
        env: The environment.
        cfg: The agent's configuration.
        context: The process's context.
        grad_sync: ``ddp`` or ``library``.

    Raises:
        ConfigurationError: If rsl_rl refuses the configuration.
    """
    values = cfg.for_library()
    values["algorithm"] |= {"class_name": DistributedPPO, "context": context}
    values["multi_gpu"] = None
    if context.is_distributed:
        values["multi_gpu"] = {"global_rank": context.rank, "world_size": context.world_size}
    printed = io.StringIO()  # the library prints its networks
    try:
        with contextlib.redirect_stdout(printed):
            algorithm = DistributedPPO.construct_algorithm(
                env.get_observations(), env, values, str(context.device)
            )
    except (TypeError, ValueError, LookupError, AttributeError, RuntimeError) as error:
        raise ConfigurationError(
            f"rsl_rl refuses the agent's configuration ({type(error).__name__}: {error}). "
            "Correct it by an override agent.<key>=<value>."
        ) from error
    logger.debug("%s", printed.getvalue().strip())
    assert isinstance(algorithm, DistributedPPO)
    dtype = settle_precision(cfg.precision, context)
    for network in (algorithm.actor, algorithm.critic):
        compute_in(network, dtype)
    if torch.distributed.is_initialized() and not context.is_distributed:
        _keep_normalisers(algorithm)
    if context.is_distributed and grad_sync == "ddp":
        algorithm.wrap()
    return algorithm


def _keep_normalisers(algorithm: DistributedPPO) -> None:
    """Have normalisers learn from this process alone, as one of a population."""
    for model in filter(None, (algorithm.actor, algorithm.critic, algorithm.rnd)):
        for module in model.modules():
            if type(module) is EmpiricalNormalization:
                module.__class__ = LocalNormalization
