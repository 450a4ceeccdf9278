"""Actions on the actuators of tendons and sites, as mjlab's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from envlab.envs.entities import actuators_of
from envlab.envs.managers.action import ActionTermCfg
from envlab.envs.mdp.actions import AffineAction

if TYPE_CHECKING:
    from envlab.envs.vector_env import VectorEnv


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
