"""What an environment accepts: of its caller, and of the task it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from envlab.errors import ConfigurationError, did_you_mean
from envlab.task import load_entry_point


def unbounded(shape: Sequence[int]) -> spaces.Box:
    """Return the space of float32 arrays of a shape."""
    return spaces.Box(-np.inf, np.inf, tuple(shape), np.float32)


def registered_cfg(cfg: Any, entry_point: str | None, registry_kwargs: Mapping[str, Any]) -> Any:
    """Return the configuration of an environment that Gymnasium's registry makes.

    Args:
        cfg: What the caller gives; None: the one at ``entry_point``.
        entry_point: ``module:Class`` of the configuration, from the registry.
        registry_kwargs: Other keywords. The registry's own are passed over.

    Raises:
        ConfigurationError: For any other, since a misspelt one would have no effect; or if there is
            no configuration.
    """
    for name in registry_kwargs:
        if name != "description" and not name.endswith("_entry_point"):
            known = ("cfg", "context", "num_envs", "device", "seed", "render_mode")
            raise ConfigurationError(
                f"An environment has no argument {name!r}.{did_you_mean(name, known)}"
            )
    if cfg is None and entry_point is None:
        raise ConfigurationError("An environment needs a configuration; pass cfg=...")
    return load_entry_point(entry_point)() if cfg is None else cfg


def positive(name: str, value: Any) -> Any:
    """Return a number that must be above 0; ``name`` is where it is set."""
    if value <= 0:
        raise ConfigurationError(f"{name} is {value}, but must be greater than 0.")
    return value


def base_seed(seed: int | list[int | None]) -> int:
    """Return the one seed of ``reset(seed=...)``, which may be a list of equal ones."""
    seeds = list(seed) if isinstance(seed, list | tuple) else [seed]
    first = seeds[0] if len(set(seeds)) == 1 else None
    if first is None:
        raise ConfigurationError(
            f"reset(seed={seed}) is not supported; give one base seed, from which all environments "
            "differ by their index."
        )
    return int(first)


def check_result(name: str, values: torch.Tensor, dtype: torch.dtype, num_envs: int) -> None:
    """Refuse what would broadcast into something else; called in the first step.

    Raises:
        ConfigurationError: If ``values`` are not ``(num_envs,)`` of this type.
    """
    if values.shape != (num_envs,) or values.dtype != dtype:
        raise ConfigurationError(
            f"The task returns {name} of shape {tuple(values.shape)} and {values.dtype}, but must "
            f"return ({num_envs},) and {dtype}."
        )
