"""The cloned policy: a mixture of Gaussians over actions."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from rsl_rl.modules import MLP
from torch import nn
from torch.nn import functional

from envlab.distributed.context import DistributedContext
from envlab.distributed.statistics import batch_moments
from envlab.errors import ConfigurationError
from envlab.rsl_rl.spatial_softmax import SpatialSoftmaxCNN
from envlab_imitation.cfg import PolicyCfg

LEAST_DEVIATION = 1e-2
"""Deviation of observations and actions that hardly vary in the demonstrations."""

MAX_OBS = 10.0
"""Bound of normalised vectors, so that what demonstrations never showed stays finite."""


class Policy(nn.Module):
    """Maps observations by group to a mixture of Gaussians over actions.

    Vectors and actions are normalised by the demonstrations' means and deviations, images of uint8
    are divided by 255.
    """

    def __init__(self, obs: Mapping[str, torch.Tensor], num_actions: int, cfg: PolicyCfg) -> None:
        """Build it.

        Args:
            obs: Observations by group, ``(num_envs, size)`` or, for images, ``(num_envs, height,
                width, channels)``.
            num_actions: Size of an action.
            cfg: The network.

        Raises:
            ConfigurationError: If rsl_rl refuses the configuration.
        """
        super().__init__()
        self.vectors = [group for group, values in obs.items() if values.dim() == 2]
        self.images = [group for group, values in obs.items() if values.dim() == 4]
        self._num_modes, self._num_actions = cfg.num_modes, num_actions
        self._min_std = cfg.min_std
        num_obs = sum(obs[group].shape[1] for group in self.vectors)
        num_outputs = cfg.num_modes * (2 * num_actions + 1)
        try:
            self.cnns = nn.ModuleDict(
                {
                    group: SpatialSoftmaxCNN(
                        (obs[group].shape[1], obs[group].shape[2]),
                        obs[group].shape[3],
                        **cfg.cnn_cfg,
                    )
                    for group in self.images
                }
            )
            size = num_obs + sum(int(cnn.output_dim) for cnn in self.cnns.values())  # type: ignore
            self.mlp = MLP(size, num_outputs, list(cfg.hidden_dims), cfg.activation)
        except (TypeError, ValueError, LookupError, AttributeError, RuntimeError) as error:
            raise ConfigurationError(
                f"rsl_rl refuses agent.policy ({type(error).__name__}: {error}). Correct it by an "
                "override agent.policy.<key>=<value>."
            ) from error
        self.obs_mean, self.obs_std = (
            nn.Buffer(torch.zeros(num_obs)),
            nn.Buffer(torch.ones(num_obs)),
        )
        self.action_mean = nn.Buffer(torch.zeros(num_actions))
        self.action_std = nn.Buffer(torch.ones(num_actions))

    @torch.no_grad()
    def normalise_by(
        self, obs: Mapping[str, torch.Tensor], actions: torch.Tensor, context: DistributedContext
    ) -> None:
        """Take means and deviations of the demonstrations of all ranks; every rank calls this."""
        found = [(self.action_mean, self.action_std, actions)]
        if self.vectors:
            vectors = torch.cat([obs[group] for group in self.vectors], dim=1)
            found.append((self.obs_mean, self.obs_std, vectors))
        for mean, std, samples in found:
            moments = batch_moments(samples, context)
            mean.copy_(moments.mean)
            std.copy_(moments.variance.sqrt().clamp(min=LEAST_DEVIATION))

    def forward(self, obs: Mapping[str, torch.Tensor], actions: torch.Tensor) -> torch.Tensor:
        """Return minus the log densities of normalised actions, ``(batch,)``."""
        means, stds, logits = self._mixture(obs)
        wanted = ((actions - self.action_mean) / self.action_std).unsqueeze(1)
        squares = ((wanted - means) / stds).square().sum(dim=2)
        densities = -0.5 * squares - stds.log().sum(dim=2)
        constant = 0.5 * self._num_actions * math.log(2.0 * math.pi)
        return constant - torch.logsumexp(logits.log_softmax(dim=1) + densities, dim=1)

    def best(self, obs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return the mean of the most probable Gaussian, ``(batch, num_actions)``."""
        means, _, logits = self._mixture(obs)
        mode = logits.argmax(dim=1).view(-1, 1, 1).expand(-1, 1, self._num_actions)
        return means.gather(1, mode).squeeze(1) * self.action_std + self.action_mean

    def _mixture(
        self, obs: Mapping[str, torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return means and deviations, ``(batch, num_modes, num_actions)``, and logits."""
        seen = []
        if self.vectors:
            vectors = torch.cat([obs[group] for group in self.vectors], dim=1)
            normalised = (vectors - self.obs_mean) / self.obs_std
            seen.append(normalised.clamp(-MAX_OBS, MAX_OBS))
        for group in self.images:
            image = obs[group].permute(0, 3, 1, 2)
            seen.append(self.cnns[group](image / 255.0 if image.dtype == torch.uint8 else image))
        outputs = self.mlp(torch.cat(seen, dim=1))
        size = self._num_modes * self._num_actions
        means, widths, logits = outputs.split((size, size, self._num_modes), dim=1)
        shape = (-1, self._num_modes, self._num_actions)
        return means.view(shape), functional.softplus(widths).view(shape) + self._min_std, logits
