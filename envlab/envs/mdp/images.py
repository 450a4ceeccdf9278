"""Observation terms of cameras; each returns ``(num_envs, height, width, channels)``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from envlab.errors import ConfigurationError

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv

_TYPES = ("depth", "distance_to_image_plane", "distance_to_camera")


def image(
    env: ManagerEnv,
    sensor_cfg: Any,
    data_type: str = "distance_to_image_plane",
    normalize: bool = True,
) -> torch.Tensor:
    """Return the images of a depth camera, one channel for each in its history.

    Args:
        env: The environment.
        sensor_cfg: The camera: a :class:`SceneEntityCfg` of the sensor's name.
        data_type: ``distance_to_image_plane``, which is ``depth``, or ``distance_to_camera``.
        normalize: Whether the far end of its range is 1; else values are in m. (Isaac Lab's
            normalises only colours.)

    Raises:
        ConfigurationError: For another data type.
    """
    if data_type not in _TYPES:
        raise ConfigurationError(
            f"An image's data_type is {data_type!r}, but must be one of {', '.join(_TYPES)}."
        )
    values: torch.Tensor = sensor_cfg.image(data_type)
    return values / sensor_cfg.cfg.clipping_range[1] if normalize else values
