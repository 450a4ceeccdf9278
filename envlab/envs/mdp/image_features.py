"""Features of a camera's images from a trained network, as an observation."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import torch

from envlab.envs.managers.function_term import FunctionTermCfg, ManagerTermBase
from envlab.envs.model_files import load_network
from envlab.errors import ConfigurationError

if TYPE_CHECKING:
    from envlab.envs.camera import DataType
    from envlab.envs.manager_env import ManagerEnv

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
