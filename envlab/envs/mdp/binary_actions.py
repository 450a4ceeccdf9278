"""Actions of one number that close or open joints together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from envlab.envs.entities import joint_values
from envlab.envs.managers.action import ActionTerm, ActionTermCfg
from envlab.envs.mdp.actions import DrivenJoints
from envlab.envs.mdp.controls import Bounds

if TYPE_CHECKING:
    from envlab.envs.vector_env import VectorEnv


@dataclass(kw_only=True)
class BinaryJointActionCfg(ActionTermCfg):
    """One action for all joints: below 0 they close, else they open."""

    joint_names: str | list[str]
    """Joints; regular expressions."""
    open_command_expr: dict[str, float]
    """Controls when open, in m or rad (for velocity actuators each second), by regular expressions
    of joint names."""
    close_command_expr: dict[str, float]
    """Controls when closed."""

    def build(self, env: VectorEnv) -> BinaryJointAction:
        return BinaryJointAction(self, env)


@dataclass(kw_only=True)
class BinaryJointPositionActionCfg(BinaryJointActionCfg):
    """One action for all joints: below 0 they close, else they open. For position actuators."""


@dataclass(kw_only=True)
class BinaryJointVelocityActionCfg(BinaryJointActionCfg):
    """One action for all joints: below 0 they close, else they open. For velocity actuators."""


@dataclass(kw_only=True)
class AbsBinaryJointPositionActionCfg(BinaryJointActionCfg):
    """One action for all joints, which open beyond a threshold. For position actuators."""

    threshold: float = 0.5
    """Action beyond which they open; at the threshold itself they close."""
    positive_threshold: bool = True
    """Whether they open above the threshold, not below."""

    def build(self, env: VectorEnv) -> AbsBinaryJointPositionAction:
        return AbsBinaryJointPositionAction(self, env)


class BinaryJointAction(ActionTerm):
    """The term of a :class:`BinaryJointActionCfg`."""

    dim = 1

    def __init__(self, cfg: BinaryJointActionCfg, env: VectorEnv) -> None:
        joints = DrivenJoints(cfg, env)
        self._ctrl = env.sim.ctrl
        self._clip = Bounds(cfg.clip, joints.names, env.device)
        self._ids = torch.tensor(joints.actuators, device=env.device)
        self._open, self._closed = (
            torch.tensor([joint_values(controls, joints.names)], device=env.device)
            for controls in (cfg.open_command_expr, cfg.close_command_expr)
        )

    def apply(self, actions: torch.Tensor) -> None:
        targets = torch.where(self.is_closed(actions), self._closed, self._open)
        self._clip.apply(targets)
        self._ctrl.index_copy_(1, self._ids, targets)

    def is_closed(self, actions: torch.Tensor) -> torch.Tensor:
        """Return whether ``actions``, ``(num_envs, 1)``, close the joints."""
        return actions < 0.0


class AbsBinaryJointPositionAction(BinaryJointAction):
    """The term of an :class:`AbsBinaryJointPositionActionCfg`."""

    def __init__(self, cfg: AbsBinaryJointPositionActionCfg, env: VectorEnv) -> None:
        super().__init__(cfg, env)
        self._cfg = cfg

    def is_closed(self, actions: torch.Tensor) -> torch.Tensor:
        threshold = self._cfg.threshold
        return actions <= threshold if self._cfg.positive_threshold else actions >= threshold
