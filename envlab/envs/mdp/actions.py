"""Action terms on joints: efforts, positions, velocities; relative, binary and smoothed ones."""

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
from envlab.envs.masks import assign
from envlab.envs.mdp.events import joint_limits
from envlab.errors import ConfigurationError
from envlab.state import State

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


@dataclass(kw_only=True)
class RelativeJointPositionActionCfg(ActionTermCfg):
    """``target = position + scale * action`` for the named joints. For position actuators.

    The position is that at the beginning of the control step, as in MuJoCo Playground; Isaac Lab
    adds the action to the position again in each physics step.
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

    STATE = State(per_env=("_target",))

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
