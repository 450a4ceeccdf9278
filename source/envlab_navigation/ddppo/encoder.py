"""Encoders of images: a small stack of convolutions, and residual networks, also pretrained."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import nn

from envlab.errors import ConfigurationError

KERNELS, STRIDES = (8, 4, 3), (4, 2, 1)
"""Those of the Nature network (Mnih et al. 2015), which Habitat and AllenAct call SimpleCNN."""
_IMAGENET_MEAN = (0.485, 0.456, 0.406)
_IMAGENET_STD = (0.229, 0.224, 0.225)
"""Statistics of the images that torchvision's weights were trained on."""


class SimpleCNN(nn.Module):
    """Three convolutions and a linear layer, for images ``(batch, channels, height, width)``."""

    def __init__(self, shape: tuple[int, int, int], channels: Sequence[int], dim: int) -> None:
        """Make the layers; kernels are cut to the size of smaller images.

        Args:
            shape: Shape of an image: channels, height, width.
            channels: Output channels of the convolutions.
            dim: Size of the result.
        """
        super().__init__()
        before, *size = shape
        layers: list[nn.Module] = []
        for after, kernel, stride in zip(channels, KERNELS, STRIDES, strict=True):
            kernels = (min(kernel, size[0]), min(kernel, size[1]))
            layers += [nn.Conv2d(before, after, kernels, stride), nn.ReLU()]
            size = [
                (side - kernel) // stride + 1 for side, kernel in zip(size, kernels, strict=True)
            ]
            before = after
        layers += [nn.Flatten(), nn.Linear(before * math.prod(size), dim), nn.ReLU()]
        self.layers = nn.Sequential(*layers)
        self.dim = dim
        for layer in self.layers:
            if isinstance(layer, nn.Conv2d | nn.Linear):
                nn.init.orthogonal_(layer.weight, math.sqrt(2.0))
                nn.init.zeros_(layer.bias)  # type: ignore[arg-type]

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(images)  # type: ignore[no-any-return]


Norm = Callable[[int], nn.Module]
"""Makes a normalisation for a number of planes."""


def _group_norm(planes: int) -> nn.Module:
    return nn.GroupNorm(max(planes // 16, 1), planes)


class _Block(nn.Module):
    """Two convolutions and the shortcut around them (He et al. 2016), by torchvision's names."""

    def __init__(self, before: int, after: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = norm(after)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = norm(after)
        self.downsample: nn.Module | None = None
        if stride > 1 or before != after:
            shortcut = nn.Conv2d(before, after, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, norm(after))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        around = images if self.downsample is None else self.downsample(images)
        inner = self.relu(self.bn1(self.conv1(images)))
        return self.relu(self.bn2(self.conv2(inner)) + around)  # type: ignore[no-any-return]


class ResNet18(nn.Module):
    """ResNet-18 without its classifier, by torchvision's names of parameters.

    Trained from scratch it has group normalisation and 32 planes, as Habitat's: statistics of a
    batch would be those of one rank. With torchvision's weights it has batch normalisation with
    fixed statistics.
    """

    def __init__(self, in_channels: int, planes: int = 32, *, is_pretrained: bool = False) -> None:
        super().__init__()
        norm: Norm = nn.BatchNorm2d if is_pretrained else _group_norm
        self.conv1 = nn.Conv2d(in_channels, planes, 7, 2, 3, bias=False)
        self.bn1 = norm(planes)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        before = planes
        for number in range(4):
            after, stride = planes * 2**number, 1 if number == 0 else 2
            blocks = [_Block(before, after, stride, norm), _Block(after, after, 1, norm)]
            self.add_module(f"layer{number + 1}", nn.Sequential(*blocks))
            before = after
        self.out_channels = before

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return a map of features, ``(batch, out_channels, height / 32, width / 32)``."""
        images = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        return self.layer4(self.layer3(self.layer2(self.layer1(images))))  # type: ignore[operator,no-any-return]


class PooledResNet18(nn.Module):
    """ResNet-18 that is trained with the agent, and a linear layer on the mean of its map."""

    def __init__(self, shape: tuple[int, int, int], dim: int) -> None:
        super().__init__()
        self.net = ResNet18(shape[0])
        self.linear = nn.Linear(self.net.out_channels, dim)
        self.dim = dim

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(self.net(images).mean(dim=(2, 3))))


class FrozenResNet18(nn.Module):
    """ResNet-18 with fixed weights from a file: used once a step, not again in each update."""

    def __init__(self, path: Path) -> None:
        """Load torchvision's weights, ``resnet18-….pth``.

        Raises:
            ConfigurationError: If there is no such file, or it holds something else.
        """
        super().__init__()
        self.net = ResNet18(3, 64, is_pretrained=True)
        weights = _read_weights(path)
        weights = {name: value for name, value in weights.items() if not name.startswith("fc.")}
        try:
            self.net.load_state_dict(weights)
        except RuntimeError as error:
            reason = str(error).splitlines()[1].strip()
            raise ConfigurationError(
                f"agent.model.pretrained is {str(path)!r}, but its contents are not torchvision's "
                f"ResNet-18 ({reason}). Give the file resnet18-f37072fd.pth."
            ) from None
        self.requires_grad_(False)
        self.mean = nn.Buffer(torch.tensor(_IMAGENET_MEAN).view(3, 1, 1), persistent=False)
        self.std = nn.Buffer(torch.tensor(_IMAGENET_STD).view(3, 1, 1), persistent=False)

    def train(self, mode: bool = True) -> FrozenResNet18:
        """Stay in evaluation mode, so that the file's statistics are kept."""
        return super().train(False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return ``(batch, 512, height, width)`` for images from 0 to 1, ``(batch, 3, ...)``."""
        return self.net((images - self.mean) / self.std)  # type: ignore[no-any-return]


class Compressor(nn.Module):
    """AllenAct's way from a map of features to a vector: 1x1 convolutions to 128 and 32 planes."""

    def __init__(self, shape: tuple[int, int, int]) -> None:
        super().__init__()
        channels, height, width = shape
        self.layers = nn.Sequential(
            *(nn.Conv2d(channels, 128, 1), nn.ReLU(), nn.Conv2d(128, 32, 1), nn.ReLU()),
            nn.Flatten(),
        )
        self.dim = 32 * height * width

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.layers(features)  # type: ignore[no-any-return]


def _read_weights(path: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of a file, without running code from it."""
    try:
        weights = torch.load(path.expanduser(), map_location="cpu", weights_only=True)
    except OSError as error:
        raise ConfigurationError(
            f"agent.model.pretrained is {str(path)!r}, which cannot be read "
            f"({error.strerror or error}). Give a file with torchvision's weights of ResNet-18."
        ) from None
    except Exception as error:  # torch's own errors, of many types
        raise ConfigurationError(
            f"agent.model.pretrained is {str(path)!r}, which is not a file of weights "
            f"({type(error).__name__}). Give one with torchvision's weights of ResNet-18."
        ) from None
    if not isinstance(weights, dict) or not all(
        isinstance(value, torch.Tensor) for value in weights.values()
    ):
        raise ConfigurationError(
            f"agent.model.pretrained is {str(path)!r}, but does not hold a dictionary of tensors. "
            "Give a file with torchvision's weights of ResNet-18."
        )
    return weights
