"""skrl's classes for PyTorch, with what they lack across ranks."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import torch
from gymnasium import spaces

from envlab.distributed.context import DistributedContext
from envlab.distributed.ddp import PolicyDDP, settle_buckets
from envlab.distributed.statistics import pooled_moments
from envlab.rl.skrl.library import component, load_skrl

load_skrl()

from skrl.resources.preprocessors.torch import RunningStandardScaler  # noqa: E402
from skrl.utils.runner.torch import Runner  # noqa: E402

_GAE_MODULES = (
    "agents.torch.a2c.a2c",
    "agents.torch.amp.amp",
    "agents.torch.ppo.ppo",
    "agents.torch.rpo.rpo",
    "multi_agents.torch.ippo.ippo",
    "multi_agents.torch.mappo.mappo",
)
"""Where skrl has a function ``compute_gae`` that normalises advantages."""

_context = DistributedContext()
"""Whose ranks the statistics below are of."""


def join_ranks(context: DistributedContext) -> None:
    """Tell skrl where this process is.

    skrl reads the launcher's variables at import and offers no setter, hence the private names.
    """
    global _context
    _context = context
    config = load_skrl().config.torch
    config._rank, config._local_rank = context.rank, context.local_rank
    config._world_size, config._is_distributed = context.world_size, context.is_distributed
    config.device = context.device
    for name in _GAE_MODULES:
        module: Any = importlib.import_module(f"skrl.{name}")
        # There is nothing to override: the update calls a function of its module, between lines
        # that cannot be replaced apart from the whole update.
        if not isinstance(module.compute_gae, _PooledAdvantages):
            module.compute_gae = _PooledAdvantages(module.compute_gae)


class _PooledAdvantages:
    """skrl's ``compute_gae``, with advantages normalised over all ranks."""

    def __init__(self, compute: Callable[..., tuple[torch.Tensor, torch.Tensor]]) -> None:
        self._compute = compute

    def __call__(self, **values: Any) -> tuple[torch.Tensor, torch.Tensor]:
        returns, advantages = self._compute(**values)
        if _context.is_distributed:
            advantages = returns - values["values"]
            mean, std = pooled_moments(advantages, _context)
            advantages = (advantages - mean) / (std + 1e-8)
        return returns, advantages


class PooledScaler(RunningStandardScaler):
    """skrl's ``RunningStandardScaler``, whose running statistics are of all ranks' data."""

    def _parallel_variance(
        self, input_mean: torch.Tensor, input_var: torch.Tensor, input_count: int
    ) -> None:
        if not _context.is_distributed:
            super()._parallel_variance(input_mean, input_var, input_count)
            return
        mean, var, count = pooled_batch(input_mean, input_var, input_count, _context)
        super()._parallel_variance(mean, var, count)


def pooled_batch(
    mean: torch.Tensor, var: torch.Tensor, count: int, context: DistributedContext
) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Return mean, unbiased variance and size of all ranks' batches together, ``(dim,)`` each."""
    mean, var = mean.double(), var.double()
    total, size = _summed(context, mean * count, torch.full_like(mean, float(count)))
    pooled = total / size
    squares = var * (count - 1) if count > 1 else torch.zeros_like(var)
    (deviation,) = _summed(context, squares + count * (mean - pooled).square())
    return pooled, deviation / (size - 1), round(float(size.reshape(-1)[0]))


def _summed(context: DistributedContext, *values: torch.Tensor) -> list[torch.Tensor]:
    """Return the sums of tensors over ranks, by one collective."""
    return list(context.sum(torch.stack(values)).unbind())


class SkrlDDP(PolicyDDP):
    """A skrl model in DDP: agents call :meth:`act`, which must pass through DDP's forward."""

    def act(self, inputs: dict[str, Any], *, role: str = "") -> Any:
        return self(inputs, role=role)

    def reduce_parameters(self) -> None:
        """Do nothing: DDP has averaged the gradients during the backward pass."""

    def broadcast_parameters(self, *, rank: int = 0) -> None:
        """Do nothing: DDP has done it at construction."""


def wrap_models(models: dict[str, Any]) -> dict[str, Any]:
    """Return an agent's models by role in DDP, but for target networks, which have no gradients."""
    wrapped: dict[int, SkrlDDP] = {}
    result = {}
    for role, model in models.items():
        if role.startswith("target_"):
            result[role] = model
            continue
        if id(model) not in wrapped:  # one model can play two roles
            wrapped[id(model)] = SkrlDDP(model)
            settle_buckets(wrapped[id(model)])
        result[role] = wrapped[id(model)]
    return result


class Generator(Runner):
    """skrl's runner for the models that it makes from a configuration; it seeds and runs nothing.

    skrl's constructor would seed all generators with an offset of its own and make a trainer.
    """

    def __init__(self, env: Any) -> None:
        self._env, self._verbose = env, False

    def models(self, cfg: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Return models by agent and role; the one agent of a single-agent task is ``agent``."""
        models: dict[str, dict[str, Any]] = self._generate_models(self._env, cfg)
        for model in (model for roles in models.values() for model in roles.values()):
            model.random_act = functools.partial(_random_actions, model.action_space)
        if str(cfg["agent"]["class"]).lower() == "rpo":
            policy = models["agent"]["policy"]
            policy.compute = functools.partial(_perturbed, policy.compute)
        return models

    def agent_class(self, algorithm: str) -> Any:
        """Return skrl's class of an algorithm."""
        return self._component(algorithm)

    def _process_cfg(self, cfg: dict[str, Any]) -> dict[str, Any]:
        # The stock method evaluates strings as Python.
        return {name: value for name, value in cfg.items() if name != "class"}


def _perturbed(
    compute: Callable[..., tuple[torch.Tensor, dict[str, Any]]], inputs: dict[str, Any], role: str
) -> tuple[torch.Tensor, dict[str, Any]]:
    """Return a policy's mean actions plus uniform noise in [-alpha, alpha], as RPO wants it.

    Rahman and Xue, "Robust Policy Optimization in Deep Reinforcement Learning" (2022), algorithm 1.
    skrl hands ``alpha`` to the network, but the networks that it makes from a configuration do not
    use it, so that RPO would be PPO.
    """
    mean, outputs = compute(inputs, role)
    if role == "policy" and "alpha" in inputs:
        mean = mean + inputs["alpha"] * (2.0 * torch.rand_like(mean) - 1.0)
    return mean, outputs


def _random_actions(
    space: spaces.Space[Any], inputs: dict[str, torch.Tensor], *, role: str = ""
) -> tuple[torch.Tensor, dict[str, Any]]:
    """Return random actions in place of a model's own, drawn from torch's generator.

    skrl draws from a copy of the space's generator, so that it repeats the same actions in every
    step (measured with Gymnasium 1.4), and this generator has no seed that a run could know.
    """
    count, device = len(inputs["observations"]), inputs["observations"].device
    if isinstance(space, spaces.Box):
        low, high = (torch.as_tensor(bound, device=device) for bound in (space.low, space.high))
        return low + (high - low) * torch.rand((count, *space.shape), device=device), {}
    sizes = [int(space.n)] if isinstance(space, spaces.Discrete) else list(space.nvec)  # type: ignore[attr-defined]
    columns = [torch.randint(int(size), (count, 1), device=device) for size in sizes]
    return torch.cat(columns, dim=1), {}


def torch_component(name: str, path: str) -> Any:
    """Return the class of a scheduler, preprocessor or noise, that works across ranks.

    Raises:
        ConfigurationError: If there is none of this name.
    """
    found = component(name, path)
    return PooledScaler if found is RunningStandardScaler else found
