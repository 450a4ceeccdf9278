"""skrl's models around evolvable networks, for each role of the algorithms that evolve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from gymnasium import spaces
from torch import nn

from envlab.distributed.context import DistributedContext
from envlab.errors import ConfigurationError
from envlab.skrl.env import Spaces
from envlab.skrl.library import load_skrl
from envlab.skrl.torch.models import EnvlabModel, SquashedMixin
from envlab_populations.evolution.architecture import Architecture
from envlab_populations.evolution.networks import EvolvableNetwork

load_skrl()

from skrl.models.torch import (  # noqa: E402
    CategoricalMixin,
    DeterministicMixin,
    GaussianMixin,
)

ROLES: Mapping[str, tuple[str, ...]] = {
    "dqn": ("q_network", "target_q_network"),
    "ddqn": ("q_network", "target_q_network"),
    "ddpg": ("policy", "target_policy", "critic", "target_critic"),
    "td3": (
        *("policy", "target_policy", "critic_1", "critic_2"),
        *("target_critic_1", "target_critic_2"),
    ),
    "sac": ("policy", "critic_1", "critic_2", "target_critic_1", "target_critic_2"),
    "ppo": ("policy", "value"),
}
"""Networks by algorithm, under skrl's names. These are the algorithms that evolve."""


class EvolvableModel(EnvlabModel):
    """A skrl model with an evolvable network, whose gradients are those of all ranks."""

    def __init__(
        self,
        seen: Spaces,
        num_extra: int,
        num_outputs: int,
        architecture: Architecture,
        device: torch.device,
        context: DistributedContext,
    ) -> None:
        EnvlabModel.__init__(self, seen, device)
        shape = seen.observation_space.shape or (self.num_observations,)
        self.net = EvolvableNetwork(shape, num_extra, num_outputs, architecture)
        self.num_extra = num_extra
        self._context = context

    def best(self, obs: torch.Tensor) -> torch.Tensor:
        """Return the best actions, ``(batch, num_actions)``; choices count from 0."""
        raise NotImplementedError

    def broadcast_parameters(self, *, rank: int = 0) -> None:
        """Do nothing: all ranks draw the same parameters, or get them with a plan."""

    def reduce_parameters(self) -> None:
        """Average the gradients over ranks, in one collective. skrl calls it before it clips."""
        gradients = [p.grad for p in self.parameters() if p.grad is not None]
        flat = self._context.sum(torch.cat([gradient.view(-1) for gradient in gradients]))
        flat /= self._context.world_size
        parts = flat.split([gradient.numel() for gradient in gradients])
        torch._foreach_copy_(
            gradients, [part.view_as(g) for part, g in zip(parts, gradients, strict=True)]
        )


class QNetwork(DeterministicMixin, EvolvableModel):
    """Values of all choices."""

    def __init__(self, *args: Any) -> None:
        EvolvableModel.__init__(self, *args)
        DeterministicMixin.__init__(self)

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[torch.Tensor, dict]:
        return self.net(inputs["observations"]), {}

    def best(self, obs: torch.Tensor) -> torch.Tensor:
        return self.net(obs).argmax(1, keepdim=True)


class Value(QNetwork):
    """Value of a state."""


class Critic(QNetwork):
    """Value of an action in a state."""

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[torch.Tensor, dict]:
        return self.net(inputs["observations"], inputs["taken_actions"]), {}


class CategoricalPolicy(CategoricalMixin, EvolvableModel):
    """Logits of choices."""

    def __init__(self, *args: Any) -> None:
        EvolvableModel.__init__(self, *args)
        CategoricalMixin.__init__(self)

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[torch.Tensor, dict]:
        return self.net(inputs["observations"]), {}

    def best(self, obs: torch.Tensor) -> torch.Tensor:
        return self.net(obs).argmax(1, keepdim=True)


class GaussianPolicy(GaussianMixin, EvolvableModel):
    """A Gaussian with a standard deviation of its own for each action, as PPO uses."""

    def __init__(self, *args: Any) -> None:
        EvolvableModel.__init__(self, *args)
        GaussianMixin.__init__(self)
        self.log_std = nn.Parameter(torch.zeros(self.num_actions))

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[torch.Tensor, dict]:
        return self.net(inputs["observations"]), {"log_std": self.log_std}

    def best(self, obs: torch.Tensor) -> torch.Tensor:
        return self.net(obs)


class BoundedPolicy(DeterministicMixin, EvolvableModel):
    """Actions between the bounds of their space, by tanh, as DDPG and TD3 use."""

    def __init__(self, *args: Any) -> None:
        EvolvableModel.__init__(self, *args)
        DeterministicMixin.__init__(self)
        _note_bounds(self)

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[torch.Tensor, dict]:
        return self.best(inputs["observations"]), {}

    def best(self, obs: torch.Tensor) -> torch.Tensor:
        return self.middle + self.scale * self.net(obs).tanh()


class SquashedPolicy(SquashedMixin, EvolvableModel):
    """A Gaussian squashed by tanh between the bounds of the actions, as SAC wants it."""

    def __init__(self, *args: Any) -> None:
        EvolvableModel.__init__(self, *args)
        _note_bounds(self)

    def gaussian(self, inputs: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
        mean, log_std = self.net(inputs["observations"]).chunk(2, -1)
        return mean, log_std

    def to_bounds(self, squashed: torch.Tensor) -> torch.Tensor:
        return self.middle + self.scale * squashed

    def best(self, obs: torch.Tensor) -> torch.Tensor:
        return self.to_bounds(self.net(obs).chunk(2, -1)[0].tanh())


def _note_bounds(model: EvolvableModel) -> None:
    for name, values in zip(("scale", "middle"), model.action_range(), strict=True):
        model.register_buffer(name, values)


def check_actions(algorithm: str, space: spaces.Space[Any]) -> None:
    """Refuse an algorithm that does not fit the actions.

    Raises:
        ConfigurationError: Naming one that does.
    """
    is_box, is_choice = isinstance(space, spaces.Box), isinstance(space, spaces.Discrete)
    fits = {"ppo": is_box or is_choice, "dqn": is_choice, "ddqn": is_choice}.get(algorithm, is_box)
    if not fits:
        better = "SAC, TD3, DDPG or PPO" if is_box else "DQN, DDQN or PPO" if is_choice else "none"
        raise ConfigurationError(
            f"--algorithm is {algorithm.upper()}, but the task's actions are {space}. "
            + (f"Choose {better}." if better != "none" else "No algorithm that evolves takes them.")
        )


def make_models(
    algorithm: str,
    seen: Spaces,
    architecture: Architecture,
    device: torch.device,
    context: DistributedContext,
) -> dict[str, EvolvableModel]:
    """Return an algorithm's networks by role, all of one shape between inputs and outputs."""
    actions = seen.action_space
    num_actions = int(actions.n) if isinstance(actions, spaces.Discrete) else actions.shape[0]  # type: ignore[index]
    models: dict[str, EvolvableModel] = {}
    for role in ROLES[algorithm]:
        kind = role.removeprefix("target_")
        if kind == "q_network":
            model: EvolvableModel = QNetwork(seen, 0, num_actions, architecture, device, context)
        elif kind.startswith("critic"):
            model = Critic(seen, num_actions, 1, architecture, device, context)
        elif kind == "value":
            model = Value(seen, 0, 1, architecture, device, context)
        else:
            model = _policy(algorithm, num_actions, seen, architecture, device, context)
        models[role] = model.to(device)
    return models


def _policy(algorithm: str, num_actions: int, seen: Spaces, *rest: Any) -> EvolvableModel:
    if algorithm == "sac":
        return SquashedPolicy(seen, 0, 2 * num_actions, *rest)
    if algorithm in ("ddpg", "td3"):
        return BoundedPolicy(seen, 0, num_actions, *rest)
    if isinstance(seen.action_space, spaces.Discrete):
        return CategoricalPolicy(seen, 0, num_actions, *rest)
    return GaussianPolicy(seen, 0, num_actions, *rest)
