"""Conversion of a batch's observations and actions between Gymnasium's spaces and arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium import spaces

from envlab.errors import ConfigurationError

_TABLES = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


class Observations:
    """Conversion of an observation to a row of an array.

    An image (a ``Box`` of uint8 with three axes) keeps its shape, channels last; everything else is
    flattened, as ``gymnasium.spaces.flatten`` does: choices become one-hot, parts are joined.

    Attributes:
        space: The observation space.
        shape: Shape of a row.
        dtype: uint8 for an image, else float32.
    """

    def __init__(self, space: spaces.Space[Any]) -> None:
        """Examine a space.

        Raises:
            ConfigurationError: If its observations have no fixed size.
        """
        self.space = space
        self._is_box = isinstance(space, spaces.Box)
        shape = space.shape or ()
        self.is_image = self._is_box and space.dtype == np.uint8 and len(shape) == 3
        self._is_channels_first = self.is_image and shape[0] < shape[2]
        self._is_row = self._is_box and (
            len(shape) == 1 or (self.is_image and not self._is_channels_first)
        )
        if self.is_image:
            self.shape = (*shape[1:], shape[0]) if self._is_channels_first else tuple(shape)
            self.dtype: Any = np.uint8
            return
        flat = spaces.flatten_space(space) if space.is_np_flattenable else None
        if not isinstance(flat, spaces.Box):
            raise ConfigurationError(
                f"The environment's observations are {space}, which have no fixed size. Wrap the "
                "environment so that it observes a Box, and register that."
            )
        self.shape, self.dtype = (math.prod(flat.shape),), np.float32

    def write(self, row: np.ndarray, observation: Any) -> None:
        """Write an observation into a row."""
        if self._is_row:
            row[...] = observation
        elif self._is_channels_first:
            row[...] = np.moveaxis(observation, 0, -1)
        elif self._is_box:
            row[...] = np.reshape(observation, -1)
        else:
            row[...] = spaces.flatten(self.space, observation)


class Actions:
    """Conversion of a row of an array to an action.

    Attributes:
        num: Size of a row.
        dtype: float32 for numbers, int64 for choices.
        sizes: Options of each choice, counted from 0; empty for numbers.
        low: Lower bounds of numbers, float32 ``(num,)``.
        high: Upper bounds.
        kind: ``box``, ``discrete`` (one choice) or ``multidiscrete`` (several).
    """

    def __init__(self, space: spaces.Space[Any]) -> None:
        """Examine a space.

        Raises:
            ConfigurationError: If its actions are neither numbers nor choices.
        """
        self._space = space
        self.sizes: list[int] = []
        self.dtype: Any = np.float32
        self.low, self.high = (np.zeros(0, np.float32) for _ in range(2))
        if isinstance(space, spaces.Box):
            self.kind, self.num = "box", math.prod(space.shape)
            self.low, self.high = (
                bound.reshape(-1).astype(np.float32) for bound in (space.low, space.high)
            )
            return
        if not isinstance(space, _TABLES):
            raise ConfigurationError(
                f"The environment's actions are {space}, but must be a Box, Discrete, "
                "MultiDiscrete or MultiBinary. Wrap the environment, and register that."
            )
        if isinstance(space, spaces.Discrete):
            self.sizes = [int(space.n)]
        elif isinstance(space, spaces.MultiDiscrete):
            self.sizes = [int(size) for size in space.nvec.reshape(-1)]
        else:
            self.sizes = [2] * math.prod(space.shape)
        self.kind = "discrete" if isinstance(space, spaces.Discrete) else "multidiscrete"
        self.num, self.dtype = len(self.sizes), np.int64

    def draw(self, num: int) -> np.ndarray:
        """Return random actions within their bounds, ``(num, self.num)``."""
        generator = np.random.default_rng(0)
        if self.sizes:
            return generator.integers(0, self.sizes, (num, self.num))
        return np.clip(generator.standard_normal((num, self.num)), self.low, self.high)

    def read(self, row: np.ndarray) -> Any:
        """Return the action in a row, as a copy."""
        space = self._space
        if isinstance(space, spaces.Discrete):
            return int(row[0]) + int(space.start)
        shaped = row.reshape(space.shape or ()).astype(space.dtype)
        return shaped + space.start if isinstance(space, spaces.MultiDiscrete) else shaped
