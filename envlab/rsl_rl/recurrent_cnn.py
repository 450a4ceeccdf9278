"""A network with convolutions and a memory, which rsl_rl 5.5 has apart only.

``agent.<network>.class_name=envlab.rsl_rl.recurrent_cnn:RecurrentCNNModel``.
"""

from __future__ import annotations

from typing import Any

import torch
from rsl_rl.models import CNNModel
from rsl_rl.modules import RNN
from tensordict import TensorDict


class RecurrentCNNModel(CNNModel):
    """Images through convolutions, their features and vectors through a memory, then layers."""

    is_recurrent: bool = True

    def __init__(
        self,
        obs: TensorDict,
        obs_groups: dict[str, list[str]],
        obs_set: str,
        output_dim: int,
        rnn_type: str = "gru",
        rnn_hidden_dim: int = 256,
        rnn_num_layers: int = 1,
        **settings: Any,
    ) -> None:
        """Build the network.

        Args:
            obs: Observations by group.
            obs_groups: Groups by network.
            obs_set: This network's name there.
            output_dim: Size of the output.
            rnn_type: ``gru`` or ``lstm``.
            rnn_hidden_dim: Size of the memory.
            rnn_num_layers: Its layers.
            settings: Those of rsl_rl's ``CNNModel``.
        """
        self._memory_size = rnn_hidden_dim
        super().__init__(obs, obs_groups, obs_set, output_dim, **settings)
        self.rnn = RNN(self.obs_dim + self.cnn_latent_dim, rnn_hidden_dim, rnn_num_layers, rnn_type)

    def get_latent(
        self, obs: TensorDict, masks: torch.Tensor | None = None, hidden_state: Any = None
    ) -> torch.Tensor:
        """Return what the layers get; observations of whole episodes have time in front."""
        parts = [self.obs_normalizer(torch.cat([obs[name] for name in self.obs_groups], dim=-1))]
        for name in self.obs_groups_2d:
            images = obs[name]
            features = self.cnns[name](images.flatten(0, -4))
            parts.append(features.view(*images.shape[:-3], -1))
        latent: torch.Tensor = self.rnn(torch.cat(parts, dim=-1), masks, hidden_state)
        return latent.squeeze(0)

    def reset(self, dones: torch.Tensor | None = None, hidden_state: Any = None) -> None:
        self.rnn.reset(dones, hidden_state)

    def get_hidden_state(self) -> Any:
        return self.rnn.hidden_state

    def detach_hidden_state(self, dones: torch.Tensor | None = None) -> None:
        self.rnn.detach_hidden_state(dones)

    def _get_latent_dim(self) -> int:
        return self._memory_size
