"""Turn until the wall is near: depth images of 40 by 40 pixels, and seven numbers."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from envlab.envs import BatchedEnv, EnvCfg
from envlab.envs.batched_env import Log, Observations
from envlab.envs.discrete import DiscreteCfg
from envlab.state import State

SIZE = 40


@dataclass(kw_only=True)
class SeerCfg(EnvCfg):
    """Six steps an episode, so that time limits end them."""

    episode_length_s: float = 6.0


class SeerEnv(BatchedEnv):
    """An agent at an angle, which its choice of four turns by as many tenths of a radian."""

    STATE = State(per_env=("_angle",))

    @property
    def step_dt(self) -> float:
        return 1.0

    @property
    def max_episode_length(self) -> int:
        return int(self.cfg.episode_length_s)

    def _build(self) -> None:
        self._angle = torch.zeros(self.num_envs, device=self.device)
        self._rays = torch.linspace(-0.5, 0.5, SIZE, device=self.device)
        self._everyone = torch.ones(self.num_envs, dtype=torch.bool, device=self.device)
        self._make_spaces()
        self.reset()

    def _num_actions(self) -> int:
        return 1

    def _choices(self) -> DiscreteCfg | None:
        return DiscreteCfg(num_options=4)

    def _advance(self, actions: torch.Tensor) -> None:
        self._angle += 0.1 * actions.flatten().float()

    def _get_dones(self) -> tuple[torch.Tensor, torch.Tensor]:
        late = self._episode_length >= self.max_episode_length
        return torch.zeros_like(late), late

    def _get_rewards(self) -> torch.Tensor:
        return self._angle.cos()

    def _reset_masked(self, mask: torch.Tensor, count: torch.Tensor | int) -> Log:
        drawn = self.random.stream("angle").uniform(-3.0, 3.0, 1)[:, 0]
        self._angle = torch.where(mask, drawn, self._angle)
        self._clear_lengths(mask)
        return {}

    def _get_observations(self) -> Observations:
        seen = self._angle[:, None] + self._rays
        depth = 5.0 + 5.0 * seen.sin()[:, :, None] * seen.cos()[:, None, :]
        harmonics = self._angle[:, None] * torch.arange(1.0, 8.0, device=self.device)
        return {"policy": harmonics.sin(), "depth": depth.unsqueeze(-1)}

    def on_restore(self) -> None:
        super().on_restore()
        self._observe()
