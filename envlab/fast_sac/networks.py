"""The policy, and two critics."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional

from envlab.fast_sac.cfg import ActorCfg, CriticCfg
from envlab.squashed import sample_squashed

LOG_STD = (-5.0, 0.0)
"""Bounds of the policy's log deviation before tanh, as in FastSAC."""
NUM_CRITICS = 2


class Actor(nn.Module):
    """TD3's deterministic policy: actions are -1 to 1."""

    def __init__(self, num_obs: int, num_actions: int, cfg: ActorCfg) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for before, size in zip((num_obs, *cfg.hidden_dims), cfg.hidden_dims, strict=False):
            layers += [nn.Linear(before, size), nn.LayerNorm(size), nn.SiLU()]
        self.body = nn.Sequential(*layers)
        self.mean = _small_head(cfg.hidden_dims[-1], num_actions)

    def forward(
        self, obs: torch.Tensor, generator: torch.Generator | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return actions, ``(batch, num_actions)``, and their log densities, ``(batch,)``.

        A policy without a density returns 0 instead, which has no effect on any loss.
        """
        actions = self.best(obs)
        return actions, actions.new_zeros(len(actions))

    def best(self, obs: torch.Tensor) -> torch.Tensor:
        """Return the best actions, ``(batch, num_actions)``."""
        return self.mean(self.body(obs)).tanh()


class GaussianActor(Actor):
    """SAC's policy: a Gaussian squashed by tanh."""

    def __init__(self, num_obs: int, num_actions: int, cfg: ActorCfg) -> None:
        super().__init__(num_obs, num_actions, cfg)
        self.deviation = _small_head(cfg.hidden_dims[-1], num_actions)
        low, high = LOG_STD
        share = (math.log(cfg.init_std) - low) / (high - low)
        nn.init.constant_(self.deviation.bias, math.atanh(min(max(2.0 * share - 1.0, -0.99), 0.99)))

    def forward(
        self, obs: torch.Tensor, generator: torch.Generator | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return drawn actions, ``(batch, num_actions)``, and their log densities, ``(batch,)``.

        Args:
            obs: ``(batch, num_obs)``.
            generator: Generator of the draws; None: the process's.
        """
        features = self.body(obs)
        low, high = LOG_STD
        log_std = low + 0.5 * (high - low) * (self.deviation(features).tanh() + 1.0)
        actions, density = sample_squashed(self.mean(features), log_std, generator)
        return actions, density.sum(dim=1)


def _small_head(num_inputs: int, num_outputs: int) -> nn.Linear:
    """Return a layer whose initial outputs are near zero, the same in all states."""
    head = nn.Linear(num_inputs, num_outputs)
    with torch.no_grad():
        head.weight.mul_(0.01)
        head.bias.zero_()
    return head


class Critics(nn.Module):
    """Two critics and the temperature, which is learned with them."""

    def __init__(
        self, num_obs: int, num_actions: int, cfg: CriticCfg, init_temperature: float
    ) -> None:
        super().__init__()
        num_outputs = cfg.num_atoms if cfg.distributional else 1
        sizes = (num_obs + num_actions, *cfg.hidden_dims)
        hidden = zip(sizes, cfg.hidden_dims, strict=False)
        self.layers = PairedLayers(
            *(PairedLinear(before, size, normalised=True) for before, size in hidden),
            PairedLinear(sizes[-1], num_outputs, normalised=False),
        )
        self.log_temperature = nn.Parameter(torch.tensor(math.log(init_temperature)))
        # Of the configuration alone, so that a resumed run may have another reach.
        atoms = torch.linspace(-cfg.v_max, cfg.v_max, num_outputs)
        self.atoms = nn.Buffer(atoms, persistent=False)

    def forward(
        self, obs: torch.Tensor, actions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return each critic's output, ``(2, batch, num_atoms or 1)``, and the log temperature."""
        return self.judge(obs, actions), self.log_temperature

    def judge(self, obs: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return logits of the returns' distribution, or returns: ``(2, batch, num_outputs)``."""
        x = torch.cat((obs, actions), dim=1)
        judged: torch.Tensor = self.layers(x)
        return judged

    def values(self, judged: torch.Tensor) -> torch.Tensor:
        """Return the mean returns for the output of :meth:`judge`, ``(2, batch)``."""
        if judged.shape[2] == 1:
            return judged.squeeze(2)
        return judged.softmax(dim=2) @ self.atoms


class PairedLayers(nn.Sequential):
    """Layers of both critics, computed one critic after the other.

    Joint operations for both take a quarter longer from batches of 1,024 on: libraries multiply two
    matrices faster than a batch of two, and normalise and scale in one pass.
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(batch, num_inputs)`` to ``(2, batch, num_outputs)``."""
        values = [x] * NUM_CRITICS
        for layer in self:
            values = layer(values)
        return torch.stack(values)


class PairedLinear(nn.Module):
    """A linear layer of both critics; a LayerNorm and SiLU follow a hidden one."""

    def __init__(self, num_inputs: int, num_outputs: int, *, normalised: bool) -> None:
        super().__init__()
        bound = 1.0 / math.sqrt(num_inputs)  # as in nn.Linear
        shape = (NUM_CRITICS, num_inputs, num_outputs)
        self.weight = nn.Parameter(torch.empty(shape).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(NUM_CRITICS, 1, num_outputs).uniform_(-bound, bound))
        self._shape: Sequence[int] = (num_outputs,)
        self.gain = self.shift = None
        if normalised:
            self.gain = nn.Parameter(torch.ones(NUM_CRITICS, 1, num_outputs))
            self.shift = nn.Parameter(torch.zeros(NUM_CRITICS, 1, num_outputs))

    def forward(self, values: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Map each critic's ``(batch, num_inputs)`` to ``(batch, num_outputs)``."""
        parts = zip(values, self.weight.unbind(), self.bias.unbind(), strict=True)
        values = [torch.addmm(bias, x, weight) for x, weight, bias in parts]
        if self.gain is None or self.shift is None:
            return values
        scales = zip(values, self.gain.unbind(), self.shift.unbind(), strict=True)
        return [
            functional.silu(functional.layer_norm(x, self._shape, gain[0], shift[0]))
            for x, gain, shift in scales
        ]
