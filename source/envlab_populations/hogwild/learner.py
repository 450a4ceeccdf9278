"""A session's iterations: skrl's, on networks that other sessions may share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.utils import clip_grad_norm_
from torch.utils._pytree import tree_map_only

from envlab.distributed.context import DistributedContext
from envlab.errors import ConfigurationError
from envlab.learner import Iteration, OnStep
from envlab.skrl.agents import schedule
from envlab.skrl.play import SkrlPlayer
from envlab.skrl.torch.learner import TorchLearner
from envlab.state import State
from envlab_populations.hogwild.agents import NORMALISER, make_session_agent
from envlab_populations.hogwild.cfg import RANDOM, SARSA, HogwildCfg
from envlab_populations.hogwild.sharing import Shared, optimizers, parameters_of

if TYPE_CHECKING:
    from envlab.learner import Player
    from envlab.training.plan import RunPlan

GRADIENT_STEPS = "gradient_steps"
"""A record's detail: a session's gradient steps so far, which efficiency is relative to."""


class UnderWay:
    """Steps whose episode, or number of episodes, is not complete, in what an agent has."""

    STATE = State(of_rank=("agent.memory.steps", "agent.num_ended", "agent.episodes"))

    def __init__(self, agent: Any) -> None:
        self.agent = agent


class HogwildLearner(TorchLearner):
    """See :class:`envlab.learner.Learner`."""

    STATE = State(per_env=(f"agent.{NORMALISER}.returns",), parts=("_under_way",))

    def __init__(
        self, agent: Any, env: Any, skrl_cfg: Any, cfg: HogwildCfg, shared: Shared | None = None
    ) -> None:
        """Take over an agent; with ``shared``, it trains on the shared parameters."""
        super().__init__(agent, env, skrl_cfg)
        self.session_cfg, self.shared = cfg, shared
        self.leaves_shared = False
        """Whether a checkpoint's shared part is not loaded, because the trial has loaded it."""
        self.count: Callable[[int], None] = _count_nothing
        """Called with the frames of each step of the environments."""
        self._schedules = {
            name: schedule(formula, f"agent.schedules.{name}")
            for name, formula in cfg.schedules.items()
        }
        self._rates = {
            name: [group["lr"] for group in optimizer.param_groups]
            for name, optimizer in optimizers(agent)
        }
        self._rate_factor = schedule(cfg.learning_rate_factor, "agent.learning_rate_factor")
        if shared is not None:
            shared.join(agent, synced=cfg.distributed == "synced")
        if cfg.clip_grad_norm > 0.0:
            for _, optimizer in optimizers(agent):
                optimizer.register_step_pre_hook(self._clip)

    def iterate(self, number: int, on_step: OnStep) -> Iteration:
        """See :class:`Learner`; settings and learning rates follow their schedules."""
        before = (number - 1) * self._steps
        timesteps = max(1, self._total * self._steps)
        for name, value in self._schedules.items():
            setattr(self.agent.cfg, name, value(before, timesteps))
        factor = self._rate_factor(before, timesteps)
        for name, optimizer in optimizers(self.agent):
            for group, rate in zip(optimizer.param_groups, self._rates[name], strict=True):
                group["lr"] = rate * factor

        def on_counted_step(rewards: torch.Tensor, *rest: Any) -> None:
            self.count(len(rewards))
            on_step(rewards, *rest)

        iteration = super().iterate(number, on_counted_step)
        iteration.details = {GRADIENT_STEPS: self.gradient_steps(number * self._steps)}
        return iteration

    def gradient_steps(self, timesteps: int) -> int:
        """Return the number of gradient steps of ``timesteps`` steps of the environments."""
        own, cfg = self.agent.cfg, self.session_cfg
        if cfg.algorithm == RANDOM:  # none; SLM-Lab counts one a step, for its efficiency
            return timesteps
        if cfg.algorithm == SARSA:
            return timesteps // cfg.num_steps_per_env
        if cfg.is_off_policy:
            updates = timesteps // cfg.update_interval
            updates -= min(own.learning_starts, timesteps) // cfg.update_interval
            return int(updates * own.gradient_steps)
        updates = self.agent._rollout if cfg.num_episodes else timesteps // own.rollouts
        steps = own.mini_batches * getattr(own, "learning_epochs", 1)
        return int(updates * (steps + cfg.imitation.num_batches * cfg.imitation.steps_per_batch))

    def _clip(self, optimizer: Any, *_: Any) -> None:
        clip_grad_norm_(parameters_of(optimizer), self.session_cfg.clip_grad_norm)

    def learning_rate(self) -> float:
        """See :class:`SkrlLearner`."""
        groups = [
            param_group
            for _, optimizer in optimizers(self.agent)
            for param_group in optimizer.param_groups
        ]
        return float(groups[0]["lr"]) if groups else 0.0  # a random agent has none

    def model_state(self) -> dict[str, Any]:
        """See :class:`Learner`; copies, since other sessions may train during the save.

        Check sums are computed before tensors are written. A tensor that changed in between
        made the file unreadable.
        """
        state = super().model_state()
        return state if self.shared is None else tree_map_only(torch.Tensor, torch.clone, state)

    @property
    def memories(self) -> dict[str, Any]:
        """See :class:`SkrlLearner`."""
        imitated = getattr(self.agent, "imitated", None)
        own = {} if imitated is None else {"imitated": imitated}
        found = super().memories if self.session_cfg.is_off_policy else {}
        return {**found, **own}

    @property
    def _under_way(self) -> UnderWay | None:
        """The steps of episodes under way; None where a resume begins new episodes."""
        return UnderWay(self.agent) if self.env.env.resumes_exactly else None

    def load_models(self, values: Mapping[str, Any]) -> None:
        """See :class:`Learner`; shared parameters are overwritten in place, or kept."""
        if self.shared is None:
            super().load_models(values)
        elif self.leaves_shared:
            state, modules = values["model"], self._modules()["agent"]
            own = {
                name: saved
                if name.startswith("target_") or name in ("entropy_optimizer", NORMALISER)
                else modules[name].state_dict()
                for name, saved in state["modules"]["agent"].items()
            }
            super().load_models({**values, "model": {**state, "modules": {"agent": own}}})
            self.shared.hold(self.agent)
        else:
            super().load_models(values)
            self.shared.take(self.agent)


def _count_nothing(num_frames: int) -> None:
    """Stand in for a trial's count of frames."""


def make_learner(
    env: Any, cfg: HogwildCfg, context: DistributedContext, shared: Shared | None = None
) -> HogwildLearner:
    """Return the learner of a session.

    Raises:
        ConfigurationError: If the configuration cannot train.
    """
    agent, wrapper, skrl_cfg = make_session_agent(env, cfg, context)
    return HogwildLearner(agent, wrapper, skrl_cfg, cfg, shared)


def build(plan: RunPlan, env: Any, context: DistributedContext) -> HogwildLearner:
    """Return the learner of a session on its own; see :mod:`envlab.libraries`."""
    return make_learner(env, plan.agent_cfg.resolved(), context)


def make_player(
    plan: RunPlan, env: Any, context: DistributedContext, values: dict[str, Any]
) -> Player:
    """Return the trained policy of a checkpoint.

    Raises:
        EnvlabError: If it does not fit the configuration.
    """
    cfg = replace(plan.agent_cfg.resolved(), precision="float32")
    if cfg.algorithm == RANDOM:
        raise ConfigurationError(
            "The run took random actions and has no policy to play. Play a run that has learned."
        )
    learner = make_learner(env, cfg, context)
    learner.load_models(values)
    return SkrlPlayer(learner)
