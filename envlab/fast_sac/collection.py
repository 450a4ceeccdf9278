"""Steps of all environments with a policy that explores, for the replay memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from envlab.distributed.context import DistributedContext
from envlab.envs import BatchedEnv
from envlab.fast_sac.networks import Actor
from envlab.fast_sac.noise import ExplorationNoise
from envlab.fast_sac.scaling import ObsScaler
from envlab.learner import OnStep
from envlab.training.overlap import StepLog, copied


class Transitions(NamedTuple):
    """A step of all environments."""

    before: dict[str, torch.Tensor]
    """What actor and critics observed before it, by name, ``(num_envs, size)``."""
    actions: torch.Tensor
    """As the policy draws them, -1 to 1, ``(num_envs, num_actions)``."""
    rewards: torch.Tensor
    """``(num_envs,)``, as are the next two."""
    terminated: torch.Tensor
    """Whether the episode failed, bool."""
    truncated: torch.Tensor
    """Whether it was cut, bool."""
    after: dict[str, torch.Tensor]
    """What the step led to, by name: where an episode ended, its last observation."""


class Rollout(NamedTuple):
    """Steps that were collected beside learning."""

    steps: list[Transitions]
    log: StepLog
    """What the loop is to be told of them."""

    def state(self) -> dict[str, Any]:
        """Return what must survive a resume, on the CPU."""
        steps = [transitions._asdict() for transitions in self.steps]
        return {"steps": copied(steps, torch.device("cpu")), "log": self.log.state()}

    @classmethod
    def of(cls, state: Mapping[str, Any], context: DistributedContext) -> Rollout:
        """Return the rollout of which :meth:`state` returned this."""
        steps = copied(list(state["steps"]), context.device)
        log = StepLog(context)
        log.set_state(state["log"])
        return cls([Transitions(**transitions) for transitions in steps], log)


class Collector:
    """Takes the steps. Where it collects beside learning, its policy is a copy.

    Attributes:
        noise: What a deterministic policy explores by; None for one that draws its actions.
    """

    def __init__(
        self,
        env: BatchedEnv,
        groups: Mapping[str, str],
        action_range: tuple[torch.Tensor, torch.Tensor],
        policy: tuple[Actor, ObsScaler],
        noise: ExplorationNoise | None,
        generator: torch.Generator | None = None,
    ) -> None:
        """Take no step yet.

        Args:
            env: The environments.
            groups: Observation groups by the names that learning has for them.
            action_range: Half the width of the actions' range, and its middle.
            policy: The policy, and what scales its observations.
            noise: What a deterministic policy explores by.
            generator: What actions are drawn from; None: the process's.
        """
        self._env, self._groups, self._generator = env, groups, generator
        self._half_width, self._middle = action_range
        self._actor, self._scaler = policy
        self.noise = noise

    def follow(self, actor: Actor, scaler: ObsScaler) -> None:
        """Go on, where the policy is a copy, with one that is as the learner's is now."""
        self._actor.load_state_dict(actor.state_dict())
        self._scaler.load_state_dict(scaler.state_dict())

    @torch.no_grad()
    def step(self, on_step: OnStep) -> Transitions:
        """Take a step of all environments."""
        env = self._env
        before = self._named(env.obs_buf)
        drawn, _ = self._actor(self._scaler(before["obs"]), self._generator)
        if self.noise is not None:
            drawn = self.noise.added(drawn)
        actions = (drawn * self._half_width + self._middle).to(env.device)
        obs, rewards, terminated, truncated, info = env.step(actions)
        after = self._named(obs)
        if "final_obs" in info:  # what the step led to, where a new episode has begun
            final = self._named(info["final_obs"])
            is_final = info["_final_obs"].to(drawn.device).unsqueeze(1)
            after = {name: torch.where(is_final, final[name], after[name]) for name in after}
        rewards, terminated, truncated = (
            values.to(drawn.device, copy=True) for values in (rewards, terminated, truncated)
        )
        ended = terminated | truncated
        if self.noise is not None:
            self.noise.renew(ended)
        on_step(rewards, ended, info)
        return Transitions(before, drawn, rewards, terminated, truncated, after)

    def _named(self, obs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return copies of what actor and critics observe: environments reuse their tensors."""
        device = self._actor.mean.weight.device
        return {name: obs[group].to(device, copy=True) for name, group in self._groups.items()}
