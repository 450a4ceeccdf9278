"""From a program's observations to the inputs of members' networks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch.nn import functional

from envlab.errors import ConfigurationError
from envlab_populations.crew import CrewSpace


@dataclass(frozen=True)
class Seeing:
    """How observations of a space become flat rows of float32.

    Images, whose channels come first in AgileRL, are transposed; bytes are divided by 255; a choice
    becomes a row with a single 1.
    """

    space: spaces.Space[Any]
    """The environment's space."""
    inner: spaces.Box
    """The space that networks read: ``(height, width, channels)`` for images."""

    @classmethod
    def of(cls, space: spaces.Space[Any]) -> Seeing:
        """Return the conversion for a space.

        Raises:
            ConfigurationError: If members cannot observe it.
        """
        if isinstance(space, CrewSpace):
            return cls(space, space)
        if isinstance(space, spaces.Discrete):
            return cls(space, spaces.Box(0.0, 1.0, (int(space.n),), np.float32))
        if not isinstance(space, spaces.Box):
            raise ConfigurationError(
                f"Observations are {space}, but members take vectors, images or a single choice. "
                "Flatten them by gymnasium.wrappers.FlattenObservation."
            )
        shape = tuple(space.shape) or (1,)
        if len(shape) == 3:
            shape = (shape[1], shape[2], shape[0])
        return cls(space, spaces.Box(-np.inf, np.inf, shape, np.float32))

    def __call__(self, obs: Any, device: torch.device) -> torch.Tensor:
        """Return observations of one environment or of several, ``(num_envs, dim)``.

        Raises:
            ConfigurationError: If they do not fit the space.
        """
        values = torch.as_tensor(np.asarray(obs) if not torch.is_tensor(obs) else obs)
        size = math.prod(self.space.shape or ())
        if values.numel() % size:
            raise ConfigurationError(
                f"An observation has the shape {tuple(values.shape)}, but the agent was made for "
                f"{self.space}. Give it the environment's single_observation_space."
            )
        return self.flat(values.reshape(-1, size).to(device))

    def flat(self, rows: torch.Tensor) -> torch.Tensor:
        """Return rows of the space as networks read them."""
        if isinstance(self.space, spaces.Discrete):
            index = rows.reshape(-1).long() - int(self.space.start)
            return functional.one_hot(index, int(self.space.n)).float()
        is_bytes = self.space.dtype == np.uint8
        values = rows.float() / 255.0 if is_bytes else rows.float()
        if len(self.inner.shape) == 3:
            height, width, channels = self.inner.shape
            values = values.reshape(-1, channels, height, width).permute(0, 2, 3, 1)
        return values.reshape(len(rows), -1)


def plain_space(space: spaces.Space[Any]) -> dict[str, Any]:
    """Return a space as plain data and tensors."""
    if isinstance(space, CrewSpace):
        return {"observed": space.observed, "acted": space.acted}
    if isinstance(space, spaces.Discrete):
        return {"n": int(space.n), "start": int(space.start)}
    assert isinstance(space, spaces.Box)
    ends = {
        name: torch.from_numpy(getattr(space, name).astype(np.float64)) for name in ("low", "high")
    }
    return ends | {"dtype": str(space.dtype)}


def space_of(values: Mapping[str, Any]) -> spaces.Space[Any]:
    """Return the space that :func:`plain_space` wrote."""
    if "observed" in values:
        return CrewSpace(values["observed"], values["acted"])
    if "n" in values:
        return spaces.Discrete(values["n"], start=values["start"])
    low, high = (values[name].numpy().astype(values["dtype"]) for name in ("low", "high"))
    return spaces.Box(low, high, dtype=np.dtype(values["dtype"]).type)
