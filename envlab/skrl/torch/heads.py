"""skrl's models around a user's network body: one head for each role of its algorithms.

They differ from the models that skrl makes from a configuration in four ways: SAC's policy is
squashed, target networks are updated in one call, gradients are averaged in one collective, and
critics' weights take no part in the policy's backward pass, where their gradients would be
discarded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from gymnasium import spaces
from torch import nn
from torch.distributions import Categorical

from envlab.distributed.context import DistributedContext
from envlab.skrl.env import Spaces
from envlab.skrl.library import LOG_STD, load_skrl
from envlab.squashed import sample_squashed

load_skrl()

from skrl.models.torch import (  # noqa: E402
    CategoricalMixin,
    DeterministicMixin,
    GaussianMixin,
    Model,
)

MakeBody = Callable[[Sequence[int], int, int], nn.Module]
"""Makes a network from the shape of an observation, the number of further inputs, and that of
outputs. It is called with flat observations, ``(batch, prod(shape))``, and with the further inputs,
``(batch, num_extra)``, if any; it returns ``(batch, num_outputs)``."""

ROLES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("dqn", "ddqn"), ("q_network", "target_q_network")),
    "ddpg": ("policy", "target_policy", "critic", "target_critic"),
    "td3": (
        *("policy", "target_policy", "critic_1", "critic_2"),
        *("target_critic_1", "target_critic_2"),
    ),
    "sac": ("policy", "critic_1", "critic_2", "target_critic_1", "target_critic_2"),
    **dict.fromkeys(("a2c", "ppo"), ("policy", "value")),
}
"""Networks by algorithm, under skrl's names, in the order of drawing their weights."""


def make_heads(
    algorithm: str,
    seen: Spaces,
    make_body: MakeBody,
    device: torch.device,
    context: DistributedContext,
) -> dict[str, Head]:
    """Return an algorithm's networks by role.

    Args:
        algorithm: One of :data:`ROLES`.
        seen: Spaces of the networks; value networks see the states, if there are any.
        make_body: Makes the part between inputs and outputs.
        device: Device of the networks.
        context: Context of the ranks whose gradients are averaged.
    """
    heads = {}
    for role in ROLES[algorithm]:
        kind = _kind(algorithm, role.removeprefix("target_"), seen.action_space)
        heads[role] = kind(seen, make_body, device, context).to(device)
    return heads


def _kind(algorithm: str, role: str, actions: spaces.Space[Any]) -> type[Head]:
    is_discrete = isinstance(actions, spaces.Discrete)
    if role == "q_network" or (role.startswith("critic") and is_discrete):
        return QNetwork
    if role.startswith("critic"):
        return Critic
    if role == "value":
        return Value
    if algorithm in ("ddpg", "td3"):
        return BoundedPolicy
    if is_discrete:
        return CategoricalPolicy
    return SquashedPolicy if algorithm == "sac" else GaussianPolicy


class Head(Model):
    """A model around a body; its random actions come from torch's generator.

    Attributes:
        net: The body.
        num_extra: Number of its inputs in addition to observations.
    """

    num_extra = 0

    def __init__(
        self,
        seen: Spaces,
        make_body: MakeBody,
        device: torch.device,
        context: DistributedContext,
    ) -> None:
        """See :func:`make_heads`."""
        Model.__init__(self, **seen._asdict(), device=device)
        self._context = context
        self.net = self._make_net(make_body)

    def _make_net(self, make_body: MakeBody) -> nn.Module:
        """Return the body; by default with an output for each action."""
        return make_body(self._shape(), 0, self.num_actions)

    def _shape(self) -> Sequence[int]:
        """Return the shape of an observation."""
        return self.observation_space.shape or (self.num_observations,)

    def update_parameters(self, model: Any, *, polyak: float = 1.0) -> None:
        """Move towards another model's parameters by skrl's rule, all in one call."""
        with torch.no_grad():
            torch._foreach_lerp_(list(self.parameters()), list(model.parameters()), polyak)

    def random_act(self, inputs: Any, *, role: str = "") -> tuple[torch.Tensor, dict[str, Any]]:
        """Return uniform actions, see :func:`random_actions`."""
        return random_actions(self.action_space, inputs, role=role)

    def broadcast_parameters(self, *, rank: int = 0) -> None:
        """Do nothing: all ranks draw the same parameters."""

    def reduce_parameters(self) -> None:
        """Average the gradients over ranks, in one collective. skrl calls it before it clips."""
        gradients = [p.grad for p in self.parameters() if p.grad is not None]
        flat = self._context.sum(torch.cat([gradient.view(-1) for gradient in gradients]))
        flat /= self._context.world_size
        parts = flat.split([gradient.numel() for gradient in gradients])
        torch._foreach_copy_(
            gradients, [part.view_as(g) for part, g in zip(parts, gradients, strict=True)]
        )


class BoundedMixin:
    """Conversion between -1 to 1 and the bounds of the actions."""

    def note_bounds(self: Any) -> None:
        """Keep half the width and the middle of the bounds, ``(num_actions,)`` each."""
        self.half_width, self.middle = (
            nn.Buffer(values.to(self.device), persistent=False)
            for values in action_range(self.action_space)
        )

    def to_bounds(self: Any, unit: torch.Tensor) -> torch.Tensor:
        """Return actions of -1 to 1 scaled to their bounds, ``(batch, num_actions)``."""
        return self.middle + self.half_width * unit


class SquashedMixin(BoundedMixin):
    """A Gaussian squashed by tanh to the actions' bounds, which skrl's models lack for SAC.

    Log-probabilities are densities of the actions scaled to -1 to 1, whatever their bounds, as in
    Stable-Baselines3, Spinning Up and rl_games. So the target entropy of Haarnoja et al. (2018),
    minus the number of actions, requires the same exploration for actions up to 10 as for actions
    up to 0.4. (CleanRL's are densities of the environment's actions, which differ by the sum of the
    logarithms of the scales.)
    """

    def gaussian(self, inputs: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return mean and log standard deviation before tanh, ``(batch, num_actions)`` each."""
        raise NotImplementedError

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[torch.Tensor, dict]:
        """Return the best actions, and mean and log standard deviation before tanh."""
        mean, log_std = self.gaussian(inputs)
        outputs = {"mean": mean, "log_std": log_std.clamp(*LOG_STD)}
        return self.to_bounds(mean.tanh()), outputs

    def act(self, inputs: dict[str, Any], *, role: str = "") -> tuple[torch.Tensor, dict[str, Any]]:
        """Return sampled actions, and their log-probabilities, ``(batch, 1)``."""
        best, outputs = self.compute(inputs, role)
        squashed, density = sample_squashed(outputs["mean"], outputs["log_std"])
        outputs["log_prob"] = density.sum(dim=-1, keepdim=True)
        outputs["mean_actions"] = best
        return self.to_bounds(squashed), outputs


class SquashedPolicy(SquashedMixin, Head):
    """A Gaussian squashed by tanh to the bounds of the actions, for SAC."""

    def __init__(self, *args: Any) -> None:
        Head.__init__(self, *args)
        self.note_bounds()

    def _make_net(self, make_body: MakeBody) -> nn.Module:
        return make_body(self._shape(), 0, 2 * self.num_actions)

    def gaussian(self, inputs: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
        mean, log_std = self.net(inputs["observations"]).chunk(2, dim=-1)
        return mean, log_std


class GaussianPolicy(GaussianMixin, Head):
    """A Gaussian with one standard deviation for each action, for PPO and A2C."""

    def __init__(self, *args: Any) -> None:
        Head.__init__(self, *args)
        GaussianMixin.__init__(self)
        self.log_std = nn.Parameter(torch.zeros(self.num_actions))

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[torch.Tensor, dict]:
        """Return the mean actions, ``(batch, num_actions)``, and the log standard deviation."""
        return self.net(inputs["observations"]), {"log_std": self.log_std}


class CategoricalPolicy(CategoricalMixin, Head):
    """A choice among discrete actions."""

    def __init__(self, *args: Any) -> None:
        Head.__init__(self, *args)
        CategoricalMixin.__init__(self)
        self._logits = torch.zeros(0, self.num_actions)

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[torch.Tensor, dict]:
        """Return unnormalised log-probabilities, ``(batch, num_actions)``."""
        return self.net(inputs["observations"]), {}

    def act(self, inputs: dict[str, Any], *, role: str = "") -> tuple[torch.Tensor, dict]:
        """Return actions and their log-probabilities, like skrl's, in a third of the time.

        The distribution is made only on request.
        """
        self._logits, outputs = self.compute(inputs, role)
        log_probs = self._logits.log_softmax(dim=-1)
        actions = torch.multinomial(self._logits.softmax(dim=-1), 1, replacement=True)
        taken = inputs.get("taken_actions", actions).view(-1, 1).long()
        outputs |= {"log_prob": log_probs.gather(-1, taken), "net_output": self._logits}
        return actions, outputs

    def distribution(self, *, role: str = "") -> Categorical:
        """Return the distribution that :meth:`act` drew from last."""
        return Categorical(logits=self._logits)

    def get_entropy(self, *, role: str = "") -> torch.Tensor:
        """Return its entropy, ``(batch, 1)``."""
        return self.distribution().entropy().unsqueeze(-1)


class QNetwork(DeterministicMixin, Head):
    """The value of each discrete action."""

    def __init__(self, *args: Any) -> None:
        Head.__init__(self, *args)
        DeterministicMixin.__init__(self)

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[torch.Tensor, dict]:
        """Return values, ``(batch, num_actions)``."""
        return self.net(inputs["observations"]), {}


class BoundedPolicy(BoundedMixin, QNetwork):
    """Actions between the bounds of their space, by tanh, for DDPG and TD3."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.note_bounds()

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[torch.Tensor, dict]:
        """Return actions, ``(batch, num_actions)``."""
        return self.to_bounds(self.net(inputs["observations"]).tanh()), {}


class Value(QNetwork):
    """The value of a state: of the critic's own state, if a task has one."""

    def _make_net(self, make_body: MakeBody) -> nn.Module:
        if self.state_space is None:
            return make_body(self._shape(), 0, 1)
        return make_body(self.state_space.shape or (self.num_states,), 0, 1)

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[torch.Tensor, dict]:
        """Return values, ``(batch, 1)``."""
        return self.net(inputs["observations" if self.state_space is None else "states"]), {}


class Critic(BoundedMixin, QNetwork):
    """The value of an action, which is scaled to -1 to 1."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.note_bounds()
        self.factor = nn.Buffer(1.0 / self.half_width, persistent=False)

    def _make_net(self, make_body: MakeBody) -> nn.Module:
        self.num_extra = self.num_actions
        return make_body(self._shape(), self.num_extra, 1)

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[torch.Tensor, dict]:
        """Return values, ``(batch, 1)``.

        If actions have a gradient, this is the policy's loss, for which skrl discards the critic's
        gradients: they are not computed.
        """
        actions = inputs["taken_actions"]
        unit = (actions - self.middle) * self.factor
        if not (actions.requires_grad and torch.is_grad_enabled()):
            return self.net(inputs["observations"], unit), {}
        self.net.requires_grad_(False)
        values = self.net(inputs["observations"], unit)
        self.net.requires_grad_(True)
        return values, {}


def random_actions(
    space: spaces.Space[Any], inputs: dict[str, torch.Tensor], *, role: str = ""
) -> tuple[torch.Tensor, dict[str, Any]]:
    """Return random actions instead of a model's own, drawn from torch's generator.

    skrl draws from a copy of the space's generator, so that it repeats the same actions in every
    step (measured with Gymnasium 1.4), and a run cannot know this generator's seed.
    """
    count, device = len(inputs["observations"]), inputs["observations"].device
    if isinstance(space, spaces.Box):
        low, high = (torch.as_tensor(bound, device=device) for bound in (space.low, space.high))
        return low + (high - low) * torch.rand((count, *space.shape), device=device), {}
    sizes = [int(space.n)] if isinstance(space, spaces.Discrete) else list(space.nvec)  # type: ignore[attr-defined]
    columns = [torch.randint(int(size), (count, 1), device=device) for size in sizes]
    return torch.cat(columns, dim=1), {}


def action_range(space: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return half the width and the middle of a box's bounds, ``(num_actions,)`` each."""
    low, high = (torch.as_tensor(bound).flatten().float() for bound in (space.low, space.high))
    return (high - low) / 2.0, (high + low) / 2.0
