"""TD3's noise: on exploring actions, and on the actions for target values."""

from __future__ import annotations

import torch

from envlab.fast_sac.cfg import AlgorithmCfg


class ExplorationNoise:
    """Gaussian noise with a deviation for each environment and episode.

    Seo et al., "FastTD3" (arXiv 2505.22642), whose code also draws it from torch's generator.

    Attributes:
        deviations: Deviation of each environment's noise, ``(num_envs, 1)``.
    """

    def __init__(
        self,
        cfg: AlgorithmCfg,
        num_envs: int,
        device: torch.device,
        generator: torch.Generator | None = None,
    ) -> None:
        """Draw the first deviations; all draws are from ``generator``, or the process's."""
        self._least, self._largest = cfg.noise_std_min, cfg.noise_std_max
        self._generator = generator
        self.deviations = self._drawn(torch.empty(num_envs, 1, device=device))

    def added(self, actions: torch.Tensor) -> torch.Tensor:
        """Return actions with noise, within -1 to 1, ``(num_envs, num_actions)``."""
        noise = torch.empty_like(actions).normal_(generator=self._generator)
        return (actions + noise * self.deviations).clamp(-1.0, 1.0)

    def renew(self, ended: torch.Tensor) -> None:
        """Draw new deviations where an episode ended, bool ``(num_envs,)``."""
        drawn = self._drawn(torch.empty_like(self.deviations))
        torch.where(ended.unsqueeze(1), drawn, self.deviations, out=self.deviations)

    def _drawn(self, deviations: torch.Tensor) -> torch.Tensor:
        return deviations.uniform_(self._least, self._largest, generator=self._generator)


def smoothed(actions: torch.Tensor, cfg: AlgorithmCfg) -> torch.Tensor:
    """Return the target policy's actions with clipped noise, ``(batch, num_actions)``.

    Fujimoto et al., "Addressing Function Approximation Error in Actor-Critic Methods" (2018),
    section 5.3.
    """
    noise = torch.randn_like(actions) * cfg.target_noise_std
    limit = cfg.target_noise_clip
    return (actions + noise.clamp(-limit, limit)).clamp(-1.0, 1.0)
