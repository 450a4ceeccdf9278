"""Action terms that write the actuators of named joints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from envlab.envs.entities import (
    SceneEntityCfg,
    columns,
    joint_actuators,
    joint_values,
    resolve_entity,
)
from envlab.envs.managers.action import ActionTerm, ActionTermCfg

if TYPE_CHECKING:
    from envlab.envs.vector_env import VectorEnv


@dataclass(kw_only=True)
class JointActionCfg(ActionTermCfg):
    """``ctrl = action * scale + offset`` for the named joints' actuators, in the model's order."""

    joint_names: str | list[str]
    """Joints; regular expressions."""
    scale: float | dict[str, float] = 1.0
    """Control per unit of action; or one for each joint, by regular expressions."""
    offset: float = 0.0
    """Control at action 0."""

    def build(self, env: VectorEnv) -> JointAction:
        return JointAction(self, env, self.offset)


@dataclass(kw_only=True)
class JointEffortActionCfg(JointActionCfg):
    """For motor actuators: controls are forces in N or torques in N m."""


@dataclass(kw_only=True)
class JointVelocityActionCfg(JointActionCfg):
    """For velocity actuators: controls are target velocities in m/s or rad/s."""


@dataclass(kw_only=True)
class JointPositionActionCfg(JointActionCfg):
    """For position actuators: controls are target positions in m or rad."""

    use_default_offset: bool = True
    """Whether action 0 means the default joint positions, instead of ``offset``."""

    def build(self, env: VectorEnv) -> JointAction:
        entity = resolve_entity(
            SceneEntityCfg(joint_names=self.joint_names), env.sim.model, env.device
        )
        default = env.default_qpos[:, entity.qpos_ids]
        offset = default if self.use_default_offset else self.offset
        return JointAction(self, env, offset, entity.qpos_ids)


class JointAction(ActionTerm):
    """The term of a :class:`JointActionCfg`."""

    def __init__(
        self,
        cfg: JointActionCfg,
        env: VectorEnv,
        offset: torch.Tensor | float,
        biased_ids: slice | torch.Tensor | None = None,
    ) -> None:
        """Find the actuators.

        Args:
            cfg: The configuration.
            env: The environment.
            offset: Control at action 0, one for all or ``(1, dim)``.
            biased_ids: The joints whose encoders' errors count, if the environment has some.
        """
        model = env.sim.model
        actuators = joint_actuators(model, cfg.joint_names)
        self.dim = len(actuators)
        self._joint_names = [model.joint(model.actuator_trnid[i, 0]).name for i in actuators]
        self._ctrl = env.sim.ctrl
        self._ids = torch.tensor(actuators, device=env.device)
        self._covers_all = actuators == list(range(env.sim.model.nu))
        self._scale, self._clip = _scale(cfg.scale, self._joint_names, env), cfg.clip
        has_offset = isinstance(offset, torch.Tensor) or offset != 0.0
        self._offset = offset if has_offset else None
        self._env, self._biased_ids = env, biased_ids

    def describe(self) -> dict[str, Any]:
        settings = {"scale": self._scale, "offset": 0.0 if self._offset is None else self._offset}
        lists = {
            name: torch.as_tensor(value, device="cpu").flatten().expand(self.dim).tolist()
            for name, value in settings.items()
        }
        return {"joint_names": list(self._joint_names), **lists}

    def apply(self, actions: torch.Tensor) -> None:
        controls = torch.mul(actions, self._scale, out=self._ctrl if self._covers_all else None)
        if self._offset is not None:
            controls += self._offset
        if self._clip is not None:
            controls.clamp_(*self._clip)
        bias: torch.Tensor | None = getattr(self._env, "encoder_bias", None)
        if bias is not None and self._biased_ids is not None:
            controls -= columns(bias, self._biased_ids)
        if not self._covers_all:
            self._ctrl.index_copy_(1, self._ids, controls)


def _scale(
    scale: float | dict[str, float], names: list[str], env: VectorEnv
) -> float | torch.Tensor:
    """Return one factor for all, or one for each named joint, ``(dim,)``."""
    if not isinstance(scale, dict):
        return scale
    return torch.tensor(joint_values(scale, names), device=env.device)
