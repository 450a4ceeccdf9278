"""The networks of a session: skrl's models around the layers that a spec describes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from envlab.distributed.context import DistributedContext
from envlab.errors import ConfigurationError
from envlab.skrl.env import Spaces
from envlab.skrl.torch.heads import GaussianPolicy, Head, make_heads
from envlab_populations.hogwild.batch_renorm import BatchRenorm
from envlab_populations.hogwild.cfg import (
    ACTIVATIONS,
    BATCH_NORM,
    CROSSQ,
    DISCRETE,
    DISCRETE_CROSSQ,
    LAYER_NORM,
    NORMS,
    REINFORCE,
    HogwildCfg,
    NetCfg,
)

_INITS: dict[str, Callable[[torch.Tensor, float], Any]] = {
    "orthogonal": nn.init.orthogonal_,
    "xavier_uniform": nn.init.xavier_uniform_,
    "kaiming_uniform": lambda weight, _: nn.init.kaiming_uniform_(weight),  # ReLU's gain
}
_WITH_GAIN = ("relu", "leaky_relu", "selu", "tanh", "sigmoid")
"""Activations that ``torch.nn.init.calculate_gain`` knows; others have gain 1."""
_ACTIVATIONS = {
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
    "elu": nn.ELU,
    "selu": nn.SELU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
}
_CELLS: dict[str, Any] = {"gru": nn.GRU, "lstm": nn.LSTM, "rnn": nn.RNN}


def make_networks(
    cfg: HogwildCfg, seen: Spaces, device: torch.device, context: DistributedContext
) -> dict[str, Head]:
    """Return an algorithm's networks by skrl's roles.

    Raises:
        ConfigurationError: If its layers do not fit the observations.
    """
    trunks: list[Trunk] = []
    is_crossq = cfg.algorithm in (CROSSQ, DISCRETE_CROSSQ)
    of_critics = replace(cfg.net, layers=cfg.net.critic_layers or cfg.net.layers)
    nets = itertools.chain([cfg.net], itertools.repeat(of_critics))  # the policy's is made first

    def body(shape: Sequence[int], num_extra: int, num_outputs: int) -> nn.Module:
        if not cfg.net.shared:
            return Layers(shape, num_extra, num_outputs, next(nets))
        if trunks:  # the policy's, already made
            return Tail(trunks[0], num_outputs, cfg.net, owns_trunk=False)
        trunks.append(Trunk(shape, cfg.net))
        return Tail(trunks[0], num_outputs, cfg.net, owns_trunk=True)

    roles_of = "sac" if cfg.algorithm in DISCRETE.values() else cfg.skrl_algorithm
    heads = make_heads(roles_of, seen, body, device, context)
    if cfg.algorithm == REINFORCE:
        del heads["value"]
    if is_crossq:  # which has no targets
        heads = {role: head for role, head in heads.items() if not role.startswith("target_")}
    policy = heads.get("policy")
    if isinstance(policy, GaussianPolicy):
        nn.init.constant_(policy.log_std, cfg.net.initial_log_std)
    return heads


class Layers(nn.Sequential):
    """Layers as a spec describes them, and an output; see ``MakeBody`` for the inputs."""

    def __init__(self, shape: Sequence[int], num_extra: int, num_outputs: int, cfg: NetCfg) -> None:
        """Make the layers.

        Args:
            shape: Shape of an observation; an image's is ``(height, width, channels)``.
            num_extra: Further inputs.
            num_outputs: Outputs of the last layer; 0: no such layer.
            cfg: The layers.

        Raises:
            ConfigurationError: If a convolution does not fit.
        """
        made, size = _hidden_layers(shape, num_extra, cfg)
        if num_outputs:
            made.append((Dueling if cfg.dueling else nn.Linear)(size, num_outputs))
        super().__init__(*made)
        self.num_features = size
        self._image = tuple(shape) if isinstance(next(iter(made), None), nn.Conv2d) else None
        self.pixel_scale = cfg.pixel_scale
        draw_weights(self, cfg)

    def forward(self, obs: torch.Tensor, extra: torch.Tensor | None = None) -> torch.Tensor:
        """Return outputs, ``(batch, num_outputs)``, for the inputs of ``MakeBody``."""
        x = obs if extra is None else torch.cat((obs, extra), dim=-1)
        if self._image is not None:
            x = x.view(-1, *self._image).permute(0, 3, 1, 2) * self.pixel_scale
        outputs: torch.Tensor = super().forward(x)
        return outputs


def draw_weights(module: nn.Module, cfg: NetCfg) -> None:
    """Draw the weights of all layers by ``cfg.init``, with zero biases, as SLM-Lab 4.3 does.

    The gain is that of the activation between the layers, also in the last one (``init_layers`` in
    its ``net_util.py``).
    """
    if cfg.init == "default":
        return
    named = next((part for part in cfg.body if part in _WITH_GAIN), "linear")
    gain = nn.init.calculate_gain(str(named))  # type: ignore[arg-type]
    for layer in module.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d | nn.GRU):
            for name, parameter in layer.named_parameters(recurse=False):
                if name.startswith("weight"):
                    _INITS[cfg.init](parameter, gain)
                else:
                    nn.init.zeros_(parameter)


def _hidden_layers(
    shape: Sequence[int], num_extra: int, cfg: NetCfg
) -> tuple[list[nn.Module], int]:
    """Return all layers except the last, and the size of their output."""
    of_images, flat = _split(cfg.body)
    size = math.prod(shape) + num_extra
    made: list[nn.Module] = []
    if of_images:
        made, size = _convolutions(shape, num_extra, of_images)
    if cfg.sees_steps:
        size //= cfg.sequence_length
        made.append(nn.Unflatten(-1, (cfg.sequence_length, size)))
    for part in flat:
        if isinstance(part, int):
            made.append(nn.Linear(size, part))
            size = part
        else:
            made.append(_norm(size, part, cfg) if part in NORMS else _ACTIVATIONS[str(part)]())
    if cfg.recurrent:
        made.append(Recurrent(size, cfg))
        size = cfg.recurrent_size
    return made, size


def _norm(size: int, part: Any, cfg: NetCfg) -> nn.Module:
    if part == LAYER_NORM:
        return nn.LayerNorm(size)
    if part == BATCH_NORM:
        return nn.BatchNorm1d(size, cfg.norm_eps, cfg.norm_momentum)
    return BatchRenorm(size, cfg.norm_eps, cfg.norm_momentum, cfg.norm_warmup)


def _split(body: list[int | list[int] | str]) -> tuple[list[Any], list[int | list[int] | str]]:
    """Return the layers up to the last convolution and its activation, and those after them."""
    last = max((at for at, part in enumerate(body) if isinstance(part, list)), default=-1)
    end = last + 1
    if end and end < len(body) and body[end] in ACTIVATIONS:
        end += 1
    return body[:end], body[end:]


def _convolutions(
    shape: Sequence[int], num_extra: int, body: list[Any]
) -> tuple[list[nn.Module], int]:
    """Return layers for images, flattened at the end, and the size of their output."""
    if len(shape) != 3 or num_extra:
        seen = "actions next to an image" if num_extra else f"the shape {tuple(shape)}"
        raise ConfigurationError(
            f"The networks have convolutions, but are given {seen}. Convolutions are for images "
            "alone: take agent.net.type MLPNet, or an environment of images and discrete actions."
        )
    made: list[nn.Module] = []
    image = torch.zeros(1, shape[2], *shape[:2])
    for part in body:
        if isinstance(part, list):
            out, kernel, stride, padding, dilation = part
            made.append(nn.Conv2d(image.shape[1], out, kernel, stride, padding, dilation))
            if min(image.shape[2:]) + 2 * padding <= dilation * (kernel - 1):
                raise ConfigurationError(
                    f"The convolution {part} does not fit an image of {list(image.shape[2:])}. "
                    "Make its kernel smaller in agent.net.conv_hid_layers."
                )
            image = made[-1](image).detach()
        else:
            made.append(_ACTIVATIONS[part]())
    return [*made, nn.Flatten()], image.numel()


class Recurrent(nn.Module):
    """Cells that see the features of several steps, or the same ones several times.

    They return their last state.
    """

    def __init__(self, num_inputs: int, cfg: NetCfg) -> None:
        """Make the cells."""
        super().__init__()
        kind = _CELLS[cfg.recurrent]
        self.cells = kind(num_inputs, cfg.recurrent_size, cfg.recurrent_layers, batch_first=True)
        self.sequence_length = cfg.sequence_length

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return features, ``(batch, recurrent_size)``."""
        steps = x if x.dim() == 3 else x.unsqueeze(1).expand(-1, self.sequence_length, -1)
        outputs, _ = self.cells(steps)
        last: torch.Tensor = outputs[:, -1]
        return last


class Dueling(nn.Module):
    """A last layer by equation 9 of Wang et al., "Dueling Network Architectures" (2016).

    Q(s, a) = V(s) + A(s, a) - mean of A(s, ·).
    """

    def __init__(self, num_inputs: int, num_actions: int) -> None:
        """Make the two layers."""
        super().__init__()
        self.value = nn.Linear(num_inputs, 1)
        self.advantages = nn.Linear(num_inputs, num_actions)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return values of actions, ``(batch, num_actions)``."""
        advantages = self.advantages(x)
        result: torch.Tensor = self.value(x) + advantages - advantages.mean(dim=-1, keepdim=True)
        return result


class Trunk(nn.Module):
    """Layers that policy and value share.

    In an update both get the same tensor, so the value reuses the policy's features.
    """

    def __init__(self, shape: Sequence[int], cfg: NetCfg) -> None:
        """Make the layers."""
        super().__init__()
        self.layers = Layers(shape, 0, 0, cfg)
        self._seen: tuple[torch.Tensor, torch.Tensor] | None = None

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Return features, ``(batch, num_features)``."""
        seen, self._seen = self._seen, None
        if not torch.is_grad_enabled():
            found: torch.Tensor = self.layers(obs)
            return found
        if seen is not None and seen[0] is obs:
            return seen[1]
        self._seen = (obs, self.layers(obs))
        return self._seen[1]


class Tail(nn.Module):
    """The last layer of a policy or a value, after shared layers."""

    def __init__(self, trunk: Trunk, num_outputs: int, cfg: NetCfg, *, owns_trunk: bool) -> None:
        """Make the layer.

        Args:
            trunk: The layers before.
            num_outputs: Number of outputs.
            cfg: The networks, with the gains of the last layers' orthogonal weights.
            owns_trunk: Whether the trunk's parameters are among its own: of only one Tail,
                so that an optimizer and a norm of gradients count them once.
        """
        super().__init__()
        if owns_trunk:
            self.trunk = trunk
        self.shared_trunk = (trunk,)  # a tuple, so that its parameters are not registered here
        self.out = nn.Linear(trunk.layers.num_features, num_outputs)
        draw_weights(self.out, cfg)
        if gain := cfg.policy_gain if owns_trunk else cfg.value_gain:
            nn.init.orthogonal_(self.out.weight, gain)
            nn.init.zeros_(self.out.bias)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Return outputs, ``(batch, num_outputs)``."""
        outputs: torch.Tensor = self.out(self.shared_trunk[0](obs))
        return outputs
