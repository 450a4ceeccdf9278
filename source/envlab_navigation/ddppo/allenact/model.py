"""AllenAct's networks as DD-PPO steps and trains them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from allenact.base_abstractions.misc import Memory
from allenact.utils import spaces_utils
from torch import nn

from envlab_navigation.ddppo.storage import Observations, Output


class FlatActions:
    """AllenAct's distribution over flat rows of actions, as DD-PPO stores them.

    ``log_prob`` has AllenAct's shape, ``(num_steps, num_envs)`` for choices and ``(num_steps,
    num_envs, num_actions)`` for numbers: its PPO clips the ratio of each number separately.
    """

    def __init__(self, distribution: Any, space: Any) -> None:
        """Keep AllenAct's distribution, and the space of the actions."""
        self._distribution, self._space = distribution, space

    def sample(self) -> torch.Tensor:
        """Return actions drawn at random, ``(..., num_actions)``."""
        return spaces_utils.flatten(self._space, self._distribution.sample())

    def mode(self) -> torch.Tensor:
        """Return the most probable actions, ``(..., num_actions)``."""
        found = self._distribution.mode
        return spaces_utils.flatten(self._space, found() if callable(found) else found)

    def log_prob(self, actions: torch.Tensor) -> torch.Tensor:
        """Return logarithms of probabilities or densities."""
        return self._distribution.log_prob(spaces_utils.unflatten(self._space, actions))

    def entropy(self) -> torch.Tensor:
        """Return entropies, in nats."""
        return self._distribution.entropy()


@dataclass(kw_only=True)
class PeerOutput(Output):
    """An output that AllenAct's losses can read as well as ours."""

    raw: Any
    """AllenAct's ``ActorCriticOutput``."""


class PeerModel(nn.Module):
    """AllenAct's ``ActorCriticModel``, with the interface of :class:`.RecurrentActorCritic`.

    Attributes:
        model: AllenAct's network.
        memory_dim: Size of an environment's memory, over all its parts.
    """

    normaliser = None
    images: tuple[str, ...] = ()
    num_features = hidden_dim = 0

    def __init__(self, model: nn.Module, preprocessors: Any = None) -> None:
        """Read the network's memory.

        Args:
            model: AllenAct's network.
            preprocessors: A ``SensorPreprocessorGraph``, which is not trained; None: none.
        """
        super().__init__()
        self.model, self._preprocessors = model, preprocessors
        spec: dict[str, Any] = model.recurrent_memory_specification or {}  # type: ignore[assignment]
        self._parts = {
            name: ([size for _, size in dims], [name for name, _ in dims].index("sampler"), dtype)
            for name, (dims, dtype) in spec.items()
        }
        self.memory_dim = sum(self._size(name) for name in self._parts)
        self.space: Any = model.action_space
        self.num_actions = spaces_utils.flatdim(self.space)

    def beginning(
        self, num_envs: int, device: torch.device
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return an empty memory, empty last actions, and starts of episodes."""
        if self._preprocessors is not None:
            self._preprocessors.to(device)
        is_number = type(self.space).__name__ == "Box"
        dtype = torch.float32 if is_number else torch.int64
        return (
            torch.zeros(num_envs, self.memory_dim, device=device),
            torch.zeros(num_envs, self.num_actions, dtype=dtype, device=device),
            torch.ones(num_envs, dtype=torch.bool, device=device),
        )

    def prepare(self, obs: Observations) -> Observations:
        """Return observations ``(num_envs, ...)`` by sensor, after the preprocessors."""
        if self._preprocessors is None:
            return dict(obs)
        with torch.no_grad():
            return dict(self._preprocessors.get_observations(dict(obs)))

    def forward(
        self,
        obs: Observations,
        previous_actions: torch.Tensor,
        starts: torch.Tensor,
        memory: torch.Tensor,
    ) -> tuple[PeerOutput, torch.Tensor]:
        """Process steps in order; see :meth:`.RecurrentActorCritic.forward`."""
        raw, remembered = self.model(
            observations=dict(obs),
            memory=self.unpack(memory),
            prev_actions=spaces_utils.unflatten(self.space, previous_actions),
            masks=(~starts).float().unsqueeze(-1),
        )
        values = raw.values.reshape(*starts.shape, -1)[..., 0]
        nothing = values.new_zeros((*values.shape, 0))
        output = PeerOutput(
            distribution=FlatActions(raw.distributions, self.space),
            values=values,
            features=nothing,
            beliefs=nothing,
            raw=raw,
        )
        return output, memory if remembered is None else self._pack(remembered, len(memory))

    def unpack(self, memory: torch.Tensor) -> Any:
        """Return AllenAct's memory from rows ``(num_envs, memory_dim)``."""
        unpacked, first = Memory(), 0
        for name, (sizes, axis, dtype) in self._parts.items():
            others = [size for place, size in enumerate(sizes) if place != axis]
            last = first + self._size(name)
            part = memory[:, first:last].reshape(len(memory), *others).to(dtype)
            unpacked.check_append(name, part.movedim(0, axis).contiguous(), axis)
            first = last
        return unpacked

    def _pack(self, memory: Any, num_envs: int) -> torch.Tensor:
        parts = [
            memory.tensor(name).movedim(axis, 0).reshape(num_envs, -1).float()
            for name, (_, axis, _) in self._parts.items()
        ]
        return torch.cat(parts, dim=1)

    def _size(self, name: str) -> int:
        """Return the size of a part of an environment's memory."""
        sizes, axis, _ = self._parts[name]
        return math.prod(size for place, size in enumerate(sizes) if place != axis)
