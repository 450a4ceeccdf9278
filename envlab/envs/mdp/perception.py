"""What a robot sees: scans of the ground's heights, images of cameras, and features of these."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import torch

from envlab.envs.entities import SceneEntity
from envlab.envs.managers.function_term import FunctionTermCfg, ManagerTermBase
from envlab.envs.math import heading
from envlab.envs.model_files import load_network
from envlab.envs.ray_caster import RayCaster, RayCasterCfg
from envlab.envs.ray_sensor import RayCastSensor
from envlab.errors import ConfigurationError

if TYPE_CHECKING:
    from envlab.envs.camera import DataType
    from envlab.envs.manager_env import ManagerEnv


def height_scan(
    env: ManagerEnv, sensor_cfg: RayCaster | RayCastSensor, offset: float = 0.5
) -> torch.Tensor:
    """Return the robot's height above the ground at each point, less ``offset``, in m.

    Args:
        env: The environment.
        sensor_cfg: A :class:`RayCasterCfg` of ``env.sensors``, or a :class:`RayCastSensorCfg`.
        offset: Height that counts as zero, in m.

    Returns:
        ``(num_envs, num_rays)``.
    """
    return sensor_cfg.clearances(offset)


def ground_normal(env: ManagerEnv, sensor_cfg: RayCaster) -> torch.Tensor:
    """Return the upward unit normal, world frame, of the plane that fits the ground best.

    It is a least-squares fit to the heights at the points, whose grid must have a width along x and
    y. On a plane the normal is vertical.

    Args:
        env: The environment.
        sensor_cfg: The points: a :class:`RayCasterCfg` of ``env.sensors``.

    Returns:
        ``(num_envs, 3)``.
    """
    if env.terrain is None:
        return torch.eye(3, device=env.device)[2].expand(env.num_envs, 3)
    heights, (cos, sin) = sensor_cfg.ground_heights, heading(sensor_cfg.quat_w.unsqueeze(1))
    rise_x, rise_y = (
        (heights * w).sum(dim=1, keepdim=True) for w in _slope_weights(env, sensor_cfg.cfg)
    )
    normal = torch.cat(
        (sin * rise_y - cos * rise_x, -sin * rise_x - cos * rise_y, torch.ones_like(cos)), dim=1
    )
    return normal / torch.linalg.vector_norm(normal, dim=1, keepdim=True)


def _slope_weights(env: ManagerEnv, cfg: RayCasterCfg) -> torch.Tensor:
    """Return the weights of heights at the points for the slopes along x and y."""
    pattern = cfg.pattern_cfg
    key = ("ground_normal", *pattern.size, pattern.resolution)
    if key not in env.constants:
        points = pattern.points()
        centred = points - points.mean(dim=1, keepdim=True)
        env.constants[key] = torch.linalg.solve(centred @ centred.T, centred).to(env.device)
    return env.constants[key]


def image(
    env: ManagerEnv,
    sensor_cfg: Any,
    data_type: DataType | None = None,
    normalize: bool = True,
) -> torch.Tensor:
    """Return the images of a camera, those of its history in the last channels.

    Args:
        env: The environment.
        sensor_cfg: The camera: a :class:`SceneEntityCfg` of the sensor's name.
        data_type: One of the camera's; null: its first.
        normalize: Whether colours are from 0 to 1, less the image's mean of each channel, as in
            Isaac Lab, normals' columns from 0 to 1, and depths in units of the far end of their
            range (there in m). Else colours are from 0 to 255, and depths in m. A segmentation
            holds geoms' indices; -1: nothing.

    Returns:
        Float32 ``(num_envs, height, width, channels)``.

    Raises:
        ConfigurationError: If the camera does not make this type.
    """
    values: torch.Tensor = sensor_cfg.image(data_type)
    if not normalize or values.dtype == torch.int32:
        return values.float()
    if values.dtype == torch.uint8:
        colours = values / 255.0
        return colours - colours.mean(dim=(1, 2), keepdim=True)
    if (data_type or sensor_cfg.cfg.data_types[0]) == "normals":
        return 0.5 * (values + 1.0)
    return values / sensor_cfg.cfg.clipping_range[1]


def segmentation_mask(env: ManagerEnv, sensor_cfg: Any, asset_cfg: SceneEntity) -> torch.Tensor:
    """Return 1 where a camera sees a thing, else 0, those of its history in the last channels.

    Args:
        env: The environment.
        sensor_cfg: A camera with ``segmentation`` among its ``data_types``.
        asset_cfg: The thing, or geoms of it by ``geom_names``.

    Returns:
        Float32 ``(num_envs, height, width, channels)``.

    Raises:
        ConfigurationError: If the camera makes no segmentation.
    """
    seen: torch.Tensor = sensor_cfg.image("segmentation")
    if "is_seen" not in asset_cfg.kept:
        # The last row is that of pixels that see nothing, -1.
        is_seen = torch.zeros(env.sim.model.ngeom + 1, device=env.device)
        is_seen[asset_cfg.geom_ids] = 1.0
        is_seen[-1] = 0.0
        asset_cfg.kept["is_seen"] = is_seen
    return asset_cfg.kept["is_seen"][seen.long()]


RESNETS = {
    name: f"ResNet{name[6:]}_Weights.IMAGENET1K_V1"
    for name in ("resnet18", "resnet34", "resnet50", "resnet101")
}
"""torchvision's networks, and the weights that it downloads for them; as in Isaac Lab 2.3.2."""
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Statistics of the images that torchvision's weights were trained on."""


class image_features(ManagerTermBase):
    """Features of a camera's images from a trained network, whose weights stay fixed.

    It is like Isaac Lab's, except that other networks are files of TorchScript. ``model_name`` is
    one of torchvision's :data:`RESNETS`, which needs that package and, for the first use, a
    connection, or the path of a TorchScript file, ``package:path`` for one in a package. A ResNet
    gets colours normalised for its weights and gives 1,000 values; a file gets colours from 0 to 1,
    or depths in m. Either gets ``(images, channels, height, width)``; images of a history are given
    one by one, and what is made of them is joined.
    """

    def __init__(self, cfg: FunctionTermCfg, env: ManagerEnv) -> None:
        super().__init__(cfg, env)
        mean: tuple[float, ...]
        std: tuple[float, ...]
        name = cfg.params.get("model_name", "resnet18")
        if name in RESNETS:
            self._network, mean, std = _resnet(name).to(env.device), IMAGENET_MEAN, IMAGENET_STD
        else:
            others = f", or one of {', '.join(RESNETS)}"
            self._network = load_network(name, "model_name", env.device, others=others)
            mean, std = (0.0,), (1.0,)
        self._mean, self._std = (
            torch.tensor(values, device=env.device).view(-1, 1, 1) for values in (mean, std)
        )

    def __call__(
        self,
        env: ManagerEnv,
        sensor_cfg: Any,
        data_type: DataType | None = "rgb",
        model_name: str = "resnet18",
    ) -> torch.Tensor:
        """Return float32 ``(num_envs, k)``.

        Args:
            env: The environment.
            sensor_cfg: The camera.
            data_type: One of the camera's.
            model_name: The network.

        Raises:
            ConfigurationError: If the network takes no such images.
        """
        images: torch.Tensor = sensor_cfg.image(data_type)
        if images.dtype == torch.uint8:
            frames = images.unflatten(3, (-1, 3)).permute(0, 3, 4, 1, 2) / 255.0
            frames = (frames - self._mean) / self._std
        else:
            frames = images.permute(0, 3, 1, 2).unsqueeze(2).float()
        try:
            with torch.no_grad():
                features: torch.Tensor = self._network(frames.flatten(0, 1))
        except (RuntimeError, torch.jit.Error) as error:
            raise ConfigurationError(
                f"The network {model_name!r} does not take images of the shape "
                f"{tuple(frames.shape[2:])} ({str(error).strip().splitlines()[-1]:.120}). Change "
                "the camera's width and height, or the data_type."
            ) from error
        return features.reshape(len(images), -1)


def _resnet(name: str) -> torch.nn.Module:
    try:
        models = importlib.import_module("torchvision.models")
    except (ImportError, RuntimeError) as error:  # the latter if it is of another torch
        raise ConfigurationError(
            f"The network {name!r} is torchvision's, which cannot be used ({error}). Install the "
            "torchvision of your torch, or give model_name the path of a TorchScript file."
        ) from error
    network: torch.nn.Module = getattr(models, name)(weights=RESNETS[name]).eval()
    return network
