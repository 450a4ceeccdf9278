"""Position targets that are given within joints' limits, as they are or smoothed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from envlab.envs.entities import columns
from envlab.envs.managers.action import ActionTerm, ActionTermCfg
from envlab.envs.masks import assign
from envlab.envs.mdp.actions import DrivenJoints, described
from envlab.envs.mdp.controls import Bounds, by_name
from envlab.envs.mdp.events import position_limits
from envlab.errors import ConfigurationError
from envlab.state import State

if TYPE_CHECKING:
    from envlab.envs.vector_env import VectorEnv


@dataclass(kw_only=True)
class JointPositionToLimitsActionCfg(ActionTermCfg):
    """Position targets within the joints' limits; ``clip`` bounds actions after the scale."""

    joint_names: str | list[str]
    """Joints with position actuators; regular expressions."""
    scale: float | dict[str, float] = 1.0
    """Factor on the action; or one for each joint, by regular expressions."""
    rescale_to_limits: bool = True
    """Whether actions from -1 to 1, to which they are clipped, mean the lower to the upper limit;
    else they are positions in rad or m."""
    preserve_order: bool = False
    """Whether the action has the joints in the order of ``joint_names``, not in the model's."""

    def build(self, env: VectorEnv) -> JointPositionToLimitsAction:
        return JointPositionToLimitsAction(self, env)


class JointPositionToLimitsAction(ActionTerm):
    """The term of a :class:`JointPositionToLimitsActionCfg`."""

    def __init__(self, cfg: JointPositionToLimitsActionCfg, env: VectorEnv) -> None:
        self.joints = DrivenJoints(cfg, env, of_asset=True)
        names, self.dim = self.joints.names, len(self.joints.names)
        self._ctrl, self._rescales = env.sim.ctrl, cfg.rescale_to_limits
        self._ids = torch.tensor(self.joints.actuators, device=env.device)
        self._scale = by_name(cfg.scale, names, env.device)
        self._clip = Bounds(cfg.clip, names, env.device)
        self._low, self._high = position_limits(env, names)
        if cfg.rescale_to_limits and not torch.isfinite(self._high - self._low).all():
            raise ConfigurationError(
                "An action is rescaled to the limits of joints, but some have none. Give the "
                "joints a range in the model, or set rescale_to_limits to false."
            )

    def positions(self, actions: torch.Tensor) -> torch.Tensor:
        """Return the positions that ``actions`` mean, ``(num_envs, dim)``."""
        positions = actions * self._scale
        self._clip.apply(positions)
        if not self._rescales:
            return positions
        share = 0.5 * (positions.clamp(-1.0, 1.0) + 1.0)
        return self._low + share * (self._high - self._low)

    def apply(self, actions: torch.Tensor) -> None:
        self._ctrl.index_copy_(1, self._ids, self.positions(actions))

    def describe(self) -> dict[str, Any] | None:
        if not self._rescales:
            return described(self.joints.names, self._scale, None, self._clip)
        middle, half = 0.5 * (self._low + self._high), 0.5 * (self._high - self._low)
        scaled = torch.tensor([[-math.inf], [math.inf]], device=half.device).repeat(1, self.dim)
        self._clip.apply(scaled)
        scaled.clamp_(-1.0, 1.0)
        facts = described(self.joints.names, half * self._scale, middle, self._clip)
        return {**facts, "clip": (middle + half * scaled).tolist()}


@dataclass(kw_only=True)
class EMAJointPositionToLimitsActionCfg(JointPositionToLimitsActionCfg):
    """Position targets within the joints' limits, as an exponential moving average.

    ``target = alpha * position + (1 - alpha) * last target``; before the first step of an episode
    the last target is the joints' positions.
    """

    alpha: float | dict[str, float] = 1.0
    """Weight of the new position, 0 to 1; or by regular expressions, 1 for joints that match
    none."""

    def build(self, env: VectorEnv) -> EMAJointPositionToLimitsAction:
        for alpha in self.alpha.values() if isinstance(self.alpha, dict) else [self.alpha]:
            if not 0.0 <= alpha <= 1.0:
                raise ConfigurationError(
                    f"An action term has alpha {alpha}, which must be between 0 and 1."
                )
        return EMAJointPositionToLimitsAction(self, env)


class EMAJointPositionToLimitsAction(JointPositionToLimitsAction):
    """The term of an :class:`EMAJointPositionToLimitsActionCfg`."""

    STATE = State(per_env=("_target",))

    def __init__(self, cfg: EMAJointPositionToLimitsActionCfg, env: VectorEnv) -> None:
        super().__init__(cfg, env)
        self._env = env
        self._alpha: Any = by_name(cfg.alpha, self.joints.names, env.device, default=1.0)
        self._target = torch.zeros(env.num_envs, self.dim, device=env.device)

    def apply(self, actions: torch.Tensor) -> None:
        self._target.lerp_(self.positions(actions), self._alpha)
        self._target.clamp_(self._low, self._high)
        self._ctrl.index_copy_(1, self._ids, self._target)

    def describe(self) -> None:
        return None  # it remembers

    def reset(self, mask: torch.Tensor) -> None:
        # The positions that the reset is about to write.
        assign(self._target, mask, columns(self._env.reset_qpos, self.joints.qpos_ids))
