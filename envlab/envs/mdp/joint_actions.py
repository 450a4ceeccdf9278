"""Actions on joints with a rule of their own.

Position targets are within joints' limits, as they are or smoothed; one number opens or closes
joints together; a base drives forward and turns, on two slides and a hinge.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from envlab.envs.entities import SceneEntityCfg, actuators_of, columns, joint_values, resolve_entity
from envlab.envs.managers.action import ActionTerm, ActionTermCfg
from envlab.envs.masks import assign
from envlab.envs.math import yaw_from_quat
from envlab.envs.mdp._controls import Bounds, by_name
from envlab.envs.mdp.actions import DrivenJoints, described
from envlab.envs.mdp.events import position_limits
from envlab.errors import ConfigurationError
from envlab.state import State

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


@dataclass(kw_only=True)
class NonHolonomicActionCfg(ActionTermCfg):
    """Forward and turning velocity of a base that cannot move sideward, as target velocities.

    The base is moved by velocity actuators of slides along x and y and of a hinge about z. The
    forward velocity is turned by the body's yaw.
    """

    body_name: str
    """Body whose yaw is the direction of driving."""
    x_joint_name: str
    """Slide along x."""
    y_joint_name: str
    """Slide along y."""
    yaw_joint_name: str
    """Hinge about z."""
    scale: tuple[float, float] = (1.0, 1.0)
    """Forward velocity in m/s and turning velocity in rad/s per unit of action."""
    offset: tuple[float, float] = (0.0, 0.0)
    """Both velocities at action 0."""
    each_substep: bool = False
    """Whether the yaw is that of each physics step, as in Isaac Lab, instead of the control step's
    beginning."""

    @property
    def data_fields(self) -> tuple[str, ...]:
        return ("xquat",)

    def build(self, env: VectorEnv) -> NonHolonomicAction:
        return NonHolonomicAction(self, env)


class NonHolonomicAction(ActionTerm):
    """The term of a :class:`NonHolonomicActionCfg`.

    Raises:
        ConfigurationError: If a name matches several joints or bodies.
    """

    dim = 2

    def __init__(self, cfg: NonHolonomicActionCfg, env: VectorEnv) -> None:
        model = env.sim.model
        actuators = []
        for field in ("x_joint_name", "y_joint_name", "yaw_joint_name"):
            found = actuators_of("joint", model, getattr(cfg, field), thing=cfg.asset_name)
            names = [model.joint(int(model.actuator_trnid[i, 0])).name for i in found]
            _check_one(field, getattr(cfg, field), names)
            actuators += found
        entity = resolve_entity(
            SceneEntityCfg(cfg.asset_name, body_names=cfg.body_name), model, env.device
        )
        _check_one("body_name", cfg.body_name, entity.body_names)
        self._body = model.body(entity.body_names[0]).id
        self._sim, self._clip = env.sim, Bounds(cfg.clip, (), env.device)
        self._ids = torch.tensor(actuators, device=env.device)
        self._scale = torch.tensor(cfg.scale, device=env.device)
        self._offset = torch.tensor(cfg.offset, device=env.device)
        self.control_each_substep = cfg.each_substep

    def apply(self, actions: torch.Tensor) -> None:
        self._velocities = actions * self._scale + self._offset
        self._clip.apply(self._velocities)
        if not self.control_each_substep:
            self.control()

    def control(self) -> None:
        forward, turn = self._velocities.unbind(1)
        yaw = yaw_from_quat(self._sim.data.xquat[:, self._body].double())
        x, y = (forward * share.float() for share in (torch.cos(yaw), torch.sin(yaw)))
        self._sim.ctrl.index_copy_(1, self._ids, torch.stack((x, y, turn), dim=1))


def _check_one(field: str, pattern: str, names: list[str]) -> None:
    if len(names) != 1:
        raise ConfigurationError(
            f"The {field} {pattern!r} of a non-holonomic action matches {', '.join(names)}, but "
            "must match one."
        )
