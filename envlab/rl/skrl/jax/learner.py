"""skrl 2.1.1 on JAX (0.10): what the library lacks across ranks is added here.

Gaps of skrl 2.1.1 that this file and those it builds on (``skrl_jax_*.py``, ``skrl_*.py``) close:

- It starts JAX's coordinator while it is imported, whose clients abort the process when rank 0
  dies, and its launcher exits with 0 whatever happens: ranks agree through our process group, and
  :mod:`envlab.distributed.skrl_launcher` makes the launcher fail.
- It averages gradients by a function that JAX compiles anew in every call, and forgets to import
  the module that it broadcasts parameters with:
  :class:`envlab.rl.skrl.jax.ranks.AveragingOptimizer`. JAX has no ``DistributedDataParallel``, so
  ``--grad_sync ddp`` means this one collective per network, and ``--grad_sync library`` is refused.
- Its running scalers and advantages see each rank's own data, and it does not average the gradient
  of SAC's entropy coefficient: :mod:`envlab.rl.skrl.jax.ranks` pools all three.
- Twin critics are equal for ever, agents share their noise, SAC's policy update sees the same noise
  in every update, and random actions are not seeded: :mod:`envlab.rl.skrl.jax.noise`.
- ``kl_threshold`` leaves the loop over mini-batches on one rank alone: refused on several.
- Target values and time limits use the observation after a reset: here the final one.
- Its checkpoints are pickles without optimizers, learning rates, counters, entropy coefficient,
  replay memory, exploration noise and generators: checkpoints are ours.
- Its runner evaluates strings of the configuration as Python.
"""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envlab.distributed.context import DistributedContext
from envlab.distributed.jax_process import start_jax
from envlab.errors import CheckpointError, ConfigurationError
from envlab.rl.command.session import Session
from envlab.rl.skrl.cfg import SkrlCfg
from envlab.rl.skrl.checks import check_supported
from envlab.rl.skrl.env import SkrlMarlEnv, SkrlVectorEnv
from envlab.rl.skrl.jax.agents import ALGORITHMS, make_agent, make_models
from envlab.rl.skrl.jax.arrays import load_tree, tree_state
from envlab.rl.skrl.jax.env import JaxEnv
from envlab.rl.skrl.jax.noise import ActionNoise, initialise, refresh_sac_noise
from envlab.rl.skrl.jax.ranks import (
    AveragingOptimizer,
    gradient_average,
    pool_advantages,
    pooled_schedule,
)
from envlab.rl.skrl.learner import SkrlLearner, Transition, check_algorithm
from envlab.rl.skrl.library import OFF_POLICY, load_skrl

logger = logging.getLogger(__name__)

LIBRARY = "skrl"
FRAMEWORK = "jax"

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
}
"""Where skrl's agents keep an optimizer, and the model that it changes."""
_PREPROCESSORS = ("_observation_preprocessor", "_state_preprocessor", "_value_preprocessor")
_SCHEDULERS = ("policy_scheduler", "value_scheduler")


class JaxLearner(SkrlLearner):
    """skrl's agents on JAX, and all that a checkpoint of them must hold."""

    def __init__(self, agent: Any, env: JaxEnv, cfg: SkrlCfg, noise: ActionNoise) -> None:
        """Prepare the agent for training."""
        super().__init__(agent, env, cfg)
        self._noise = noise
        _derive_entropy_coefficient(agent)

    def learning_rate(self) -> float:
        """See :class:`SkrlLearner`; the first agent's, where there are several."""
        name = next(name for name in _NUMBERS if hasattr(self.agent, name))
        value = getattr(self.agent, name)
        return float(next(iter(value.values())) if isinstance(value, dict) else value)

    def model_state(self) -> dict[str, Any]:
        """See :class:`envlab.rl.loop.training.Learner`."""
        return {
            "arrays": {name: tree_state(tree) for name, tree in self._trees().items()},
            "numbers": {
                name: _plain(getattr(self.agent, name))
                for name in _NUMBERS
                if hasattr(self.agent, name)
            },
        }

    def load_models(self, values: Mapping[str, Any]) -> None:
        """See :class:`envlab.rl.loop.training.Learner`."""
        state, trees = values["model"], self._trees()
        if trees.keys() != state["arrays"].keys():
            differing = sorted(trees.keys() ^ state["arrays"].keys())
            raise CheckpointError(
                f"The checkpoint does not fit the configured agent ({differing[0]} is in one of "
                "them only). Use the run's own configuration: leave out overrides of agent.models "
                "and agent.agent."
            )
        arrays = {name: load_tree(trees[name], state["arrays"][name], name) for name in trees}
        for path, owner, name in self._parts():
            _set_tree(owner, name, arrays[path])
        for name, number in state["numbers"].items():
            setattr(self.agent, name, number)
        _derive_entropy_coefficient(self.agent)

    def rank_state(self) -> dict[str, Any]:
        """Return memories that outlive an iteration, and what exploration noise remembers."""
        return {
            "memories": {
                name: {
                    "index": memory.memory_index,
                    "filled": memory.filled,
                    "tensors": tree_state(memory.tensors),
                }
                for name, memory in self._kept_memories().items()
            },
            "noise": tree_state(self._noise_states()),
        }

    def set_rank_state(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`rank_state` returned."""
        for name, memory in self._kept_memories().items():
            saved = state["memories"][name]
            memory.memory_index, memory.filled = saved["index"], saved["filled"]
            memory.tensors = load_tree(memory.tensors, saved["tensors"], name)
        for name, values in state["noise"].items():
            array = jax.device_put(np.array(values.numpy()), self.agent.device)
            getattr(self.agent, name).state = array

    def noise_keys(self) -> dict[str, Any]:
        """See :class:`envlab.rl.loop.training.Learner`."""
        return self._noise.keys()

    def _interact(self, observations: Any, states: Any, when: Mapping[str, int]) -> Transition:
        self._noise.start(when["timestep"])
        return super()._interact(observations, states, when)

    def _parts(self) -> list[tuple[str, Any, str]]:
        """Return what holds arrays: its path, who has it, and under which name or key."""
        agent = self.agent
        parts: list[tuple[str, Any, str]] = []
        several = hasattr(agent, "possible_agents")
        for name, models in agent.models.items() if several else [("agent", agent.models)]:
            parts += [(f"{name}.{role}", models, role) for role in models]
        for name in (*_OPTIMIZERS, "entropy_optimizer", *_PREPROCESSORS):
            found = getattr(agent, name, None)
            if isinstance(found, dict):
                parts += [(f"{key}.{name.lstrip('_')}", found, key) for key in found]
            elif found is not None:
                parts.append((f"agent.{name.lstrip('_')}", agent, name))
        if hasattr(agent, "log_entropy_coefficient"):
            parts.append(("agent.log_entropy_coefficient", agent, "log_entropy_coefficient"))
        return [part for part in parts if _has_arrays(_get(part[1], part[2]))]

    def _trees(self) -> dict[str, Any]:
        """Return all arrays that training changes, by path."""
        return {path: _tree(_get(owner, name)) for path, owner, name in self._parts()}

    def _kept_memories(self) -> dict[str, Any]:
        """Return the memories that are not overwritten in each iteration."""
        return {"memory": self.agent.memory} if self.cfg.algorithm in OFF_POLICY else {}

    def _noise_states(self) -> dict[str, Any]:
        """Return the states of noises that have one by now."""
        names = ("_exploration_noise", "_smooth_regularization_noise")
        found = {name: getattr(getattr(self.agent, name, None), "state", None) for name in names}
        return {name: state for name, state in found.items() if hasattr(state, "shape")}


def make_learner(env: Any, cfg: SkrlCfg, context: DistributedContext) -> JaxLearner:
    """Build networks, agent and memories.

    Args:
        env: The environment; a multi-agent one for a multi-agent algorithm.
        cfg: The agent's configuration, resolved.
        context: The process's context.

    Raises:
        ConfigurationError: If skrl or this adapter does not support the configuration.
    """
    if cfg.algorithm not in ALGORITHMS:
        raise ConfigurationError(
            f"{cfg.agent['class']} was asked for on JAX, but only "
            f"{', '.join(name.upper() for name in ALGORITHMS)} train there. Choose one of them, or "
            "leave --ml_framework jax out."
        )
    device = start_jax(context)
    load_skrl().config.jax.device = device
    wrapper = SkrlMarlEnv(env) if cfg.is_multi_agent else SkrlVectorEnv(env)
    check_supported(cfg, wrapper, context)
    pool_advantages(context)
    refresh_sac_noise()
    with _library_errors():
        models = make_models(wrapper, cfg, device)
        roles = [(role, model) for by_role in models.values() for role, model in by_role.items()]
        initialise(roles, cfg.seed)
        agent = make_agent(models, wrapper, cfg, device, context)
        _average_over_ranks(agent, context)
        noises = [
            getattr(agent, name, None)
            for name in ("_exploration_noise", "_smooth_regularization_noise")
        ]
        noise = ActionNoise([model for _, model in roles] + noises, cfg.seed + context.rank)
        return JaxLearner(agent, JaxEnv(wrapper), cfg, noise)


def build(session: Session, env: Any, context: DistributedContext) -> JaxLearner:
    """Return the learner of a settled session.

    Raises:
        ConfigurationError: If the session asks for what there is not on JAX.
    """
    if session.flags.grad_sync == "library":
        raise ConfigurationError(
            "--grad_sync is library, but skrl's own way to average gradients on JAX is not "
            "offered: it compiles anew in every update, and aborts all ranks when rank 0 dies. "
            "Leave the flag out."
        )
    return make_learner(env, check_algorithm(session, FRAMEWORK), context)


def _average_over_ranks(agent: Any, context: DistributedContext) -> None:
    """Have an agent's optimizers and schedulers see all ranks; skrl itself knows of one only.

    On one process too, where the optimizers tell of progress.
    """
    several = hasattr(agent, "possible_agents")
    for name, role in _OPTIMIZERS.items():
        found = getattr(agent, name, None)
        if isinstance(found, dict):
            for key in found:
                parameters = agent.models[key][role].state_dict.params
                found[key] = AveragingOptimizer(found[key], gradient_average(parameters, context))
        elif found is not None:
            parameters = agent.models[role].state_dict.params
            setattr(agent, name, AveragingOptimizer(found, gradient_average(parameters, context)))
    if hasattr(agent, "entropy_optimizer"):
        parameters = agent.log_entropy_coefficient.state_dict.params
        agent.entropy_optimizer = AveragingOptimizer(
            agent.entropy_optimizer, gradient_average(parameters, context)
        )
    for name in _SCHEDULERS:
        found = getattr(agent, name, None)
        if several and found:
            for key, schedule in found.items():
                found[key] = None if schedule is None else pooled_schedule(schedule, context)
        elif found is not None:
            setattr(agent, name, pooled_schedule(found, context))


def _derive_entropy_coefficient(agent: Any) -> None:
    """Set SAC's coefficient from its logarithm, as each update does; at first it is a number."""
    if hasattr(agent, "log_entropy_coefficient"):
        agent._entropy_coefficient = jnp.exp(agent.log_entropy_coefficient.value)


def _get(owner: Any, name: str) -> Any:
    return owner[name] if isinstance(owner, dict) else getattr(owner, name)


def _has_arrays(part: Any) -> bool:
    """Return whether it is a model, a scaler or an optimizer, and not a function in its place."""
    return hasattr(part, "state_dict") or hasattr(part, "state")


def _tree(part: Any) -> Any:
    return part.state_dict.params if hasattr(part, "state_dict") else part.state


def _set_tree(owner: Any, name: str, tree: Any) -> None:
    part = _get(owner, name)
    if hasattr(part, "state_dict"):
        part.state_dict = part.state_dict.replace(params=tree)
    elif isinstance(owner, dict):
        owner[name] = part.replace(state=tree)
    else:
        setattr(owner, name, part.replace(state=tree))


def _plain(value: Any) -> Any:
    """Return a number, or numbers by agent, as a checkpoint can hold them."""
    if isinstance(value, dict):
        return {name: _plain(number) for name, number in value.items()}
    return value if isinstance(value, int) else float(value)


@contextlib.contextmanager
def _library_errors() -> Iterator[None]:
    """Turn what skrl raises for a configuration into one sentence, and its prints into the log."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            yield
    except (TypeError, ValueError, LookupError, AttributeError, RuntimeError, SyntaxError) as error:
        reason = str(error).splitlines()[0] if str(error) else ""
        raise ConfigurationError(
            f"skrl refuses the agent's configuration ({type(error).__name__}: {reason}). Correct "
            "it by an override agent.<key>=<value>."
        ) from error
    logger.debug("%s", printed.getvalue().strip())
