"""Action terms on joints, and on the actuators of tendons and sites, as mjlab's.

Joints are driven by efforts, positions, velocities, or positions relative to the present.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from envlab.envs.entities import (
    SceneEntityCfg,
    actuators_of,
    as_index,
    columns,
    joint_actuators,
    resolve_entity,
)
from envlab.envs.entity_names import matching, prefixes_of
from envlab.envs.managers.action import ActionTerm, ActionTermCfg
from envlab.envs.mdp._controls import Bounds, by_name

if TYPE_CHECKING:
    from envlab.envs.vector_env import VectorEnv


@dataclass(kw_only=True)
class JointActionCfg(ActionTermCfg):
    """``ctrl = action * scale + offset`` for the named joints' actuators."""

    joint_names: str | list[str]
    """Joints; regular expressions."""
    scale: float | dict[str, float] = 1.0
    """Control per unit of action; or one for each joint, by regular expressions."""
    offset: float | dict[str, float] = 0.0
    """Control at action 0; or by regular expressions, 0 for joints that match none."""
    preserve_order: bool = False
    """Whether the action has the joints in the order of ``joint_names``, not in the model's."""

    def build(self, env: VectorEnv) -> JointAction:
        return JointAction(self, env)


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
        joints = DrivenJoints(self, env)
        offset = env.default_qpos[:, joints.qpos_ids] if self.use_default_offset else None
        return JointAction(self, env, joints, offset, is_biased=True)


class DrivenJoints:
    """The joints of an action and their actuators.

    Attributes:
        names: The joints, in the order of the action.
        actuators: Columns of ``ctrl``, in the same order.
        qpos_ids: Columns of ``qpos`` of hinges and slides, in the same order.
    """

    def __init__(self, cfg: Any, env: VectorEnv, *, of_asset: bool = False) -> None:
        """Look up the ``joint_names`` of ``cfg``.

        Args:
            cfg: An action's configuration; with ``preserve_order`` the names' order counts.
            env: The environment.
            of_asset: Whether only joints of ``cfg.asset_name`` are meant, as always if that is a
                thing of a composed scene.
        """
        model, names = env.sim.model, cfg.joint_names
        in_order = getattr(cfg, "preserve_order", False)
        if of_asset or cfg.asset_name in prefixes_of(model):
            entity = resolve_entity(SceneEntityCfg(cfg.asset_name, names), model, env.device)
            patterns = [names] if in_order and isinstance(names, str) else names
            names = entity.joint_names
            if in_order:
                names = sorted(names, key=lambda name: _place(name, patterns))
            names, in_order = [re.escape(name) for name in names], True
        self.actuators = joint_actuators(model, names, preserve_order=in_order)
        ids = [int(model.actuator_trnid[i, 0]) for i in self.actuators]
        self.names = [model.joint(i).name for i in ids]
        self.qpos_ids = as_index([int(model.jnt_qposadr[i]) for i in ids], model.nq, env.device)


def _place(name: str, patterns: Sequence[str]) -> int:
    """Return the place of the first pattern that matches a name."""
    return next(i for i, pattern in enumerate(patterns) if matching(pattern, [name]))


class AffineAction(ActionTerm):
    """Writes ``clip(action * scale + offset)`` to actuators."""

    def __init__(
        self,
        cfg: Any,
        env: VectorEnv,
        actuators: list[int],
        names: Sequence[str],
        offset: torch.Tensor | None = None,
        kind: str = "joint",
    ) -> None:
        """Look up scale, offset and bounds.

        Args:
            cfg: The configuration.
            env: The environment.
            actuators: Columns of ``ctrl``, in the order of the action.
            names: What they drive.
            offset: Controls at action 0, ``(1, dim)``; None: those of ``cfg``.
            kind: The kind of part that the names belong to, for errors.
        """
        self.dim = len(actuators)
        self._ctrl = env.sim.ctrl
        self._ids = torch.tensor(actuators, device=env.device)
        self._covers_all = actuators == list(range(env.sim.model.nu))
        self._scale = by_name(cfg.scale, names, env.device, kind=kind)
        self._clip = Bounds(cfg.clip, names, env.device, kind=kind)
        self._offset: torch.Tensor | float | None = offset
        if offset is None and cfg.offset != 0.0:
            self._offset = by_name(cfg.offset, names, env.device, default=0.0, kind=kind)

    def apply(self, actions: torch.Tensor) -> None:
        controls = torch.mul(actions, self._scale, out=self._ctrl if self._covers_all else None)
        if self._offset is not None:
            controls += self._offset
        self._clip.apply(controls)
        self._correct(controls)
        if not self._covers_all:
            self._ctrl.index_copy_(1, self._ids, controls)

    def _correct(self, controls: torch.Tensor) -> None:
        """Change the controls in place before they are written."""


class JointAction(AffineAction):
    """The term of a :class:`JointActionCfg`."""

    def __init__(
        self,
        cfg: JointActionCfg,
        env: VectorEnv,
        joints: DrivenJoints | None = None,
        offset: torch.Tensor | None = None,
        *,
        is_biased: bool = False,
    ) -> None:
        """Find the actuators.

        Args:
            cfg: The configuration.
            env: The environment.
            joints: The joints; None: those that ``cfg`` names.
            offset: Controls at action 0, ``(1, dim)``; None: those of ``cfg``.
            is_biased: Whether errors of the joints' encoders count, if the environment has some.
        """
        self.joints = joints or DrivenJoints(cfg, env)
        super().__init__(cfg, env, self.joints.actuators, self.joints.names, offset)
        self._env, self._is_biased = env, is_biased

    def describe(self) -> dict[str, Any] | None:
        return described(self.joints.names, self._scale, self._offset, self._clip)

    def _correct(self, controls: torch.Tensor) -> None:
        bias: torch.Tensor | None = getattr(self._env, "encoder_bias", None)
        if bias is not None and self._is_biased:
            controls -= columns(bias, self.joints.qpos_ids)


def described(
    names: list[str],
    scale: torch.Tensor | float,
    offset: torch.Tensor | float | None,
    clip: Bounds,
) -> dict[str, Any]:
    """Return what :meth:`ActionTerm.describe` does for ``clip(action * scale + offset)``."""
    settings = {"scale": scale, "offset": 0.0 if offset is None else offset}
    lists = {
        name: torch.as_tensor(value, device="cpu").flatten().expand(len(names)).tolist()
        for name, value in settings.items()
    }
    return {"joint_names": list(names), **lists, "clip": clip.describe()}


@dataclass(kw_only=True)
class RelativeJointPositionActionCfg(JointActionCfg):
    """``target = position + scale * action + offset`` for joints with position actuators."""

    each_substep: bool = False
    """Whether the position is that of each physics step, as in Isaac Lab, instead of the control
    step's beginning, as in MuJoCo Playground."""

    def build(self, env: VectorEnv) -> JointAction:
        return RelativeJointPositionAction(self, env)


class RelativeJointPositionAction(JointAction):
    """The term of a :class:`RelativeJointPositionActionCfg`."""

    def __init__(self, cfg: RelativeJointPositionActionCfg, env: VectorEnv) -> None:
        super().__init__(cfg, env, DrivenJoints(cfg, env, of_asset=True))
        self._sim = env.sim
        self.control_each_substep = cfg.each_substep

    def describe(self) -> dict[str, Any] | None:  # a control step's targets are not constant
        return None if self.control_each_substep else super().describe()

    def apply(self, actions: torch.Tensor) -> None:
        self._changes = actions * self._scale
        if self._offset is not None:
            self._changes = self._changes + self._offset
        if not self.control_each_substep:
            self.control()

    def control(self) -> None:
        targets = columns(self._sim.data.qpos, self.joints.qpos_ids) + self._changes
        self._clip.apply(targets)
        self._sim.ctrl.index_copy_(1, self._ids, targets)


@dataclass(kw_only=True)
class TendonActionCfg(ActionTermCfg):
    """``ctrl = action * scale + offset`` for the named tendons' actuators."""

    tendon_names: str | list[str]
    """Tendons; regular expressions."""
    scale: float | dict[str, float] = 1.0
    """Control per unit of action; or one for each tendon, by regular expressions."""
    offset: float | dict[str, float] = 0.0
    """Control at action 0; or by regular expressions, 0 for tendons that match none."""
    preserve_order: bool = False
    """Whether the action has the tendons in the order of ``tendon_names``, not in the model's."""

    def build(self, env: VectorEnv) -> AffineAction:
        return _build("tendon", self.tendon_names, self, env)


@dataclass(kw_only=True)
class TendonLengthActionCfg(TendonActionCfg):
    """For position actuators of tendons: controls are target lengths in m."""


@dataclass(kw_only=True)
class TendonVelocityActionCfg(TendonActionCfg):
    """For velocity actuators of tendons: controls are target velocities in m/s."""


@dataclass(kw_only=True)
class TendonEffortActionCfg(TendonActionCfg):
    """For motor actuators of tendons: controls are forces in N."""


@dataclass(kw_only=True)
class SiteEffortActionCfg(ActionTermCfg):
    """For motor actuators of sites, such as rotors: controls are forces in N or torques in N m."""

    site_names: str | list[str]
    """Sites, each with one actuator; regular expressions."""
    scale: float | dict[str, float] = 1.0
    """Control per unit of action; or one for each site, by regular expressions."""
    offset: float | dict[str, float] = 0.0
    """Control at action 0; or by regular expressions, 0 for sites that match none."""
    preserve_order: bool = False
    """Whether the action has the sites in the order of ``site_names``, not in the model's."""

    def build(self, env: VectorEnv) -> AffineAction:
        return _build("site", self.site_names, self, env)


def _build(kind: str, names: str | list[str], cfg: Any, env: VectorEnv) -> AffineAction:
    model = env.sim.model
    actuators = actuators_of(
        kind, model, names, preserve_order=cfg.preserve_order, thing=cfg.asset_name
    )
    driven = [getattr(model, kind)(int(model.actuator_trnid[i, 0])).name for i in actuators]
    return AffineAction(cfg, env, actuators, driven, kind=kind)
