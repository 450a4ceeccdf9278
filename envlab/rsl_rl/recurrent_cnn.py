"""A network with convolutions and a memory, which rsl_rl 5.5 only has separately.

``agent.<network>.class_name=envlab.rsl_rl.recurrent_cnn:RecurrentCNNModel``.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from rsl_rl.models import CNNModel
from rsl_rl.modules import RNN
from tensordict import TensorDict
from torch import nn


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
            obs_set: This network's name in ``obs_groups``.
            output_dim: Size of the output.
            rnn_type: ``gru`` or ``lstm``.
            rnn_hidden_dim: Size of the memory.
            rnn_num_layers: Its layers.
            settings: Settings of rsl_rl's ``CNNModel``.
        """
        self._memory_size = rnn_hidden_dim
        super().__init__(obs, obs_groups, obs_set, output_dim, **settings)
        self.rnn = RNN(self.obs_dim + self.cnn_latent_dim, rnn_hidden_dim, rnn_num_layers, rnn_type)

    def get_latent(
        self, obs: TensorDict, masks: torch.Tensor | None = None, hidden_state: Any = None
    ) -> torch.Tensor:
        """Return the input of the layers; observations of whole episodes have time first."""
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

    def as_onnx(self, verbose: bool = False) -> RecurrentCNNStep:
        """Return a copy whose memory is an input and an output."""
        return RecurrentCNNStep(self)

    def _get_latent_dim(self) -> int:
        return self._memory_size


class RecurrentCNNStep(nn.Module):
    """One step of the network, with the attributes of rsl_rl's own modules for export.

    Attributes:
        input_names: ``obs``, the groups that are images, and the memory.
        output_names: ``actions``, and the memory after them.
        input_size: Size of ``obs``.
    """

    def __init__(self, model: RecurrentCNNModel) -> None:
        super().__init__()
        self.obs_normalizer = copy.deepcopy(model.obs_normalizer)
        self.cnns = nn.ModuleList(copy.deepcopy(model.cnns[name]) for name in model.obs_groups_2d)
        self.rnn: nn.GRU | nn.LSTM = copy.deepcopy(model.rnn.rnn)
        self.mlp = copy.deepcopy(model.mlp)
        distribution = model.distribution
        self.deterministic_output = (
            nn.Identity() if distribution is None else distribution.as_deterministic_output_module()
        )
        self.obs_groups_2d, self.input_size = model.obs_groups_2d, model.obs_dim
        self.obs_dims_2d, self.obs_channels_2d = model.obs_dims_2d, model.obs_channels_2d
        self.num_layers, self.hidden_size = self.rnn.num_layers, self.rnn.hidden_size
        memory = ["h", "c"] if isinstance(self.rnn, nn.LSTM) else ["h"]
        self.input_names = ["obs", *self.obs_groups_2d, *(f"{name}_in" for name in memory)]
        self.output_names = ["actions", *(f"{name}_out" for name in memory)]

    def forward(self, obs: torch.Tensor, *rest: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return actions and the memory.

        Args:
            obs: ``(batch, input_size)``.
            rest: Images, ``(batch, channels, height, width)`` each, then the memory,
                ``(num_layers, batch, hidden_size)`` each.
        """
        images, memory = rest[: len(self.cnns)], rest[len(self.cnns) :]
        features = [cnn(image) for cnn, image in zip(self.cnns, images, strict=True)]
        latent = torch.cat([self.obs_normalizer(obs), *features], dim=-1).unsqueeze(0)
        latent, after = self.rnn(latent, memory if len(memory) > 1 else memory[0])
        actions = self.deterministic_output(self.mlp(latent.squeeze(0)))
        return actions, *(after if isinstance(after, tuple) else (after,))
