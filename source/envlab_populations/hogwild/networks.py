"""skrl models of a session: a tanh-squashed Gaussian policy, critics, and what else is asked for.

They differ from those that skrl makes from a configuration in three ways: a squashed policy, target
networks that follow in one call, and critics whose weights take no part in the policy's backward
pass, where their gradients would be thrown away.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from gymnasium import spaces
from torch import nn

from envlab.skrl.env import Spaces
from envlab.skrl.library import load_skrl
from envlab.skrl.torch.models import EnvlabModel, SquashedMixin
from envlab_populations.hogwild.cfg import LAYER_NORM, HogwildCfg, NetCfg

load_skrl()

from skrl.models.torch import (  # noqa: E402
    CategoricalMixin,
    DeterministicMixin,
    GaussianMixin,
)

_INITS: dict[str, Callable[[torch.Tensor], Any]] = {
    "orthogonal": nn.init.orthogonal_,
    "xavier_uniform": nn.init.xavier_uniform_,
    "kaiming_uniform": nn.init.kaiming_uniform_,
}


def make_networks(cfg: HogwildCfg, seen: Spaces, device: torch.device) -> dict[str, Any]:
    """Return an algorithm's networks by skrl's roles."""
    make = functools.partial(_make, cfg.net, seen, device)
    if cfg.algorithm == "sac":
        critics = ("critic_1", "critic_2", "target_critic_1", "target_critic_2")
        return {"policy": make(SquashedGaussian), **{name: make(Critic) for name in critics}}
    if cfg.algorithm in ("td3", "ddpg"):
        twins = ("critic_1", "critic_2") if cfg.algorithm == "td3" else ("critic",)
        critics = (*twins, *(f"target_{name}" for name in twins))
        actors = {name: make(Actor) for name in ("policy", "target_policy")}
        return actors | {name: make(Critic) for name in critics}
    if cfg.algorithm in ("dqn", "ddqn"):
        return {name: make(QNetwork) for name in ("q_network", "target_q_network")}
    is_discrete = isinstance(seen.action_space, spaces.Discrete)
    return {"policy": make(Categorical if is_discrete else Gaussian), "value": make(Value)}


def _make(cfg: NetCfg, seen: Spaces, device: torch.device, kind: type[_Network]) -> _Network:
    return kind(cfg, seen, device).to(device)


class _Network(EnvlabModel):
    """Fully connected layers, and what all kinds of networks here do."""

    def __init__(self, cfg: NetCfg, seen: Spaces, device: torch.device) -> None:
        EnvlabModel.__init__(self, seen, device)
        self._cfg = cfg

    def _layers(self, num_inputs: int, num_outputs: int, *last: nn.Module) -> nn.Sequential:
        made: list[nn.Module] = []
        size = num_inputs
        for one in self._cfg.body:
            if isinstance(one, int):
                made.append(nn.Linear(size, one))
                size = one
            else:
                made.append(nn.LayerNorm(size) if one == LAYER_NORM else _activation(one))
        layers = nn.Sequential(*made, nn.Linear(size, num_outputs), *last)
        if self._cfg.init != "default":
            for layer in layers:
                if isinstance(layer, nn.Linear):
                    _INITS[self._cfg.init](layer.weight)
                    nn.init.zeros_(layer.bias)
        return layers


class SquashedGaussian(SquashedMixin, _Network):
    """The policy of SAC."""

    def __init__(self, cfg: NetCfg, seen: Spaces, device: torch.device) -> None:
        super().__init__(cfg, seen, device)
        self._net = self._layers(self.num_observations, 2 * self.num_actions)
        scale, middle = self.action_range()
        self.register_buffer("_scale", scale)
        self.register_buffer("_middle", middle)

    def gaussian(self, inputs: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
        mean, log_std = self._net(inputs["observations"]).chunk(2, dim=-1)
        return mean, log_std

    def to_bounds(self, squashed: torch.Tensor) -> torch.Tensor:
        return squashed * self._scale + self._middle


class Gaussian(GaussianMixin, _Network):
    """A Gaussian with a standard deviation of its own, as on-policy algorithms use it."""

    def __init__(self, cfg: NetCfg, seen: Spaces, device: torch.device) -> None:
        _Network.__init__(self, cfg, seen, device)
        GaussianMixin.__init__(self)
        self._net = self._layers(self.num_observations, self.num_actions)
        self.log_std = nn.Parameter(torch.full((self.num_actions,), cfg.initial_log_std))

    def compute(self, inputs: Any, role: str = "") -> tuple[torch.Tensor, dict[str, Any]]:
        """Return the mean actions and the log standard deviation."""
        return self._net(inputs["observations"]), {"log_std": self.log_std}


class Categorical(CategoricalMixin, _Network):
    """A choice among discrete actions."""

    def __init__(self, cfg: NetCfg, seen: Spaces, device: torch.device) -> None:
        _Network.__init__(self, cfg, seen, device)
        CategoricalMixin.__init__(self)
        self._net = self._layers(self.num_observations, self.num_actions)

    def compute(self, inputs: Any, role: str = "") -> tuple[torch.Tensor, dict[str, Any]]:
        """Return unnormalised log-probabilities, ``(num_envs, num_actions)``."""
        return self._net(inputs["observations"]), {}


class _Deterministic(DeterministicMixin, _Network):
    def __init__(self, cfg: NetCfg, seen: Spaces, device: torch.device) -> None:
        _Network.__init__(self, cfg, seen, device)
        DeterministicMixin.__init__(self)


class Value(_Deterministic):
    """The value of a state; of what a critic alone sees, where a task has such a thing."""

    def __init__(self, cfg: NetCfg, seen: Spaces, device: torch.device) -> None:
        super().__init__(cfg, seen, device)
        self._seen = "observations" if seen.state_space is None else "states"
        self._net = self._layers(self.num_states or self.num_observations, 1)

    def compute(self, inputs: Any, role: str = "") -> tuple[torch.Tensor, dict[str, Any]]:
        """Return values, ``(num_envs, 1)``."""
        return self._net(inputs[self._seen]), {}


class QNetwork(_Deterministic):
    """The value of each discrete action."""

    def __init__(self, cfg: NetCfg, seen: Spaces, device: torch.device) -> None:
        super().__init__(cfg, seen, device)
        self._net = self._layers(self.num_observations, self.num_actions)

    def compute(self, inputs: Any, role: str = "") -> tuple[torch.Tensor, dict[str, Any]]:
        """Return values, ``(num_envs, num_actions)``."""
        return self._net(inputs["observations"]), {}


class Actor(_Deterministic):
    """Actions within their bounds, for TD3 and DDPG."""

    def __init__(self, cfg: NetCfg, seen: Spaces, device: torch.device) -> None:
        super().__init__(cfg, seen, device)
        self._net = self._layers(self.num_observations, self.num_actions, nn.Tanh())
        scale, middle = self.action_range()
        self.register_buffer("_scale", scale)
        self.register_buffer("_middle", middle)

    def compute(self, inputs: Any, role: str = "") -> tuple[torch.Tensor, dict[str, Any]]:
        """Return actions, ``(num_envs, num_actions)``."""
        return self._net(inputs["observations"]) * self._scale + self._middle, {}


class Critic(_Deterministic):
    """The value of an action, which is scaled to -1 to 1."""

    def __init__(self, cfg: NetCfg, seen: Spaces, device: torch.device) -> None:
        super().__init__(cfg, seen, device)
        self._net = self._layers(self.num_observations + self.num_actions, 1)
        scale, middle = self.action_range()
        self.register_buffer("_factor", 1.0 / scale)
        self.register_buffer("_middle", middle)

    def compute(self, inputs: Any, role: str = "") -> tuple[torch.Tensor, dict[str, Any]]:
        """Return values, ``(num_envs, 1)``.

        Where actions have a gradient, this is the policy's loss, of which skrl throws the critic's
        gradients away: they are not computed.
        """
        actions = inputs["taken_actions"]
        x = torch.cat([inputs["observations"], (actions - self._middle) * self._factor], dim=-1)
        if not (actions.requires_grad and torch.is_grad_enabled()):
            return self._net(x), {}
        self._net.requires_grad_(False)
        values = self._net(x)
        self._net.requires_grad_(True)
        return values, {}


def _activation(name: str) -> nn.Module:
    kinds = {
        "relu": nn.ReLU,
        "leaky_relu": nn.LeakyReLU,
        "elu": nn.ELU,
        "selu": nn.SELU,
        "gelu": nn.GELU,
        "silu": nn.SiLU,
        "tanh": nn.Tanh,
        "sigmoid": nn.Sigmoid,
    }
    return kinds[name]()
