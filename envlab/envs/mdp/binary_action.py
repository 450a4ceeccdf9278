"""Actions that choose between two positions, such as a gripper's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from envlab.envs.entities import joint_actuators, joint_values
from envlab.envs.managers.action import ActionTerm, ActionTermCfg

if TYPE_CHECKING:
    from envlab.envs.vector_env import VectorEnv


@dataclass(kw_only=True)
class BinaryJointPositionActionCfg(ActionTermCfg):
    """One action for all joints: below 0 they close, else they open. For position actuators."""

    joint_names: str | list[str]
    """Joints; regular expressions."""
    open_command_expr: dict[str, float]
    """Target positions when open, in m or rad, by regular expressions of joint names."""
    close_command_expr: dict[str, float]
    """Target positions when closed."""

    def build(self, env: VectorEnv) -> BinaryJointPositionAction:
        return BinaryJointPositionAction(self, env)


class BinaryJointPositionAction(ActionTerm):
    """The term of a :class:`BinaryJointPositionActionCfg`."""

    dim = 1

    def __init__(self, cfg: BinaryJointPositionActionCfg, env: VectorEnv) -> None:
        model = env.sim.model
        actuators = joint_actuators(model, cfg.joint_names)
        names = [model.joint(model.actuator_trnid[i, 0]).name for i in actuators]
        self._ctrl, self._clip = env.sim.ctrl, cfg.clip
        self._ids = torch.tensor(actuators, device=env.device)
        self._open = torch.tensor([joint_values(cfg.open_command_expr, names)], device=env.device)
        self._closed = torch.tensor(
            [joint_values(cfg.close_command_expr, names)], device=env.device
        )

    def apply(self, actions: torch.Tensor) -> None:
        targets = torch.where(actions < 0.0, self._closed, self._open)
        if self._clip is not None:
            targets = targets.clamp(*self._clip)
        self._ctrl.index_copy_(1, self._ids, targets)
