"""Joint targets relative to the current positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from envlab.envs.entities import SceneEntityCfg, columns, joint_actuators, resolve_entity
from envlab.envs.managers.action import ActionTerm, ActionTermCfg

if TYPE_CHECKING:
    from envlab.envs.vector_env import VectorEnv


@dataclass(kw_only=True)
class RelativeJointPositionActionCfg(ActionTermCfg):
    """``target = position + scale * action`` for the named joints. For position actuators.

    The position is that at the beginning of the control step, as in MuJoCo Playground; Isaac Lab
    adds the action to the position anew in each physics step.
    """

    joint_names: str | list[str]
    """Joints; regular expressions."""
    scale: float = 1.0
    """Change of the target per unit of action, in m or rad."""

    def build(self, env: VectorEnv) -> RelativeJointPositionAction:
        return RelativeJointPositionAction(self, env)


class RelativeJointPositionAction(ActionTerm):
    """The term of a :class:`RelativeJointPositionActionCfg`."""

    def __init__(self, cfg: RelativeJointPositionActionCfg, env: VectorEnv) -> None:
        names = SceneEntityCfg(cfg.asset_name, joint_names=cfg.joint_names)
        entity = resolve_entity(names, env.sim.model, env.device)
        actuators = joint_actuators(env.sim.model, entity.joint_names)
        self.dim = len(actuators)
        self._cfg, self._sim, self._qpos_ids = cfg, env.sim, entity.qpos_ids
        self._ids = torch.tensor(actuators, device=env.device)
        self._joint_names = list(entity.joint_names)

    def describe(self) -> dict[str, Any]:
        scale, offset = [self._cfg.scale] * self.dim, [0.0] * self.dim
        return {"joint_names": self._joint_names, "scale": scale, "offset": offset}

    def apply(self, actions: torch.Tensor) -> None:
        targets = columns(self._sim.data.qpos, self._qpos_ids) + actions * self._cfg.scale
        if self._cfg.clip is not None:
            targets.clamp_(*self._cfg.clip)
        self._sim.ctrl.index_copy_(1, self._ids, targets)
