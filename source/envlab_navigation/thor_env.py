"""AI2-THOR's scenes behind :class:`.nav_env.NavEnv`'s configuration and observations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from gymnasium.envs.registration import EnvSpec

from envlab.config import check_ranges
from envlab.envs.gym_bridge import GroupedGymEnv, GymEnvCfg, GymSceneCfg
from envlab.errors import ConfigurationError
from envlab_navigation import metrics
from envlab_navigation.furniture import TARGETS
from envlab_navigation.nav_cfg import HousesCfg, NavAugmentationCfg, NavEnvCfg
from envlab_navigation.thor import Setup, scenes_of

SPEC = EnvSpec(
    id="AI2-THOR-v0", entry_point="envlab_navigation.thor:ThorEnv", disable_env_checker=True
)


@dataclass(kw_only=True)
class _WorkersCfg(GymEnvCfg):
    """Settings of :class:`GymEnv`, and the source of episodes."""

    houses: HousesCfg = field(default_factory=HousesCfg)


class ThorNavEnv(GroupedGymEnv):
    """ObjectNav with a controller for each environment, in worker processes.

    Groups, actions, rewards and ``info["episodes"]`` are those of :class:`NavEnv`; ``policy`` has
    neither position nor compass. Episodes do not resume in the middle.
    """

    measures = metrics

    @property
    def place(self) -> str:  # type: ignore[override]
        """Description of the scenes."""
        return self.cfg.houses.source  # type: ignore[attr-defined,no-any-return]

    def __init__(self, cfg: NavEnvCfg, **kwargs: Any) -> None:
        """Start workers; their controllers start with the first reset.

        Args:
            cfg: The configuration; its goal is an object.
            **kwargs: Arguments of :class:`GymEnv`.

        Raises:
            ConfigurationError: For settings that these scenes cannot offer.
        """
        check_ranges(cfg, "env")
        self.nav_cfg = cfg
        workers = _WorkersCfg(
            kwargs={"setup": _setup(cfg)},
            max_episode_steps=cfg.max_episode_length,
            is_finite_horizon=cfg.is_finite_horizon,
            num_workers=cfg.thor.num_workers,
            worker_timeout_s=cfg.thor.worker_timeout_s,
            seed=cfg.seed,
            scene=GymSceneCfg(num_envs=cfg.scene.num_envs),
            nan_guard=cfg.nan_guard,
            houses=cfg.houses,
        )
        super().__init__(SPEC, workers, **kwargs)

    def policy_names(self) -> list[str]:
        """Return the names of the columns of the group ``policy``."""
        return [*(f"goal_is_{name}" for name in TARGETS), "tan_pitch"]

    def _tell(self, info: dict[str, Any]) -> None:
        if self._ended:
            rows = torch.tensor([row for row, _ in self._ended], device=self.device)
            info["episodes"] = {}
            for name in self._ended[0][1]:
                values = torch.zeros(self.num_envs, device=self.device)
                values[rows] = torch.tensor(
                    [measures[name] for _, measures in self._ended], device=self.device
                )
                is_number = name in ("goal", "end")
                info["episodes"][name] = values.long() if is_number else values


def _setup(cfg: NavEnvCfg) -> Setup:
    """Return the arguments of a configuration's environments.

    Raises:
        ConfigurationError: If AI2-THOR's scenes cannot offer it.
    """
    wrong = {
        f"env.goal={cfg.goal}": cfg.goal != "object",
        f"env.images={cfg.images}": not set(cfg.images) <= {"rgb", "depth"},
        "env.gps_compass=true": cfg.gps_compass,
        "env.houses.files": bool(cfg.houses.files),
        f"env.camera.headings_deg={cfg.camera.headings_deg}": cfg.camera.headings_deg != [0.0],
        "env.augmentation": cfg.augmentation != NavAugmentationCfg(),
        f"env.look_deg={cfg.look_deg:g}": cfg.look_deg != NavEnvCfg.look_deg,
    }
    for what, is_wrong in wrong.items():
        if is_wrong:
            raise ConfigurationError(
                f"env.backend=ai2thor cannot have {what}. It offers an object as the goal, the "
                "images rgb and depth of one camera as they are, no compass, looks of 30 degrees, "
                "and its own scenes: try Nav-ObjectNav-RGB-v0."
            )
    is_robothor = cfg.thor.world == "RoboTHOR"
    return Setup(
        scenes=scenes_of(cfg.thor.world, cfg.houses.split),
        targets=cfg.targets,
        all_targets=TARGETS,
        actions=cfg.actions,
        images=cfg.images,
        width=cfg.camera.width,
        height=cfg.camera.height,
        hfov_deg=cfg.camera.hfov_deg,
        step_m=cfg.step_m,
        turn_deg=cfg.turn_deg,
        start_range_m=cfg.start_range_m,
        rewards=vars(cfg.rewards),
        agent_mode="locobot" if is_robothor else "default",
        timeout_s=cfg.thor.controller_timeout_s,
    )
