"""ObjectNav: Batra et al., "ObjectNav Revisited" (2020), with RoboTHOR's twelve classes.

Actions, rewards and the limit of 500 steps are those of AllenAct's RoboTHOR baselines. An ``End``
succeeds within 1.0 m of a place with a free line to the object, if the agent sees it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from envlab.envs import default
from envlab_navigation.nav_cfg import ACTIONS, Action, HousesCfg, ImageKind, NavEnvCfg, NavSceneCfg


@dataclass(kw_only=True)
class ObjectNavDepthEnvCfg(NavEnvCfg):
    """Seen as distances, with a mask of the goal's class as a perfect segmentation would give."""

    goal: Literal["point", "object"] = "object"
    images: list[ImageKind] = field(default_factory=lambda: ["depth", "goal_mask"])
    actions: list[Action] = field(default_factory=lambda: list(ACTIONS))


@dataclass(kw_only=True)
class ObjectNavDepthPlayEnvCfg(ObjectNavDepthEnvCfg):
    """In houses that are not used in training."""

    houses: HousesCfg = default(HousesCfg(split="val", num_houses=100))
    scene: NavSceneCfg = default(NavSceneCfg(num_envs=16))


@dataclass(kw_only=True)
class ObjectNavRGBEnvCfg(ObjectNavDepthEnvCfg):
    """Seen in colour, as AllenAct's agents see RoboTHOR: without their position."""

    images: list[ImageKind] = field(default_factory=lambda: ["rgb"])
    gps_compass: bool = False


@dataclass(kw_only=True)
class ObjectNavRGBPlayEnvCfg(ObjectNavRGBEnvCfg):
    """In houses that are not used in training."""

    houses: HousesCfg = default(HousesCfg(split="val", num_houses=100))
    scene: NavSceneCfg = default(NavSceneCfg(num_envs=16))
