"""Steps of all environments with an exploring policy, for the replay memory.

Noise is TD3's, on exploring actions and on those for target values. Observations and rewards are
scaled for learning by statistics of all ranks, which change at the end of an iteration, equally on
all ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from envlab.distributed.context import DistributedContext
from envlab.distributed.statistics import RunningMoments
from envlab.envs import BatchedEnv
from envlab.fast_sac.cfg import AlgorithmCfg
from envlab.fast_sac.networks import Actor
from envlab.learner import OnStep
from envlab.sim.recording import NewGraphs, Recording, cuda_graphs, recording_of_updates
from envlab.state import Share, rows_of_tree
from envlab.training.overlap import StepLog, copied

EPSILON = 1e-2
"""Added to deviations, as in FastTD3, so that nearly constant values are not blown up."""


class ObsScaler(RunningMoments):
    """Scales observations to a mean of zero and a deviation of one."""

    shift: torch.Tensor
    factor: torch.Tensor

    def __init__(self, size: int, context: DistributedContext) -> None:
        super().__init__((size,), context)
        self.shift = nn.Buffer(torch.zeros(size))
        self.factor = nn.Buffer(torch.ones(size))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Return scaled observations, ``(batch, size)``."""
        return (obs - self.shift) * self.factor

    def add(self, samples: torch.Tensor) -> None:
        super().add(samples)
        self.shift.copy_(self.running_mean)
        self.factor.copy_(1.0 / (self.running_var.sqrt() + EPSILON))


class RewardScaler(RunningMoments):
    """Scales rewards so that running returns have the size that critics expect, in any task.

    Lee et al., "Hyperspherical Normalization for Scalable Deep Reinforcement Learning" (SimbaV2,
    2025): rewards are divided by the deviation of the running discounted returns, or by the
    largest over ``v_max`` if that is more, so that a distribution within ``v_max`` covers them.

    Attributes:
        largest: Largest magnitude of the running returns of all ranks, 0-d.
        factor: Factor of rewards, 0-d.
    """

    largest: torch.Tensor
    factor: torch.Tensor

    def __init__(self, gamma: float, v_max: float, context: DistributedContext) -> None:
        super().__init__((1,), context)
        self._gamma, self._v_max = gamma, v_max
        self.largest = nn.Buffer(torch.zeros((), dtype=torch.float64))
        self.factor = nn.Buffer(torch.ones(()))

    def returns(
        self, before: torch.Tensor, rewards: torch.Tensor, ended: torch.Tensor
    ) -> torch.Tensor:
        """Return running discounted returns, ``(num_envs,)``; they restart where an episode ended.

        Args:
            before: Returns before the step, which are updated in place.
            rewards: Rewards of the step, ``(num_envs,)``.
            ended: Whether the episode ended, bool ``(num_envs,)``.
        """
        before.mul_(self._gamma).add_(rewards)
        returns = before.clone()
        before.masked_fill_(ended, 0.0)
        return returns

    def add(self, samples: torch.Tensor) -> None:
        super().add(samples)
        torch.maximum(self.largest, samples.abs().max().double(), out=self.largest)
        if self._context.is_distributed:
            self.largest.fill_(max(self._context.gather(float(self.largest))))
        spread = torch.maximum(self.running_var[0].sqrt(), self.largest / self._v_max)
        self.factor.copy_(1.0 / spread.clamp(min=1e-6))


class ExplorationNoise:
    """Gaussian noise with a deviation for each environment and episode.

    Seo et al., "FastTD3" (arXiv 2505.22642), whose code also draws it from torch's generator.

    Attributes:
        deviations: Deviation of each environment's noise, ``(num_envs, 1)``.
    """

    def __init__(
        self,
        cfg: AlgorithmCfg,
        num_envs: int,
        device: torch.device,
        generator: torch.Generator | None = None,
    ) -> None:
        """Draw the first deviations; all draws are from ``generator``, or the process's."""
        self._least, self._largest = cfg.noise_std_min, cfg.noise_std_max
        self._generator = generator
        self.deviations = self._drawn(torch.empty(num_envs, 1, device=device))

    def added(self, actions: torch.Tensor) -> torch.Tensor:
        """Return actions with noise, within -1 to 1, ``(num_envs, num_actions)``."""
        noise = torch.empty_like(actions).normal_(generator=self._generator)
        return (actions + noise * self.deviations).clamp(-1.0, 1.0)

    def renew(self, ended: torch.Tensor) -> None:
        """Draw new deviations where an episode ended, bool ``(num_envs,)``."""
        drawn = self._drawn(torch.empty_like(self.deviations))
        torch.where(ended.unsqueeze(1), drawn, self.deviations, out=self.deviations)

    def _drawn(self, deviations: torch.Tensor) -> torch.Tensor:
        return deviations.uniform_(self._least, self._largest, generator=self._generator)


def smoothed(actions: torch.Tensor, cfg: AlgorithmCfg) -> torch.Tensor:
    """Return the target policy's actions with clipped noise, ``(batch, num_actions)``.

    Fujimoto et al., "Addressing Function Approximation Error in Actor-Critic Methods" (2018),
    section 5.3.
    """
    noise = torch.randn_like(actions) * cfg.target_noise_std
    limit = cfg.target_noise_clip
    return (actions + noise.clamp(-limit, limit)).clamp(-1.0, 1.0)


class Transitions(NamedTuple):
    """A step of all environments."""

    before: dict[str, torch.Tensor]
    """Observations of actor and critics before it, by name, ``(num_envs, size)``."""
    actions: torch.Tensor
    """The policy's actions, -1 to 1, ``(num_envs, num_actions)``."""
    rewards: torch.Tensor
    """``(num_envs,)``, as are the next two."""
    terminated: torch.Tensor
    """Whether the episode failed, bool."""
    truncated: torch.Tensor
    """Whether it was truncated, bool."""
    after: dict[str, torch.Tensor]
    """Observations after it, by name: where an episode ended, its last one."""


class Rollout(NamedTuple):
    """Steps collected in parallel with learning."""

    steps: list[Transitions]
    log: StepLog
    """Information on them for the loop."""

    def state(self) -> dict[str, Any]:
        """Return the state that a resume needs, on the CPU."""
        steps = [transitions._asdict() for transitions in self.steps]
        return {"steps": copied(steps, torch.device("cpu")), "log": self.log.state()}

    @classmethod
    def dealt(cls, saved: Sequence[Mapping[str, Any]], share: Share) -> dict[str, Any]:
        """Return a share of what several processes saved."""
        return {
            "steps": rows_of_tree([each["steps"] for each in saved], share, 0, "steps"),
            "log": StepLog.dealt([each["log"] for each in saved], share),
        }

    @classmethod
    def of(cls, state: Mapping[str, Any], context: DistributedContext) -> Rollout:
        """Return the rollout whose :meth:`state` this is."""
        steps = copied(list(state["steps"]), context.device)
        log = StepLog(context)
        log.set_state(state["log"])
        return cls([Transitions(**transitions) for transitions in steps], log)


class Collector:
    """Takes the steps. If it collects in parallel with learning, its policy is a copy.

    Attributes:
        noise: Exploration noise of a deterministic policy; None for one that draws its actions.
        recording: Acts by a graph; None: not.
    """

    recording: Recording | None = None

    def __init__(
        self,
        env: BatchedEnv,
        groups: Mapping[str, str],
        action_range: tuple[torch.Tensor, torch.Tensor],
        policy: tuple[Actor, ObsScaler],
        noise: ExplorationNoise | None,
        generator: torch.Generator | None = None,
    ) -> None:
        """Prepare; no step is taken yet.

        Args:
            env: The environments.
            groups: Observation groups by their names in learning.
            action_range: Half the width of the actions' range, and its middle.
            policy: The policy, and the scaler of its observations.
            noise: Exploration noise of a deterministic policy.
            generator: Generator of actions; None: the process's.
        """
        self._env, self._groups, self._generator = env, groups, generator
        self._half_width, self._middle = action_range
        self.actor, self.scaler = policy
        self.noise = noise

    def record(self, new_graphs: NewGraphs = cuda_graphs, *, is_required: bool = False) -> None:
        """Act by a graph from now on, which reads observations where they are copied to.

        Args:
            new_graphs: See :data:`NewGraphs`.
            is_required: Whether a policy that cannot be recorded is an error.
        """
        self._seen = self._named(self._env.obs_buf)["obs"]
        self.recording = recording_of_updates(
            lambda: self._act(self._seen), new_graphs, is_required=is_required
        )

    def follow(self, actor: Actor, scaler: ObsScaler) -> None:
        """If the policy is a copy, update it to the learner's current one."""
        self.actor.load_state_dict(actor.state_dict())
        self.scaler.load_state_dict(scaler.state_dict())

    @torch.no_grad()
    def step(self, on_step: OnStep) -> Transitions:
        """Take a step of all environments."""
        env = self._env
        before = self._named(env.obs_buf)
        if self.recording is None:
            drawn, actions = self._act(before["obs"])
        else:
            self._seen.copy_(before["obs"])
            drawn, actions = self.recording.run()
        obs, rewards, terminated, truncated, info = env.step(actions.to(env.device))
        after = self._named(obs)
        if "final_obs" in info:  # the state after the step, where a new episode has begun
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

    def _act(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the policy's actions, -1 to 1, and those of the environments."""
        drawn, _ = self.actor(self.scaler(obs), self._generator)
        if self.noise is not None:
            drawn = self.noise.added(drawn)
        return drawn, drawn * self._half_width + self._middle

    def _named(self, obs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return copies of actor's and critics' observations: environments reuse their tensors."""
        device = self.actor.mean.weight.device
        return {name: obs[group].to(device, copy=True) for name, group in self._groups.items()}
