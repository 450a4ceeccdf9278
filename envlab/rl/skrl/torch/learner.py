"""skrl 2.1.1 on PyTorch: what the library lacks across ranks is added here.

Gaps of skrl 2.1.1 that this file and those it builds on (``skrl_*.py``) close:

- It joins an NCCL group while it is imported: it is imported without knowing of other processes
  (:func:`envlab.rl.skrl.library.load_skrl`), and told of our context after that.
- It averages gradients by hand; models are wrapped in ``DistributedDataParallel`` instead
  (``--grad_sync library`` keeps its own way, with the same result).
- Its running scalers see each rank's own data: :class:`envlab.rl.skrl.torch.ranks.PooledScaler`.
- It normalises advantages with each rank's own mean and deviation:
  :func:`envlab.rl.skrl.torch.ranks.join_ranks` pools them.
- It does not average the gradient of SAC's entropy coefficient: a hook on the tensor does.
- ``kl_threshold`` leaves the loop over mini-batches on one rank alone, which hangs the others: it
  is refused on several processes. TRPO and CEM have no distributed code: refused, too.
- Target values and time limits use the observation after a reset: here the final one.
- Its tracking data grows for ever where nothing is written, and it writes to Weights & Biases on
  every rank: its own files are off, see :class:`envlab.rl.skrl.learner.SkrlLearner`.
- It resumes at timestep 0, without schedulers, counters, entropy coefficient, replay memory,
  exploration noise and generators, and loads with pickle: checkpoints are ours.
- IPPO and MAPPO refuse the empty arguments of a scheduler, and lose those of preprocessors.
- Networks made from a configuration ignore RPO's noise, so that RPO is PPO: it is added here.
- Random actions are the same in every step, of no known seed: drawn from torch's generator here.
- DDPG and TD3 fail on actions without bounds: these lie in -1 to 1 there.
- Its runner evaluates strings of the configuration as Python, and adds the rank to the seed.
"""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from envlab.distributed.context import DistributedContext
from envlab.envs import VectorEnv
from envlab.errors import CheckpointError, ConfigurationError
from envlab.rl.command.session import Session
from envlab.rl.skrl.cfg import SkrlCfg
from envlab.rl.skrl.checks import check_supported
from envlab.rl.skrl.env import SkrlMarlEnv, SkrlVectorEnv
from envlab.rl.skrl.learner import SkrlLearner, check_algorithm
from envlab.rl.skrl.library import OFF_POLICY
from envlab.rl.skrl.torch.agents import make_agent, make_agents
from envlab.rl.skrl.torch.ranks import Generator, join_ranks, wrap_models

logger = logging.getLogger(__name__)

LIBRARY = "skrl"
FRAMEWORK = "torch"

_COUNTERS = ("_rollout", "_update_counter", "_entropy_coefficient")
_OPTIMIZERS = ("optimizer", "policy_optimizer", "value_optimizer")
_SCHEDULERS = ("scheduler", "policy_scheduler", "critic_scheduler", "value_scheduler")


_MISTAKES = (
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    NameError,
    RuntimeError,
    SyntaxError,
    AssertionError,
)
"""What skrl raises for a configuration that it does not understand."""


class TorchLearner(SkrlLearner):
    """skrl's agents on PyTorch, and all that a checkpoint of them must hold."""

    def learning_rate(self) -> float:
        """See :class:`SkrlLearner`; the first agent's, where there are several."""
        modules = next(iter(self._modules().values()))
        optimizer = next(modules[name] for name in _OPTIMIZERS if name in modules)
        return float(optimizer.param_groups[0]["lr"])

    def model_state(self) -> dict[str, Any]:
        """See :class:`envlab.rl.loop.training.Learner`."""
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

    def load_models(self, values: Mapping[str, Any]) -> None:
        """See :class:`envlab.rl.loop.training.Learner`."""
        state, agent = values["model"], self.agent
        try:
            for name, modules in self._modules().items():
                for role, module in modules.items():
                    module.load_state_dict(state["modules"][name][role])
            for name, item in self._schedulers().items():
                item.load_state_dict(state["schedulers"][name])
        except (RuntimeError, KeyError, ValueError) as error:
            reason = str(error).splitlines()[-1].strip()
            raise CheckpointError(
                f"The checkpoint does not fit the configured agent ({reason}). Use the run's own "
                "configuration: leave out overrides of agent.models and agent.agent."
            ) from error
        for name, value in state["counters"].items():
            setattr(agent, name, _to_device(value, agent.device))
        if "log_entropy_coefficient" in state:
            with torch.no_grad():
                agent.log_entropy_coefficient.copy_(state["log_entropy_coefficient"])
        if state.get("scaler"):
            agent.scaler.load_state_dict(state["scaler"])

    def rank_state(self) -> dict[str, Any]:
        """Return the filled part of memories that outlive an iteration, and the noise's state."""
        noise = getattr(getattr(self.agent, "_exploration_noise", None), "state", None)
        return {
            "memories": {
                name: {
                    "index": memory.memory_index,
                    "filled": memory.filled,
                    "tensors": {
                        key: values[: _rows(memory)].cpu().clone()
                        for key, values in memory.tensors.items()
                    },
                }
                for name, memory in self._kept_memories().items()
            },
            "noise": noise.cpu().clone() if isinstance(noise, torch.Tensor) else noise,
        }

    def set_rank_state(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`rank_state` returned."""
        for name, memory in self._kept_memories().items():
            saved = state["memories"][name]
            memory.memory_index, memory.filled = saved["index"], saved["filled"]
            for key, values in saved["tensors"].items():
                memory.tensors[key][: len(values)].copy_(values)
        if state["noise"] is not None:
            self.agent._exploration_noise.state = _to_device(state["noise"], self.agent.device)

    def _modules(self) -> dict[str, dict[str, Any]]:
        """Return networks, optimizers and preprocessors by agent and name."""
        modules = self.agent.checkpoint_modules
        by_agent = modules if hasattr(self.agent, "possible_agents") else {"agent": modules}
        return {
            name: {role: module for role, module in found.items() if module is not None}
            for name, found in by_agent.items()
        }

    def _schedulers(self) -> dict[str, Any]:
        found = {name: getattr(self.agent, name, None) for name in _SCHEDULERS}
        found |= getattr(self.agent, "schedulers", {})
        return {name: item for name, item in found.items() if item is not None}

    def _kept_memories(self) -> dict[str, Any]:
        """Return the memories that are not overwritten in each iteration."""
        names = ("motion_dataset", "reply_buffer") if self.cfg.algorithm == "amp" else ()
        found = {name: getattr(self.agent, name) for name in names}
        return {"memory": self.agent.memory} if self.cfg.algorithm in OFF_POLICY else found


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
    wrapper = SkrlMarlEnv(env) if cfg.is_multi_agent else _vector_env(env, cfg)
    check_supported(cfg, wrapper, context)
    with _library_errors():
        generator = Generator(wrapper)
        models: dict[str, dict[str, Any]] = generator.models(cfg.for_library())
        if context.is_distributed and grad_sync == "ddp":
            models = {name: wrap_models(roles) for name, roles in models.items()}
        make = make_agents if cfg.is_multi_agent else make_agent
        agent = make(generator.agent_class(cfg.algorithm), models, wrapper, cfg)
        if context.is_distributed and hasattr(agent, "log_entropy_coefficient"):
            agent.log_entropy_coefficient.register_hook(_averaged(context))
        return TorchLearner(agent, wrapper, cfg)


def build(session: Session, env: Any, context: DistributedContext) -> TorchLearner:
    """Return the learner of a settled session."""
    cfg = check_algorithm(session, FRAMEWORK)
    return make_learner(env, cfg, context, grad_sync=session.flags.grad_sync)


def _vector_env(env: VectorEnv, cfg: SkrlCfg) -> SkrlVectorEnv:
    return SkrlVectorEnv(env, bounded=cfg.algorithm in ("ddpg", "td3"))


@contextlib.contextmanager
def _library_errors() -> Iterator[None]:
    """Turn what skrl raises for a configuration into one sentence, and its prints into the log."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            yield
    except _MISTAKES as error:
        reason = str(error).splitlines()[0] if str(error) else ""
        raise ConfigurationError(
            f"skrl refuses the agent's configuration ({type(error).__name__}: {reason}). Correct "
            "it by an override agent.<key>=<value>."
        ) from error
    logger.debug("%s", printed.getvalue().strip())


def _averaged(context: DistributedContext) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda gradient: context.sum(gradient) / context.world_size


def _rows(memory: Any) -> int:
    """Return how many rows of a memory hold something."""
    return int(memory.memory_size if memory.filled else memory.memory_index)


def _to_device(value: Any, device: Any) -> Any:
    return value.to(device) if isinstance(value, torch.Tensor) else value
