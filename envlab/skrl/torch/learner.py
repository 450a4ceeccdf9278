"""skrl's agents on PyTorch: their construction, and the contents of their checkpoints."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch

from envlab.distributed.context import DistributedContext
from envlab.precision import compute_in, settle_precision
from envlab.sim.recording import NewGraphs, cuda_graphs, records_updates
from envlab.skrl.agents import agent_class, make_agent
from envlab.skrl.cfg import SkrlCfg
from envlab.skrl.checks import check_supported, needs_bounds
from envlab.skrl.env import SkrlMarlEnv, SkrlVectorEnv
from envlab.skrl.learner import SkrlLearner
from envlab.skrl.library import library_errors, misfit
from envlab.skrl.torch.memory import QuickMemory
from envlab.skrl.torch.models import make_models
from envlab.skrl.torch.ranks import (
    FinalValues,
    PooledScaler,
    join_ranks,
    pooled_advantages,
    wrap_models,
)
from envlab.skrl.torch.recorded_update import RecordedUpdate, obstacle
from envlab.state import State

_COUNTERS = ("_rollout", "_update_counter", "_entropy_coefficient")
_OPTIMIZERS = ("optimizer", "policy_optimizer", "value_optimizer")
_SCHEDULERS = ("scheduler", "policy_scheduler", "critic_scheduler", "value_scheduler")


class TorchLearner(SkrlLearner):
    """See :class:`SkrlLearner`."""

    STATE = State(per_env=("agent._exploration_noise.state",))
    recorded: RecordedUpdate | None = None
    """Makes updates instead of the library, if they are recorded."""

    def record(
        self,
        context: DistributedContext,
        new_graphs: NewGraphs = cuda_graphs,
        *,
        is_required: bool = False,
    ) -> RecordedUpdate:
        """Have updates recorded as graphs, see :class:`RecordedUpdate`."""
        self.recorded = RecordedUpdate(
            self.agent, context, self.readings, new_graphs, is_required=is_required
        )
        self.agent.update = self.recorded
        return self.recorded

    def learning_rate(self) -> float:
        modules = next(iter(self._modules().values()))
        optimizer = next(modules[name] for name in _OPTIMIZERS if name in modules)
        return float(optimizer.param_groups[0]["lr"])

    def model_state(self) -> dict[str, Any]:
        agent = self.agent
        state: dict[str, Any] = {
            "modules": {
                name: {role: module.state_dict() for role, module in modules.items()}
                for name, modules in self._modules().items()
            },
            "schedulers": {name: item.state_dict() for name, item in self._schedulers().items()},
            "counters": {name: getattr(agent, name) for name in _COUNTERS if hasattr(agent, name)},
        }
        if hasattr(agent, "log_entropy_coefficient"):
            state["log_entropy_coefficient"] = agent.log_entropy_coefficient.detach()
        if hasattr(agent, "scaler"):
            state["scaler"] = agent.scaler.state_dict()
        return state

    def all_optimizers(self) -> list[torch.optim.Optimizer]:
        return [
            module
            for modules in self._modules().values()
            for module in modules.values()
            if isinstance(module, torch.optim.Optimizer)
        ]

    def follow_rates(self) -> None:
        for item in self._schedulers().values():
            if hasattr(item, "_last_lr"):  # private: torch's schedulers have no other name for it
                item._last_lr = [group["lr"] for group in item.optimizer.param_groups]

    def load_models(self, values: Mapping[str, Any]) -> None:
        state, agent = values["model"], self.agent
        if self.recorded is not None:
            self.recorded.forget()
        try:
            for name, modules in self._modules().items():
                for role, module in modules.items():
                    module.load_state_dict(state["modules"][name][role])
            for name, item in self._schedulers().items():
                item.load_state_dict(state["schedulers"][name])
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise misfit("agent", str(error).splitlines()[-1].strip()) from error
        for name, value in state["counters"].items():
            setattr(agent, name, _to_device(value, agent.device))
        if "log_entropy_coefficient" in state:
            with torch.no_grad():
                agent.log_entropy_coefficient.copy_(state["log_entropy_coefficient"])
        if state.get("scaler"):
            agent.scaler.load_state_dict(state["scaler"])

    def _modules(self) -> dict[str, dict[str, Any]]:
        """Return networks, optimizers and preprocessors by agent and name."""
        modules = self.agent.checkpoint_modules
        by_agent = modules if self.cfg.is_multi_agent else {"agent": modules}
        return {
            name: {role: module for role, module in found.items() if module is not None}
            for name, found in by_agent.items()
        }

    def _schedulers(self) -> dict[str, Any]:
        found = {name: getattr(self.agent, name, None) for name in _SCHEDULERS}
        found |= getattr(self.agent, "schedulers", {})
        return {name: item for name, item in found.items() if item is not None}


def make_learner(
    env: Any, cfg: SkrlCfg, context: DistributedContext, *, grad_sync: str = "ddp"
) -> TorchLearner:
    """Build networks, agent and memories.

    Args:
        env: The environment; a multi-agent one for a multi-agent algorithm.
        cfg: The agent's configuration, resolved.
        context: The process's context.
        grad_sync: ``ddp`` or ``library``.

    Raises:
        ConfigurationError: If skrl or this adapter does not support the configuration.
    """
    join_ranks(context)
    wrapper = (
        SkrlMarlEnv(env)
        if cfg.is_multi_agent
        else SkrlVectorEnv(env, cfg.obs_groups, bounded=needs_bounds(cfg))
    )
    check_supported(cfg, wrapper, context)
    dtype = settle_precision(cfg.precision, context)
    with library_errors():
        models = make_models(wrapper, cfg)
        for roles in models.values():
            for network in set(roles.values()):  # two roles may share one
                compute_in(network, dtype)
        if context.is_distributed and grad_sync == "ddp":
            models = {name: wrap_models(roles) for name, roles in models.items()}
        agent = make_agent(
            _agent_class(cfg.algorithm, context),
            models,
            wrapper,
            cfg,
            device=env.device,
            memory_class=QuickMemory,
            scaler_class=PooledScaler.of(context),
        )
        if context.is_distributed and hasattr(agent, "log_entropy_coefficient"):
            agent.log_entropy_coefficient.register_hook(averaging(context))
        learner = TorchLearner(agent, wrapper, cfg)
    if records_updates(cfg.graph, context.device, obstacle(agent), is_main=context.is_main):
        learner.record(context, is_required=cfg.graph == "on")
    return learner


def _agent_class(algorithm: str, context: DistributedContext) -> Any:
    """Return skrl's class, whose advantages are over all ranks and end with an episode."""
    pooled = functools.partial(pooled_advantages, context=context)
    if algorithm != "amp":
        return agent_class(algorithm, "torch", {"compute_gae": pooled})
    finals = FinalValues()
    replacements = {"compute_gae": lambda stock: finals.added(pooled(stock))}
    return finals.of(agent_class(algorithm, "torch", replacements))


def averaging(context: DistributedContext) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function that averages a gradient over ranks."""
    return lambda gradient: context.sum(gradient) / context.world_size


def _to_device(value: Any, device: Any) -> Any:
    return value.to(device) if isinstance(value, torch.Tensor) else value
