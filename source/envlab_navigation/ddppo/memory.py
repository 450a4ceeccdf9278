"""Recurrent memories over whole rollouts, cleared when an episode begins."""

from __future__ import annotations

import torch
from torch import nn


class Memory(nn.Module):
    """A GRU (Cho et al. 2014) or LSTM (Hochreiter and Schmidhuber 1997), of one layer.

    Inputs are projected for all steps at once; torch's own modules would need episodes cut out and
    padded, as their state cannot be cleared in between.

    Attributes:
        dim: Size of an environment's memory.
    """

    def __init__(self, kind: str, input_dim: int, hidden_dim: int) -> None:
        """Make a cell.

        Args:
            kind: ``gru`` or ``lstm``.
            input_dim: Size of the inputs.
            hidden_dim: Size of the output.
        """
        super().__init__()
        self.is_lstm = kind == "lstm"
        gates = 4 if self.is_lstm else 3
        self.hidden_dim = hidden_dim
        self.dim = hidden_dim * (2 if self.is_lstm else 1)
        self.input = nn.Linear(input_dim, gates * hidden_dim)
        self.hidden = nn.Linear(hidden_dim, gates * hidden_dim)
        for layer in (self.input, self.hidden):  # as in AllenAct and Habitat
            for gate in layer.weight.detach().chunk(gates):
                nn.init.orthogonal_(gate)
            nn.init.zeros_(layer.bias)

    def forward(
        self, inputs: torch.Tensor, memory: torch.Tensor, starts: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the output of each step, and the memory after the last.

        Args:
            inputs: ``(num_steps, num_envs, input_dim)``.
            memory: Memory before the first step, ``(num_envs, dim)``.
            starts: Whether an episode begins at a step, bool ``(num_steps, num_envs)``.

        Returns:
            ``(num_steps, num_envs, hidden_dim)`` and ``(num_envs, dim)``.
        """
        kept = (~starts).float().unsqueeze(2).unbind()
        step = self._lstm if self.is_lstm else self._gru
        outputs = []
        for projected, keep in zip(self.input(inputs).unbind(), kept, strict=True):
            memory = step(projected, memory * keep)
            outputs.append(memory[:, : self.hidden_dim])
        return torch.stack(outputs), memory

    # Under autocast, products are of bfloat16; sums over steps stay in float32.

    def _gru(self, projected: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        size = 2 * self.hidden_dim
        inner = self.hidden(hidden)
        reset, update = torch.sigmoid(projected[:, :size] + inner[:, :size]).chunk(2, dim=1)
        new = torch.tanh(projected[:, size:] + reset * inner[:, size:])
        return new + update * (hidden - new)

    def _lstm(self, projected: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        hidden, cell = memory.chunk(2, dim=1)
        gates = projected + self.hidden(hidden)
        add, forget, new, out = gates.chunk(4, dim=1)
        cell = torch.sigmoid(forget) * cell + torch.sigmoid(add) * torch.tanh(new)
        return torch.cat((torch.sigmoid(out) * torch.tanh(cell), cell), dim=1)
