"""The shape of a member's networks as plain data, and the ways in which evolution changes it.

A mutation is decided as data, on one process; :mod:`.networks` applies it to weights.
The sizes and odds are AgileRL's (0.1.13, ``agilerl/networks/evolvable_mlp.py`` and
``evolvable_cnn.py``).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np

from envlab.config import LayerSize, PositiveInt, Range
from envlab.errors import ConfigurationError

ACTIVATIONS = ("relu", "elu", "gelu", "tanh")
"""Activations that networks may start with."""
EVOLVING_ACTIVATIONS = ("relu", "elu", "gelu")
"""Activations that a mutation chooses among."""
UNITS_STEPS = (16, 32, 64)
"""Numbers of units that a mutation adds to, or removes from, a layer."""
CHANNELS_STEPS = (8, 16, 32)
"""The same for a convolution's channels."""
KERNELS = (3, 5, 7)
"""Sizes of kernels that a mutation steps between; odd, so that padding keeps them centred."""

KERNEL_PROB, CHANNELS_PROB = 0.2, 0.45
"""For networks of images: odds of mutations of kernels and channels; else units change."""

OddInt = Annotated[int, Range(at_least=1)]


@dataclass(kw_only=True)
class NetworkCfg:
    """The initial shape of all networks of a member, and the bounds of its evolution."""

    hidden_dims: list[LayerSize] = field(default_factory=lambda: [64, 64])
    """Units of the hidden layers."""
    activation: Literal["relu", "elu", "gelu", "tanh"] = "relu"
    """Activation function of all layers except the last."""
    layer_norm: bool = False
    """Whether the hidden layers normalise their outputs, before the activation function."""
    orthogonal: bool = False
    """Whether weights start orthogonal with a gain of sqrt(2), a tenth of that in the last layer,
    and biases at zero, as in AgileRL 2; else as torch's layers do."""
    channels: list[LayerSize] = field(default_factory=lambda: [32, 64])
    """Channels of the convolutions; read for images only."""
    kernel_sizes: list[OddInt] = field(default_factory=lambda: [5, 3])
    """Sizes of their kernels, odd; padding is half the size."""
    strides: list[PositiveInt] = field(default_factory=lambda: [3, 2])
    """Their strides; convolutions that evolution adds have 1."""
    min_layers: PositiveInt = 1
    """Fewest hidden layers, and fewest convolutions."""
    max_layers: PositiveInt = 3
    """Most hidden layers, and most convolutions."""
    min_units: PositiveInt = 32
    """Fewest units of a layer that evolution leaves."""
    max_units: PositiveInt = 500
    """Most units of a layer."""
    min_channels: PositiveInt = 16
    """Fewest channels of a convolution that evolution leaves."""
    max_channels: PositiveInt = 256
    """Most channels of a convolution."""

    def architecture(self, *, image: bool) -> Architecture:
        """Return the initial shape of members.

        Raises:
            ConfigurationError: If it lies outside the bounds, or its convolutions make no sense.
        """
        for name, bound in (("hidden_dims", "units"), *((("channels", "channels"),) * image)):
            sizes = getattr(self, name)
            _check(f"The number of layers in agent.network.{name}", len(sizes), self, "layers")
            for size in sizes:
                _check(f"A size in agent.network.{name}", size, self, bound, only_above=True)
        shape: dict[str, Any] = {"hidden": tuple(self.hidden_dims)}
        shape |= {name: getattr(self, name) for name in ("activation", "layer_norm", "orthogonal")}
        if not image:
            return Architecture(**shape)
        parts = {"channels": self.channels, "kernels": self.kernel_sizes, "strides": self.strides}
        even = [size for size in self.kernel_sizes if size % 2 == 0]
        if len(set(map(len, parts.values()))) > 1 or even:
            problem = f"kernel_sizes has {even[0]}" if even else "they differ in length"
            raise ConfigurationError(
                f"agent.network.channels, kernel_sizes and strides are {self.channels}, "
                f"{self.kernel_sizes} and {self.strides}, but {problem}. Give one number of each "
                "for every convolution, and odd sizes of kernels."
            )
        convolutions: dict[str, Any] = {name: tuple(sizes) for name, sizes in parts.items()}
        return Architecture(**shape, **convolutions)


def _check(what: str, value: int, cfg: NetworkCfg, bound: str, only_above: bool = False) -> None:
    low, high = getattr(cfg, f"min_{bound}"), getattr(cfg, f"max_{bound}")
    if low > high:
        raise ConfigurationError(
            f"agent.network.min_{bound} is {low}, which is more than agent.network.max_{bound}, "
            f"{high}. Swap them."
        )
    # A layer may start narrower than evolution would make it: a user may want small networks.
    if value > high or (value < low and not only_above):
        side, limit = ("max", high) if value > high else ("min", low)
        raise ConfigurationError(
            f"{what} is {value}, but agent.network.{side}_{bound} is {limit}. Change one of them."
        )


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """Convolutions, for images only, then hidden layers, then the output."""

    hidden: tuple[int, ...]
    """Units by hidden layer."""
    activation: str
    """One of :data:`ACTIVATIONS`."""
    layer_norm: bool = False
    """Whether hidden layers normalise their outputs."""
    orthogonal: bool = False
    """Whether weights start orthogonal."""
    channels: tuple[int, ...] = ()
    """Channels by convolution."""
    kernels: tuple[int, ...] = ()
    """Sizes of their kernels."""
    strides: tuple[int, ...] = ()
    """Their strides."""

    def __str__(self) -> str:
        """Return a short text such as ``c32-64 64-64 norm relu``."""
        convolutions = f"c{'-'.join(map(str, self.channels))} " if self.channels else ""
        norm = "norm " if self.layer_norm else ""
        return f"{convolutions}{'-'.join(map(str, self.hidden))} {norm}{self.activation}"

    def mutated(
        self, bounds: NetworkCfg, new_layer_prob: float, rng: np.random.Generator
    ) -> tuple[Architecture, str]:
        """Return another shape within the bounds, and a description of the change.

        With ``new_layer_prob`` a layer comes or goes; otherwise a layer becomes wider or narrower,
        or for images, a kernel larger or smaller. A forbidden change becomes a change of width.
        """
        is_layer, grows = rng.random() < new_layer_prob, rng.random() < 0.5
        share = 0.5 if is_layer else KERNEL_PROB + CHANNELS_PROB
        on_convolutions = bool(self.channels) and rng.random() < share
        changed = self._with_layer(on_convolutions, grows, bounds) if is_layer else None
        if changed is not None:
            return changed
        if on_convolutions and not is_layer and rng.random() < KERNEL_PROB / share:
            return self._with_kernel(grows, rng)
        return self._with_width(on_convolutions, grows, bounds, rng)

    def _with_layer(
        self, convolution: bool, grows: bool, bounds: NetworkCfg
    ) -> tuple[Architecture, str] | None:
        sizes = self.channels if convolution else self.hidden
        count = len(sizes) + (1 if grows else -1)
        if not bounds.min_layers <= count <= bounds.max_layers:
            return None
        text = f"{'add' if grows else 'remove'} {'convolution' if convolution else 'layer'}"
        sizes = (*sizes, sizes[-1]) if grows else sizes[:-1]
        if not convolution:
            return dataclasses.replace(self, hidden=sizes), text
        kernels = (*self.kernels, KERNELS[0]) if grows else self.kernels[:-1]
        strides = (*self.strides, 1) if grows else self.strides[:-1]
        changed = dataclasses.replace(self, channels=sizes, kernels=kernels, strides=strides)
        return changed, text

    def _with_kernel(self, grows: bool, rng: np.random.Generator) -> tuple[Architecture, str]:
        index, step = int(rng.integers(len(self.kernels))), 2 if grows else -2
        old = self.kernels[index]
        new = old + step if KERNELS[0] <= old + step <= KERNELS[-1] else old - step
        kernels = (*self.kernels[:index], new, *self.kernels[index + 1 :])
        return dataclasses.replace(self, kernels=kernels), f"kernel {old} to {new}"

    def _with_width(
        self, convolution: bool, grows: bool, bounds: NetworkCfg, rng: np.random.Generator
    ) -> tuple[Architecture, str]:
        name, unit = ("channels", "channels") if convolution else ("hidden", "units")
        sizes = getattr(self, name)
        low, high = (getattr(bounds, f"{end}_{unit}") for end in ("min", "max"))
        index = int(rng.integers(len(sizes)))
        step = int(rng.choice(CHANNELS_STEPS if convolution else UNITS_STEPS))
        old = sizes[index]
        for sign in (1, -1) if grows else (-1, 1):
            new = max(min(old, low), min(old + sign * step, high))
            if new != old:
                break
        changed: dict[str, Any] = {name: (*sizes[:index], new, *sizes[index + 1 :])}
        return dataclasses.replace(self, **changed), f"{unit} {old} to {new}"
