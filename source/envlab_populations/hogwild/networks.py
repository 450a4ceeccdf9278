"""The networks of a session: skrl's models around fully connected layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from envlab.distributed.context import DistributedContext
from envlab.skrl.env import Spaces
from envlab.skrl.torch.heads import GaussianPolicy, Head, make_heads
from envlab_populations.hogwild.cfg import LAYER_NORM, HogwildCfg, NetCfg

_INITS: dict[str, Callable[[torch.Tensor], Any]] = {
    "orthogonal": nn.init.orthogonal_,
    "xavier_uniform": nn.init.xavier_uniform_,
    "kaiming_uniform": nn.init.kaiming_uniform_,
}
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


def make_networks(
    cfg: HogwildCfg, seen: Spaces, device: torch.device, context: DistributedContext
) -> dict[str, Head]:
    """Return an algorithm's networks by skrl's roles."""

    def body(shape: Sequence[int], num_extra: int, num_outputs: int) -> Layers:
        return Layers(math.prod(shape) + num_extra, num_outputs, cfg.net)

    heads = make_heads(cfg.skrl_algorithm, seen, body, device, context)
    policy = heads.get("policy")
    if isinstance(policy, GaussianPolicy):
        nn.init.constant_(policy.log_std, cfg.net.initial_log_std)
    return heads


class Layers(nn.Sequential):
    """Fully connected layers as a spec describes them, and an output."""

    def __init__(self, num_inputs: int, num_outputs: int, cfg: NetCfg) -> None:
        made: list[nn.Module] = []
        size = num_inputs
        for part in cfg.body:
            if isinstance(part, int):
                made.append(nn.Linear(size, part))
                size = part
            else:
                made.append(nn.LayerNorm(size) if part == LAYER_NORM else _ACTIVATIONS[part]())
        super().__init__(*made, nn.Linear(size, num_outputs))
        if cfg.init != "default":
            for layer in self:
                if isinstance(layer, nn.Linear):
                    _INITS[cfg.init](layer.weight)
                    nn.init.zeros_(layer.bias)

    def forward(self, obs: torch.Tensor, extra: torch.Tensor | None = None) -> torch.Tensor:
        """Return outputs, ``(batch, num_outputs)``, of what ``MakeBody`` describes."""
        x = obs if extra is None else torch.cat((obs, extra), dim=-1)
        outputs: torch.Tensor = super().forward(x)
        return outputs
