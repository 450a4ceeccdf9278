"""skrl's agents on JAX: their construction, and the contents of their checkpoints."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from envlab.distributed.context import DistributedContext
from envlab.errors import ConfigurationError
from envlab.learner import OnStep
from envlab.skrl.agents import agent_class, make_agent
from envlab.skrl.cfg import SkrlCfg
from envlab.skrl.checks import check_supported, needs_bounds
from envlab.skrl.env import SkrlMarlEnv, SkrlVectorEnv
from envlab.skrl.jax.arrays import CompiledMemory, JaxEnv, load_tree, tree_state
from envlab.skrl.jax.models import make_models
from envlab.skrl.jax.noise import ActionNoise, drawing_anew, initialise
from envlab.skrl.jax.ranks import (
    AveragingOptimizer,
    PooledScaler,
    compute_advantages,
    gradient_average,
    pooled_schedule,
    start_jax,
)
from envlab.skrl.learner import SkrlLearner
from envlab.skrl.library import library_errors, load_skrl, misfit
from envlab.state import State

ALGORITHMS = ("ppo", "a2c", "sac", "td3", "ddpg", "dqn", "ddqn", "ippo", "mappo")
"""Supported algorithms of skrl on JAX. RPO is not: skrl's own networks would make it PPO, and flax
networks, unlike PyTorch's, cannot be given the missing noise from outside."""

_NUMBERS = (
    "learning_rate",
    "policy_learning_rate",
    "value_learning_rate",
    "critic_learning_rate",
    "_rollout",
    "_update_counter",
)
"""Attributes of skrl's agents that change during training, or dictionaries of them by agent."""
_OPTIMIZERS = {
    "optimizer": "q_network",
    "policy_optimizer": "policy",
    "value_optimizer": "value",
    "critic_optimizer": "critic",
    "critic_1_optimizer": "critic_1",
    "critic_2_optimizer": "critic_2",
    "entropy_optimizer": "log_entropy_coefficient",
}
"""Attributes in which skrl's agents keep an optimizer, and the parts that it changes."""
_PREPROCESSORS = ("_observation_preprocessor", "_state_preprocessor", "_value_preprocessor")
_SCHEDULERS = ("policy_scheduler", "value_scheduler")
_NOISES = ("_exploration_noise", "_smooth_regularization_noise")


class Noises:
    """The states of an agent's noises, such as Ornstein and Uhlenbeck's, by their names."""

    def __init__(self, agent: Any) -> None:
        self._agent = agent

    def state(self) -> dict[str, torch.Tensor]:
        """Return them on the CPU."""
        found = {name: getattr(getattr(self._agent, name, None), "state", None) for name in _NOISES}
        return tree_state({name: state for name, state in found.items() if hasattr(state, "shape")})

    def set_state(self, state: Mapping[str, torch.Tensor]) -> None:
        """Restore what :meth:`state` returned."""
        for name, values in state.items():
            array = jax.device_put(np.array(values.numpy()), self._agent.device)
            getattr(self._agent, name).state = array


class JaxLearner(SkrlLearner):
    """See :class:`SkrlLearner`."""

    STATE = State(parts=("noises",))

    def __init__(self, agent: Any, env: JaxEnv, cfg: SkrlCfg, noise: ActionNoise) -> None:
        """Prepare the agent for training."""
        super().__init__(agent, env, cfg)
        self._noise, self.noises = noise, Noises(agent)
        _derive_entropy_coefficient(agent)

    def learning_rate(self) -> float:
        name = next(name for name in _NUMBERS if hasattr(self.agent, name))
        value = getattr(self.agent, name)
        return float(next(iter(value.values())) if isinstance(value, dict) else value)

    def model_state(self) -> dict[str, Any]:
        return {
            "arrays": {
                path: tree_state(_tree(owner[key])) for path, (owner, key) in self._parts().items()
            },
            "numbers": {
                name: _plain(getattr(self.agent, name))
                for name in _NUMBERS
                if hasattr(self.agent, name)
            },
        }

    def load_models(self, values: Mapping[str, Any]) -> None:
        state, parts = values["model"], self._parts()
        differing = sorted(parts.keys() ^ state["arrays"].keys())
        if differing:
            raise misfit("agent", f"{differing[0]} is in one of them only")
        trees = {
            path: load_tree(_tree(owner[key]), state["arrays"][path], path)
            for path, (owner, key) in parts.items()
        }
        for path, (owner, key) in parts.items():
            part = owner[key]
            if hasattr(part, "state_dict"):
                part.state_dict = part.state_dict.replace(params=trees[path])
            else:
                owner[key] = part.replace(state=trees[path])
        for name, number in state["numbers"].items():
            setattr(self.agent, name, number)
        _derive_entropy_coefficient(self.agent)

    def noise_keys(self) -> dict[str, Any]:
        return self._noise.keys()

    def _interact(
        self, observations: Any, states: Any, when: Mapping[str, int], on_step: OnStep
    ) -> tuple[Any, Any]:
        self._noise.start(when["timestep"])
        return super()._interact(observations, states, when, on_step)

    def _parts(self) -> dict[str, tuple[dict[str, Any], str]]:
        """Return the place of everything that training changes, by path: a dictionary and a key."""
        models = self.agent.models if self.cfg.is_multi_agent else {"agent": self.agent.models}
        parts = {
            f"{name}.{role}": (by_role, role)
            for name, by_role in models.items()
            for role in by_role
        }
        for attribute in (*_OPTIMIZERS, *_PREPROCESSORS, "log_entropy_coefficient"):
            for name, owner, key in _places(self.agent, attribute):
                # A function may replace a preprocessor, and has no state.
                if hasattr(owner[key], "state_dict") or hasattr(owner[key], "state"):
                    parts[f"{name}.{attribute.lstrip('_')}"] = (owner, key)
        return parts


def make_learner(
    env: Any, cfg: SkrlCfg, context: DistributedContext, *, grad_sync: str = "ddp"
) -> JaxLearner:
    """Build networks, agent and memories.

    Args:
        env: The environment; a multi-agent one for a multi-agent algorithm.
        cfg: The agent's configuration, resolved.
        context: The process's context.
        grad_sync: Only ``ddp``.

    Raises:
        ConfigurationError: If skrl or this adapter does not support the configuration.
    """
    if grad_sync == "library":
        raise ConfigurationError(
            "--grad_sync is library, but skrl's own way to average gradients on JAX is not "
            "offered: it recompiles in every update, and aborts all ranks when rank 0 dies. Leave "
            "the flag out."
        )
    if cfg.algorithm not in ALGORITHMS:
        raise ConfigurationError(
            f"{cfg.agent['class']} was requested on JAX, but only "
            f"{', '.join(name.upper() for name in ALGORITHMS)} train there. Choose one of them, or "
            "leave --ml_framework jax out."
        )
    device = start_jax(context)
    load_skrl().config.jax.device = device
    wrapper = (
        SkrlMarlEnv(env)
        if cfg.is_multi_agent
        else SkrlVectorEnv(env, cfg.obs_groups, bounded=needs_bounds(cfg))
    )
    check_supported(cfg, wrapper, context)
    replacements: dict[str, Any] = {
        "_compute_gae": lambda stock: functools.partial(compute_advantages, context)
    }
    if cfg.algorithm == "sac":
        replacements["_update_policy"] = drawing_anew
    with library_errors():
        models = make_models(wrapper, cfg, device)
        roles = [(role, model) for by_role in models.values() for role, model in by_role.items()]
        initialise(roles, cfg.seed)
        agent = make_agent(
            agent_class(cfg.algorithm, "jax", replacements),
            models,
            wrapper,
            cfg,
            device=device,
            memory_class=CompiledMemory,
            scaler_class=PooledScaler.of(context),
        )
        _average_over_ranks(agent, context)
        sources = [model for _, model in roles] + [getattr(agent, name, None) for name in _NOISES]
        noise = ActionNoise(sources, cfg.seed + context.rank)
        return JaxLearner(agent, JaxEnv(wrapper), cfg, noise)


def _average_over_ranks(agent: Any, context: DistributedContext) -> None:
    """Let an agent's optimizers and schedulers see all ranks; skrl itself knows only one.

    This is also done on one process, where the optimizers report progress.
    """
    for attribute, role in _OPTIMIZERS.items():
        for name, owner, key in _places(agent, attribute):
            models = agent.models.get(name, agent.models)
            model = models[role] if role in models else getattr(agent, role)
            average = gradient_average(model.state_dict.params, context)
            owner[key] = AveragingOptimizer(owner[key], average)
    for attribute in _SCHEDULERS:
        for _, owner, key in _places(agent, attribute):
            owner[key] = pooled_schedule(owner[key], context)


def _places(agent: Any, attribute: str) -> list[tuple[str, dict[str, Any], str]]:
    """Return the places of an attribute, which several agents have in a dictionary.

    Each place is an agent's name, a dictionary, and a key in it; there is none for None.
    """
    own = vars(agent)
    found = own.get(attribute)
    if isinstance(found, dict):
        return [(name, found, name) for name in found if found[name] is not None]
    return [] if found is None else [("agent", own, attribute)]


def _tree(part: Any) -> Any:
    """Return the arrays of a model, a scaler or an optimizer."""
    return part.state_dict.params if hasattr(part, "state_dict") else part.state


def _derive_entropy_coefficient(agent: Any) -> None:
    """Set SAC's coefficient from its logarithm, like each update; initially it is a number."""
    if hasattr(agent, "log_entropy_coefficient"):
        agent._entropy_coefficient = jnp.exp(agent.log_entropy_coefficient.value)


def _plain(value: Any) -> Any:
    """Return a number, or numbers by agent, in a form that checkpoints support."""
    if isinstance(value, dict):
        return {name: _plain(number) for name, number in value.items()}
    return value if isinstance(value, int) else float(value)
