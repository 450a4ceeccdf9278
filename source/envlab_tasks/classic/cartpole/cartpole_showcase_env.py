"""Isaac-Cartpole-Showcase-Box-{Discrete,MultiDiscrete}-Direct-v0: pushing the cart by choices.

Everything but the actions is Isaac-Cartpole-Direct-v0; what they do is as in Isaac Lab 2.3.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from envlab.envs import DiscreteCfg, default
from envlab_tasks.classic.cartpole.cartpole_direct_env import (
    CartpoleDirectEnv,
    CartpoleDirectEnvCfg,
)


@dataclass(kw_only=True)
class CartpoleDiscreteEnvCfg(CartpoleDirectEnvCfg):
    """One choice: 0 no force, 1 the full force backwards, 2 the full force forwards."""

    action_space: int | DiscreteCfg = default(DiscreteCfg(num_options=3))


class CartpoleDiscreteEnv(CartpoleDirectEnv):
    """Isaac-Cartpole-Showcase-Box-Discrete-Direct-v0."""

    def _pre_physics_step(self, actions: torch.Tensor) -> None:
        direction = (actions == 2).float() - (actions == 1).float()
        self._force = direction * self.cfg.action_scale


@dataclass(kw_only=True)
class CartpoleMultiDiscreteEnvCfg(CartpoleDirectEnvCfg):
    """Two choices: no force, half or all of it; and 0 backwards or 1 forwards."""

    action_space: int | DiscreteCfg = default(DiscreteCfg(num_options=[3, 2]))


class CartpoleMultiDiscreteEnv(CartpoleDirectEnv):
    """Isaac-Cartpole-Showcase-Box-MultiDiscrete-Direct-v0."""

    def _pre_physics_step(self, actions: torch.Tensor) -> None:
        strength, direction = actions[:, :1] / 2.0, actions[:, 1:] * 2.0 - 1.0
        self._force = strength * direction * self.cfg.action_scale
