"""The steps of a rollout, possibly fewer than planned, and the losses' view of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch

Observations = dict[str, torch.Tensor]


@dataclass(kw_only=True)
class Batch:
    """Whole rollouts of some environments: time first, environments second."""

    obs: Observations
    """Inputs of the model's encoder by name, each ``(num_steps, num_envs, ...)``."""
    previous_actions: torch.Tensor
    """Actions before those of ``actions``; zeros where an episode begins. Same shape and type."""
    starts: torch.Tensor
    """Whether an episode begins at a step, so that the memory is cleared before it; bool
    ``(num_steps, num_envs)``."""
    memory: torch.Tensor
    """The model's memory before the first step, ``(num_envs, memory_dim)``."""
    actions: torch.Tensor
    """``(num_steps, num_envs, num_actions)``; int64 where they are choices."""
    log_probs: torch.Tensor
    """Logarithms of their probabilities, or densities, when they were taken: ``(num_steps,
    num_envs)``."""
    values: torch.Tensor
    """Values that were predicted then, ``(num_steps, num_envs)``."""
    returns: torch.Tensor
    """Targets of the values, ``(num_steps, num_envs)``."""
    raw_advantages: torch.Tensor
    """Returns less values, ``(num_steps, num_envs)``."""
    advantages: torch.Tensor
    """The same, normalised by the moments over all samples of all ranks."""
    expert_actions: torch.Tensor | None = None
    """An expert's actions, shaped as ``actions``; None without an expert."""


class Distribution(Protocol):
    """A distribution of actions, for each step and environment."""

    def sample(self) -> torch.Tensor:
        """Return actions drawn at random, ``(..., num_actions)``."""

    def mode(self) -> torch.Tensor:
        """Return the most probable actions, ``(..., num_actions)``."""

    def log_prob(self, actions: torch.Tensor) -> torch.Tensor:
        """Return ``(...)`` for actions ``(..., num_actions)``."""

    def entropy(self) -> torch.Tensor:
        """Return ``(...)``, in nats."""


@dataclass(kw_only=True)
class Output:
    """The model's output for a batch, with gradients."""

    distribution: Distribution
    """Distribution of the actions at each step."""
    values: torch.Tensor
    """``(num_steps, num_envs)``."""
    features: torch.Tensor
    """The encoder's features of each observation, before the memory: ``(num_steps, num_envs,
    num_features)``. Those of the images alone, if there are any."""
    beliefs: torch.Tensor
    """Outputs of the memory, ``(num_steps, num_envs, hidden_dim)``."""


class Rollouts:
    """Storage for ``num_steps`` steps of all environments, filled from the start in each iteration.

    Its tensors are made by the first :meth:`add` and keep their addresses.
    """

    def __init__(self, num_steps: int) -> None:
        self.num_steps = num_steps
        self.step = 0
        """Steps stored since :meth:`begin`."""
        self._memory: torch.Tensor | None = None
        self._steps: dict[str, torch.Tensor] = {}
        self._finished: dict[str, torch.Tensor] = {}

    def begin(self, memory: torch.Tensor) -> None:
        """Drop the last rollout; ``memory`` is the model's, ``(num_envs, memory_dim)``."""
        self.step = 0
        self._memory = memory.clone()

    def add(self, obs: Mapping[str, torch.Tensor], **values: torch.Tensor) -> None:
        """Store a step.

        Args:
            obs: Inputs of the encoder, by name.
            values: Fields of :class:`Batch` at this step, and ``rewards`` and ``ended``.
        """
        for name, value in (*((f"obs/{key}", part) for key, part in obs.items()), *values.items()):
            if name not in self._steps:
                self._steps[name] = value.new_zeros((self.num_steps, *value.shape))
            self._steps[name][self.step] = value
        self.step += 1

    def __getitem__(self, name: str) -> torch.Tensor:
        """Return a field of the stored steps, ``(step, num_envs, ...)``."""
        return self._steps[name][: self.step]

    def finish(
        self, last_values: torch.Tensor, gamma: float, gae_lambda: float | None
    ) -> torch.Tensor:
        """Compute returns and advantages, from the values of the states after the last step.

        Generalised advantage estimation (Schulman et al. 2016, equation 16): no value is passed
        back over an episode's end. The expected return of an episode that a time limit ended is
        already part of its last reward.

        Args:
            last_values: ``(num_envs,)``.
            gamma: Discount factor.
            gae_lambda: Weight of longer estimates; None: discounted returns as they are.

        Returns:
            The advantages, ``(step, num_envs)``, not normalised.
        """
        rewards, values, going_on = self["rewards"], self["values"], ~self["ended"]
        weight = gamma * (1.0 if gae_lambda is None else gae_lambda)
        advantages = torch.empty_like(values)
        advantage, next_values = torch.zeros_like(last_values), last_values
        for step in reversed(range(self.step)):
            delta = rewards[step] + gamma * next_values * going_on[step] - values[step]
            advantage = delta + weight * going_on[step] * advantage
            advantages[step], next_values = advantage, values[step]
        self._finished = {"raw_advantages": advantages, "returns": advantages + values}
        return advantages

    @property
    def raw_advantages(self) -> torch.Tensor:
        """The result of :meth:`finish`."""
        return self._finished["raw_advantages"]

    def normalise(self, mean: torch.Tensor, std: torch.Tensor) -> None:
        """Normalise the advantages by the moments of all ranks."""
        self._finished["advantages"] = (self.raw_advantages - mean) / (std + 1e-5)

    def minibatches(self, num_minibatches: int) -> Iterator[Batch]:
        """Yield whole rollouts of the environments, each in one of ``num_minibatches`` at random.

        Whatever the length of its rollout, a rank has as many minibatches as the others.
        """
        assert self._memory is not None
        order = torch.randperm(len(self._memory)).to(self._memory.device)
        for chosen in order.tensor_split(num_minibatches):
            yield self._batch(chosen)

    def _batch(self, chosen: torch.Tensor) -> Batch:
        assert self._memory is not None
        fields: dict[str, Any] = {name: self[name] for name in self._steps} | self._finished
        fields = {name: values[:, chosen] for name, values in fields.items()}
        obs = {
            name.removeprefix("obs/"): fields.pop(name)
            for name in list(fields)
            if name.startswith("obs/")
        }
        for name in ("rewards", "ended"):
            del fields[name]
        return Batch(obs=obs, memory=self._memory[chosen], **fields)
