"""Checks of values that an environment gets from its caller and its task."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from envlab.distributed.context import DistributedContext
from envlab.distributed.limits import describe_size, free_memory
from envlab.errors import ConfigurationError, did_you_mean
from envlab.task import load_entry_point

LEAST_BYTES = 200
"""Minimum memory of an environment of any kind, in bytes."""


def check_memory(num_envs: int, bytes_per_env: int, context: DistributedContext) -> None:
    """Refuse environments that cannot fit in memory, before anything is allocated for them.

    A huge allocation takes minutes, in which no signal is handled, and then the system kills the
    process.

    Args:
        num_envs: Environments of each process.
        bytes_per_env: Minimum memory of one of them.
        context: The process's context.

    Raises:
        ConfigurationError: If they need more memory than is free.
    """
    count = num_envs * context.local_world_size
    needed, free = count * bytes_per_env, free_memory()
    where = "here"
    if context.device.type == "cuda":
        needed, where = num_envs * bytes_per_env, f"on {context.device}"
        free = torch.cuda.mem_get_info(context.device)[0]
    if needed > free:
        raise ConfigurationError(
            f"{num_envs:,} environments per process need at least {describe_size(needed)} of "
            f"memory, but {describe_size(free)} are free {where}. Use fewer "
            "(--num_envs); --dry_run shows how much memory a training needs."
        )


def unbounded(shape: Sequence[int]) -> spaces.Box:
    """Return the space of float32 arrays of a shape."""
    return spaces.Box(-np.inf, np.inf, tuple(shape), np.float32)


def space_of(values: Any) -> spaces.Space[Any]:
    """Return the space of one environment's part of tensors, or of dictionaries of them."""
    if isinstance(values, Mapping):
        return spaces.Dict({name: space_of(part) for name, part in values.items()})
    return unbounded(values.shape[1:])


def refuse_dictionaries(obs: Mapping[str, Any], groups: Iterable[str], who: str) -> None:
    """Refuse groups of observations that are dictionaries of their terms.

    Args:
        obs: Observations by group.
        groups: Names of the groups that are read.
        who: Who reads them, for the error.

    Raises:
        ConfigurationError: Naming the first of them.
    """
    for name in groups:
        if isinstance(obs.get(name), Mapping):
            raise ConfigurationError(
                f"The observation group {name!r} is a dictionary of its terms "
                f"({', '.join(obs[name])}), but {who} reads tensors. Set env.observations.{name}."
                "concatenate_terms=true, or train with skrl, which reads both."
            )


def registered_cfg(cfg: Any, entry_point: str | None, registry_kwargs: Mapping[str, Any]) -> Any:
    """Return the configuration of an environment that Gymnasium's registry makes.

    Args:
        cfg: The caller's configuration; None: the one at ``entry_point``.
        entry_point: ``module:Class`` of the configuration, from the registry.
        registry_kwargs: Other keywords. The registry's own are ignored.

    Raises:
        ConfigurationError: For any other, since a misspelt one would have no effect; or if there is
            no configuration.
    """
    for name in registry_kwargs:
        if name not in ("description", "kind") and not name.endswith("_entry_point"):
            known = ("cfg", "context", "num_envs", "device", "seed", "render_mode")
            raise ConfigurationError(
                f"An environment has no argument {name!r}.{did_you_mean(name, known)}"
            )
    if cfg is None and entry_point is None:
        raise ConfigurationError("An environment needs a configuration; pass cfg=...")
    if cfg is None:
        return load_entry_point(entry_point)()
    if not dataclasses.is_dataclass(cfg):
        raise ConfigurationError(
            f"The configuration of an environment is {type(cfg).__name__}, but must be a dataclass "
            "as envlab.registry.load_env_cfg(envlab.registry.get_task(id)) returns. Change "
            "that, or make the task by envlab.make(id, overrides=[...])."
        )
    return cfg


def positive(name: str, value: Any) -> Any:
    """Return a number, which must be above 0; ``name`` is the setting's name."""
    if value <= 0:
        raise ConfigurationError(f"{name} is {value}, but must be greater than 0.")
    return value


def base_seed(seed: int | list[int | None]) -> int:
    """Return the single seed of ``reset(seed=...)``, which may be a list of equal seeds."""
    seeds = list(seed) if isinstance(seed, list | tuple) else [seed]
    first = seeds[0] if len(set(seeds)) == 1 else None
    if first is None:
        raise ConfigurationError(
            f"reset(seed={seed}) is not supported; give one base seed, from which all environments "
            "differ by their index."
        )
    return int(first)


def check_result(name: str, values: torch.Tensor, dtype: torch.dtype, num_envs: int) -> None:
    """Refuse a result that would broadcast to another shape; called in the first step.

    Raises:
        ConfigurationError: If ``values`` are not ``(num_envs,)`` of this type.
    """
    if values.shape != (num_envs,) or values.dtype != dtype:
        raise ConfigurationError(
            f"The task returns {name} of shape {tuple(values.shape)} and {values.dtype}, but must "
            f"return ({num_envs},) and {dtype}."
        )
