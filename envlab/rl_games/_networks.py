"""``multi_input_actor_critic``: rl_games' ``actor_critic`` for images and vectors together.

rl_games 1.6.5 passes a dict of observations to networks that its user has registered. Its own only
network for a dict reads ``observation``, ``reward`` and ``last_action``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from rl_games.algos_torch.model_builder import register_network
from rl_games.algos_torch.network_builder import A2CBuilder
from torch import nn

MULTI_INPUT = "multi_input_actor_critic"

Shapes = Mapping[str, tuple[int, ...]]
"""Shapes of observations by group: ``(dim,)``, or ``(height, width, channels)``."""


class MultiInputBuilder(A2CBuilder):
    """rl_games' builder of the network."""

    def build(self, name: str, **kwargs: Any) -> nn.Module:
        return _Network(self.params, **kwargs)


class _Network(A2CBuilder.Network):
    """The library's network after an :class:`_Encoder` instead of its convolutions."""

    def load(self, params: dict[str, Any]) -> None:
        super().load(params)
        self.permute_input = False  # the encoder does so, only with images
        self._scales = params.get("scales", {})

    def _build_conv(self, ctype: str, input_shape: Shapes, **kwargs: Any) -> nn.Module:
        images = [shape for shape in input_shape.values() if len(shape) == 3]
        channels = sum(shape[2] for shape in images)
        layers = super()._build_conv(ctype, input_shape=(channels, *images[0][:2]), **kwargs)
        return _Encoder(layers, input_shape, self._scales)

    def _calc_input_size(self, input_shape: Shapes, cnn_layers: Any = None) -> int:
        blank = {name: torch.zeros(1, *shape) for name, shape in input_shape.items()}
        return int(cnn_layers(blank).shape[1])


class _Encoder(nn.Module):
    """Images, joined along their channels, through convolutions; vectors join the result."""

    def __init__(self, layers: nn.Module, shapes: Shapes, scales: Mapping[str, float]) -> None:
        """Keep layers, shapes and scales.

        Args:
            layers: The convolutions.
            shapes: Shapes of the observations; images have the same height and width.
            scales: Factors of observations by group; other groups are not scaled.
        """
        super().__init__()
        self._layers = layers
        self._images = [name for name, shape in shapes.items() if len(shape) == 3]
        self._vectors = [name for name, shape in shapes.items() if len(shape) == 1]
        self._scales = dict(scales)

    def forward(self, obs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        images = torch.cat([self._scaled(obs, name) for name in self._images], dim=3)
        features = self._layers(images.permute(0, 3, 1, 2)).flatten(1)
        return torch.cat([features, *(self._scaled(obs, name) for name in self._vectors)], dim=1)

    def _scaled(self, obs: Mapping[str, torch.Tensor], name: str) -> torch.Tensor:
        return obs[name] * self._scales[name] if name in self._scales else obs[name]


register_network(MULTI_INPUT, MultiInputBuilder)
