"""Joint targets over the whole range of motion, smoothed from step to step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from envlab.envs.entities import SceneEntityCfg, columns, joint_actuators, resolve_entity
from envlab.envs.managers.action import ActionTerm, ActionTermCfg
from envlab.envs.masks import assign
from envlab.envs.mdp.events import joint_limits
from envlab.errors import ConfigurationError

if TYPE_CHECKING:
    from envlab.envs.vector_env import VectorEnv


@dataclass(kw_only=True)
class EMAJointPositionToLimitsActionCfg(ActionTermCfg):
    """Position targets within the joints' limits, as an exponential moving average.

    ``target = alpha * position + (1 - alpha) * last target``; before the first step of an episode
    the last target is the joints' positions.
    """

    joint_names: str | list[str]
    """Joints with position actuators; regular expressions."""
    scale: float = 1.0
    """Factor on the action."""
    rescale_to_limits: bool = True
    """Whether actions from -1 to 1, to which they are clipped, mean the lower to the upper limit;
    else they are positions in rad or m."""
    alpha: float = 1.0
    """Weight of the new position, 0 to 1."""

    def build(self, env: VectorEnv) -> EMAJointPositionToLimitsAction:
        if not 0.0 <= self.alpha <= 1.0:
            raise ConfigurationError(
                f"An action term has alpha {self.alpha}, which must be between 0 and 1."
            )
        return EMAJointPositionToLimitsAction(self, env)


class EMAJointPositionToLimitsAction(ActionTerm):
    """The term of an :class:`EMAJointPositionToLimitsActionCfg`."""

    def __init__(self, cfg: EMAJointPositionToLimitsActionCfg, env: VectorEnv) -> None:
        names = SceneEntityCfg(cfg.asset_name, joint_names=cfg.joint_names)
        entity = resolve_entity(names, env.sim.model, env.device)
        actuators = joint_actuators(env.sim.model, entity.joint_names)
        self.dim = len(actuators)
        self._cfg, self._env, self._entity = cfg, env, entity
        self._ids = torch.tensor(actuators, device=env.device)
        self._low, self._high = joint_limits(env, entity)
        if cfg.rescale_to_limits and not torch.isfinite(self._high - self._low).all():
            raise ConfigurationError(
                "An action is rescaled to the limits of joints, but some have none. Give the "
                "joints a range in the model, or set rescale_to_limits to false."
            )
        self._target = torch.zeros(env.num_envs, self.dim, device=env.device)

    def apply(self, actions: torch.Tensor) -> None:
        positions = actions * self._cfg.scale
        if self._cfg.rescale_to_limits:
            share = 0.5 * (positions.clamp(-1.0, 1.0) + 1.0)
            positions = self._low + share * (self._high - self._low)
        self._target.lerp_(positions, self._cfg.alpha)
        self._target.clamp_(self._low, self._high)
        if self._cfg.clip is not None:
            self._target.clamp_(*self._cfg.clip)
        self._env.sim.ctrl.index_copy_(1, self._ids, self._target)

    def reset(self, mask: torch.Tensor) -> None:
        # The positions that the reset is about to write.
        assign(self._target, mask, columns(self._env.reset_qpos, self._entity.qpos_ids))

    def state(self) -> dict[str, torch.Tensor]:
        return {"target": self._target.cpu().clone()}

    def set_state(self, state: Mapping[str, torch.Tensor]) -> None:
        self._target.copy_(state["target"])
