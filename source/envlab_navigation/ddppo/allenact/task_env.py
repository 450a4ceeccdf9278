"""AllenAct's own tasks as environments: their actions and sensors in all their spaces."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from allenact.utils import spaces_utils
from gymnasium import spaces

from envlab.errors import ConfigurationError
from envlab_navigation.ddppo.task_env import TaskSamplerEnv


class PeerTaskEnv(TaskSamplerEnv):
    """A sampler whose tasks are AllenAct's.

    A sensor's returned value, not its space, defines the observation, since AllenAct makes tensors
    of values. Numbers reach the task as the network draws them, even outside their bounds.
    """

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        row = torch.as_tensor(np.asarray(action)).reshape(1, 1, -1)
        return super().step(spaces_utils.action_list(self._task.action_space, row)[0])

    def _observed(self) -> spaces.Dict:
        seen = self._task.get_observations()
        return spaces.Dict({name: _space_of(value, name) for name, value in seen.items()})

    def _acted(self) -> spaces.Space[Any]:
        space = self._task.action_space
        if type(space).__name__ == "Box":
            return spaces.Box(-np.inf, np.inf, space.shape, np.float32)
        sizes = _sizes(space)
        return spaces.Discrete(sizes[0]) if len(sizes) == 1 else spaces.MultiDiscrete(sizes)


def _space_of(value: Any, name: str) -> spaces.Box:
    """Return a box around an observation, of its shape and type."""
    seen = np.asarray(value)
    if seen.dtype.kind not in "biuf":
        raise ConfigurationError(
            f"The sensor {name!r} observes a {type(value).__name__}, but must observe an array of "
            "numbers. Leave it out of the sensors."
        )
    if seen.dtype.kind == "f":
        return spaces.Box(-np.inf, np.inf, seen.shape, np.float32)
    kind = np.uint8 if seen.dtype in (np.bool_, np.uint8) else np.int64
    bounds = np.iinfo(kind)
    return spaces.Box(bounds.min, bounds.max, seen.shape, kind)


def _sizes(space: Any) -> list[int]:
    """Return the options of each choice, in the order of AllenAct's flat actions."""
    kind = type(space).__name__
    if kind == "Discrete":
        return [int(space.n)]
    if kind == "MultiDiscrete":
        return [int(size) for size in space.nvec]
    if kind in ("Dict", "Tuple"):
        parts = space.spaces.values() if kind == "Dict" else space.spaces
        return [size for part in parts for size in _sizes(part)]
    raise ConfigurationError(
        f"The actions of the experiment's task are {space}, but must be choices, or numbers alone."
    )
