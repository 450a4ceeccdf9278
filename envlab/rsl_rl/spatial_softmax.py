"""A network that reduces each feature map to where it is strong, as for mjlab 1.6.0's cameras.

``agent.<network>.class_name=envlab.rsl_rl.spatial_softmax:SpatialSoftmaxCNNModel``. Source: Finn et
al., Deep Spatial Autoencoders for Visuomotor Learning, 2016.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from rsl_rl.models import CNNModel, MLPModel
from rsl_rl.modules import CNN
from tensordict import TensorDict
from torch import nn


class SpatialSoftmax(nn.Module):
    """Returns the mean places of feature maps, weighted by their softmax.

    Places are from -1 to 1; of ``(batch, channels, height, width)`` it returns ``(batch, 2 *
    channels)``: row and column of the first channel, of the second, and so forth.
    """

    places: torch.Tensor

    def __init__(self, height: int, width: int, temperature: float = 1.0) -> None:
        super().__init__()
        rows, columns = torch.linspace(-1.0, 1.0, height), torch.linspace(-1.0, 1.0, width)
        places = torch.stack(torch.meshgrid(rows, columns, indexing="ij"), dim=-1)
        self.register_buffer("places", places.flatten(0, 1))
        self.temperature = temperature

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        weights = torch.softmax(features.flatten(2) / self.temperature, dim=-1)
        return (weights @ self.places).flatten(1)


class SpatialSoftmaxCNN(CNN):
    """rsl_rl's convolutions, and a :class:`SpatialSoftmax` at their end."""

    def __init__(
        self,
        input_dim: tuple[int, int],
        input_channels: int,
        temperature: float = 1.0,
        **settings: Any,
    ) -> None:
        super().__init__(input_dim, input_channels, flatten=False, **settings)
        size: Any = self.output_dim
        height, width = size
        self.add_module(str(len(self)), SpatialSoftmax(height, width, temperature))
        self._output_dim = 2 * int(self.output_channels or 0)
        self._output_channels = None  # flat, as rsl_rl's models want it


class SpatialSoftmaxCNNModel(CNNModel):
    """A ``CNNModel`` whose ``cnn_cfg`` may also have a ``temperature``."""

    def __init__(
        self,
        obs: TensorDict,
        obs_groups: dict[str, list[str]],
        obs_set: str,
        output_dim: int,
        cnn_cfg: Mapping[str, Any] | None = None,
        cnns: nn.ModuleDict | None = None,
        **settings: Any,
    ) -> None:
        """Build the network.

        Args:
            obs: Observations by group.
            obs_groups: Groups by network.
            obs_set: This network's name in ``obs_groups``.
            output_dim: Size of the output.
            cnn_cfg: Settings of the convolutions; or of those of each group that is images.
            cnns: Convolutions of another network, which this one shares.
            settings: Settings of rsl_rl's ``MLPModel``.
        """
        self._get_obs_dim(obs, obs_groups, obs_set)
        if cnns is None:
            groups, cfg = self.obs_groups_2d, dict(cnn_cfg or {})
            of_groups = cfg if cfg.keys() == set(groups) else dict.fromkeys(groups, cfg)
            sizes = zip(groups, self.obs_dims_2d, self.obs_channels_2d, strict=True)
            cnns = nn.ModuleDict(
                {
                    group: SpatialSoftmaxCNN(tuple(size), channels, **of_groups[group])
                    for group, size, channels in sizes
                }
            )
        encoders: Any = cnns.values()
        self.cnn_latent_dim = sum(encoder.output_dim for encoder in encoders)
        # CNNModel's own initialisation makes other convolutions.
        MLPModel.__init__(self, obs, obs_groups, obs_set, output_dim, **settings)
        self.cnns = cnns
