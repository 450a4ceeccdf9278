"""envlab's tasks in LeRobot: ``lerobot-eval --env.type=envlab --env.task=Isaac-Ant-v0``.

LeRobot 0.6 imports every installed package whose name begins with ``lerobot_env_``, which makes
``envlab`` one of its types of environments. A repository of EnvHub refers to :func:`make_env`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import gymnasium
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.envs.configs import EnvConfig
from lerobot.utils.constants import ACTION, OBS_IMAGE, OBS_STATE

from envlab.envs.wrappers.lerobot import LeRobotVectorEnvWrapper
from envlab.registry import get_task, make

__all__ = ["EnvlabEnv", "make_env"]


@EnvConfig.register_subclass("envlab")
@dataclass
class EnvlabEnv(EnvConfig):
    """A task of envlab. Its features are those of the environment, which is made once to read them.

    Attributes:
        task: Its id, as shown by ``envlab list``.
        obs_type: ``state``, ``pixels`` or ``pixels_agent_pos``, as LeRobot's own environments.
        observation_height: Height of pictures.
        observation_width: Width of pictures.
        overrides: Changes of the task's configuration: ``["env.decimation=2"]``.
        device: ``cpu``, ``cuda`` or ``cuda:<index>`` of the simulation; null: a GPU, if any.
    """

    task: str | None = "Isaac-Ant-v0"
    obs_type: str = "state"
    observation_height: int = 240
    observation_width: int = 320
    overrides: list[str] = field(default_factory=list)
    device: str | None = None
    features: dict[str, PolicyFeature] = field(default_factory=dict)
    features_map: dict[str, str] = field(
        default_factory=lambda: {ACTION: ACTION, "agent_pos": OBS_STATE, "pixels": OBS_IMAGE}
    )

    def __post_init__(self) -> None:
        env = self._make(num_envs=1)
        try:
            self.fps = env.metadata["render_fps"]
            self.features = {
                ACTION: PolicyFeature(FeatureType.ACTION, env.single_action_space.shape or (1,)),
                **{
                    name: PolicyFeature(
                        FeatureType.VISUAL if name == "pixels" else FeatureType.STATE, space.shape
                    )
                    for name, space in env.observed.items()
                },
            }
        finally:
            env.close()

    @property
    def gym_kwargs(self) -> dict[str, Any]:
        """LeRobot's arguments of ``gymnasium.make``, which is not used here."""
        return {}

    def create_envs(
        self, n_envs: int, use_async_envs: bool = False
    ) -> dict[str, dict[int, gymnasium.vector.VectorEnv]]:
        """Make ``n_envs`` environments that are stepped together, whatever ``use_async_envs``."""
        return {self.type: {0: self._make(n_envs)}}

    def _make(self, num_envs: int) -> LeRobotVectorEnvWrapper:
        assert self.task is not None
        task = get_task(self.task)
        env = make(task.id, num_envs=num_envs, overrides=self.overrides, device=self.device)
        return LeRobotVectorEnvWrapper(
            env,
            task=task.id,
            task_description=task.description,
            obs_type=self.obs_type,  # type: ignore[arg-type]
            height=self.observation_height,
            width=self.observation_width,
        )


def make_env(
    n_envs: int = 1, use_async_envs: bool = False, cfg: EnvConfig | None = None, **settings: Any
) -> dict[str, dict[int, gymnasium.vector.VectorEnv]]:
    """Make the environments of a configuration, or of its fields given by name, for EnvHub.

    A repository's ``env.py`` may be ``make_env = functools.partial(lerobot_env_envlab.make_env,
    task="Isaac-Ant-v0")``.
    """
    chosen = cfg if isinstance(cfg, EnvlabEnv) else EnvlabEnv(**settings)
    return chosen.create_envs(n_envs, use_async_envs)
