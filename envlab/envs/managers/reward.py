"""Rewards: the weighted sum of terms, times the step's duration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from envlab.envs.managers.term import FunctionTermCfg, bind, masked_mean, terms_of
from envlab.errors import ConfigurationError, did_you_mean

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv


@dataclass(kw_only=True)
class RewardTermCfg(FunctionTermCfg):
    """``func(env, **params)`` returns ``(num_envs,)``; it counts ``weight * step_dt`` times."""

    weight: float
    """Reward per second for a term value of 1."""


class RewardManager:
    """Sums reward terms, and keeps each term's sum over the episode for the log."""

    def __init__(self, cfg: Any, env: ManagerEnv) -> None:
        self._env = env
        terms = terms_of(cfg, RewardTermCfg)
        self.active_terms = list(terms)
        """Names of the terms."""
        self._functions = [bind(term, env) for term in terms.values()]
        # As numbers too, which can be read without waiting for a GPU.
        self._numbers = [float(term.weight) for term in terms.values()]
        self._weights = torch.tensor(self._numbers, device=env.device).reshape(-1, 1)
        self._episode_sums = torch.zeros(len(terms), env.num_envs, device=env.device)

    def compute(self, dt: float) -> torch.Tensor:
        """Return the step's rewards, ``(num_envs,)``; ``dt`` is the step's duration in seconds."""
        if not self._functions:
            return torch.zeros(self._env.num_envs, device=self._env.device)
        values = torch.stack([function() for function in self._functions])
        values *= self._weights * dt
        self._episode_sums += values
        return values.sum(dim=0)

    def reset(self, mask: torch.Tensor, count: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return ``Episode_Reward/<term>``, reward per second of the time limit, and start anew."""
        means = masked_mean(self._episode_sums, mask, count) / self._env.cfg.episode_length_s
        self._episode_sums.masked_fill_(mask, 0.0)
        return dict(
            zip((f"Episode_Reward/{name}" for name in self.active_terms), means, strict=True)
        )

    def get_weight(self, name: str) -> float:
        """Return the weight that a term has now."""
        return self._numbers[self._index(name)]

    def set_weight(self, name: str, weight: float) -> None:
        """Change the weight of a term, as a curriculum does."""
        self._numbers[self._index(name)] = weight
        self._weights[self._index(name), 0] = weight

    def state(self) -> dict[str, torch.Tensor]:
        """Return what must survive a resume."""
        return {
            "weights": self._weights.cpu().clone(),
            "episode_sums": self._episode_sums.cpu().clone(),
        }

    def set_state(self, state: Mapping[str, torch.Tensor]) -> None:
        """Restore what :meth:`state` returned."""
        self._weights.copy_(state["weights"])
        self._numbers = self._weights[:, 0].tolist()
        self._episode_sums.copy_(state["episode_sums"])

    def _index(self, name: str) -> int:
        if name not in self.active_terms:
            raise ConfigurationError(
                f"There is no reward term {name!r}; there are {', '.join(self.active_terms)}."
                f"{did_you_mean(name, self.active_terms)}"
            )
        return self.active_terms.index(name)
