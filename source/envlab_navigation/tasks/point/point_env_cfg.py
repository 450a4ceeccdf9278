"""PointNav: Anderson et al., "On Evaluation of Embodied Navigation Agents" (2018).

An agent observes the distance and direction of its goal, and takes ``End`` when it has arrived:
within 0.36 m, twice its radius, as in the Habitat Challenge 2020. Its steps and turns are those of
AllenAct.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import default
from envlab_navigation.nav_cfg import HousesCfg, ImageKind, NavEnvCfg, NavSceneCfg


@dataclass(kw_only=True)
class PointNavDepthEnvCfg(NavEnvCfg):
    """Seen as distances."""


@dataclass(kw_only=True)
class PointNavDepthPlayEnvCfg(PointNavDepthEnvCfg):
    """In houses that are not used in training."""

    houses: HousesCfg = default(HousesCfg(split="val", num_houses=100))
    scene: NavSceneCfg = default(NavSceneCfg(num_envs=16))


@dataclass(kw_only=True)
class PointNavRGBEnvCfg(NavEnvCfg):
    """Seen in colour."""

    images: list[ImageKind] = field(default_factory=lambda: ["rgb"])


@dataclass(kw_only=True)
class PointNavRGBPlayEnvCfg(PointNavRGBEnvCfg):
    """In houses that are not used in training."""

    houses: HousesCfg = default(HousesCfg(split="val", num_houses=100))
    scene: NavSceneCfg = default(NavSceneCfg(num_envs=16))
