"""A base that drives forward and turns, on two slides and a hinge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from envlab.envs.entities import SceneEntityCfg, actuators_of, resolve_entity
from envlab.envs.managers.action import ActionTerm, ActionTermCfg
from envlab.envs.math import yaw_from_quat
from envlab.envs.mdp.controls import Bounds
from envlab.errors import ConfigurationError

if TYPE_CHECKING:
    from envlab.envs.vector_env import VectorEnv


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
