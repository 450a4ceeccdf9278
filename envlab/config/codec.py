"""Dataclass configs to plain dictionaries and back; what YAML files and command lines build on."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, TypeVar

from envlab.config.decoding import Slot, build_group, decode
from envlab.config.encoding import encode
from envlab.config.tree import is_group
from envlab.errors import ConfigurationError

Config = TypeVar("Config")


def to_dict(cfg: object, path: str = "env") -> dict[str, Any]:
    """Return a config as plain data that YAML can hold; ``path`` is its name in errors.

    Raises:
        ConfigurationError: ``cfg`` is neither a dataclass nor a dict, or it holds something that
            has no plain form, such as a lambda or a tensor.
    """
    _require_config(cfg, path)
    encoded: dict[str, Any] = encode(cfg, path)
    return encoded


def from_dict(cls: type[Config], values: Mapping[str, Any], path: str = "env") -> Config:
    """Return a new ``cls`` with ``values`` over its defaults, typed by its annotations.

    Free-form dicts take exactly the keys that are given.

    Raises:
        ConfigurationError: A key is unknown, a required one is missing, or a value has another type
            than its field; the text names the path and the nearest valid one.
    """
    slot = Slot(cls, path, given_keys=True)
    instance: Config = build_group(cls, values, slot)
    return instance


def merge(
    cfg: Config, values: Mapping[str, Any], path: str = "env", *, given_keys: bool = False
) -> Config:
    """Return a new config equal to ``cfg`` with the possibly partial ``values`` over it.

    Groups keep the class they have in ``cfg``, also where the annotation names only a base class.

    Args:
        cfg: A dataclass, or a dict, whose values then keep their types. It stays as it is.
        values: Plain data, nested like ``cfg``.
        path: The dotted name of ``cfg``, for errors.
        given_keys: ``values`` is a whole config: free-form dicts take exactly its keys. By default
            they keep their own keys, and a new one is an error.

    Raises:
        ConfigurationError: A key is unknown or a value has another type than its field.
    """
    _require_config(cfg, path)
    hint = type(cfg) if is_group(cfg) else dict[str, Any]
    slot = Slot(hint, path, current=copy.deepcopy(cfg), given_keys=given_keys)
    merged: Config = decode(slot, values)
    return merged


def _require_config(cfg: object, path: str) -> None:
    if not is_group(cfg) and not isinstance(cfg, dict):
        raise ConfigurationError(
            f"{path} must be a dataclass instance or a dict, but is {cfg!r}. "
            "Give an instance of the config class."
        )
