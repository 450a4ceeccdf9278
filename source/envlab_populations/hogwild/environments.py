"""Environments of specs; removed ones are replaced by others, with a warning."""

from __future__ import annotations

import importlib.resources
import logging
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import gymnasium

from envlab.config import load_yaml
from envlab.errors import ConfigurationError
from envlab_populations.hogwild import atari
from envlab_populations.hogwild.spec import Spec

logger = logging.getLogger(f"envlab.{__name__}")

_VERSION = re.compile(r"(.+)-v(\d+)")


def read_heirs(path: Path | None = None) -> dict[str, str]:
    """Return environments by the names of those that they replace, including a user's own.

    Args:
        path: The user's YAML file of ``OLD: NEW``; None: no file.

    Raises:
        ConfigurationError: If the file cannot be read, or holds anything else.
    """
    shipped = importlib.resources.files(__package__) / "environments.yaml"
    heirs = load_yaml(Path(str(shipped)))
    if path is not None:
        heirs |= load_yaml(path)
    for old, new in heirs.items():
        if not isinstance(old, str) or not isinstance(new, str):
            raise ConfigurationError(
                f"{path} has the line {old!r}: {new!r}, but each line must be OLD: NEW, as in "
                "RoboschoolHumanoid-v1: Humanoid-v5."
            )
    return heirs


def with_heir(spec: Spec, heirs: Mapping[str, str]) -> Spec:
    """Return a spec with its environment replaced, if it no longer exists.

    Args:
        spec: The spec, whose ``env.name`` is a task of envlab's or an environment of Gymnasium's.
        heirs: The result of :func:`read_heirs`.
    """
    name = spec.env.get("name")
    heir = None
    if isinstance(name, str):
        heir = heirs.get(name) or atari.modern_name(name) or newer_version(name)
    if heir is None:
        return spec
    logger.warning("%s no longer exists: %s replaces it.", name, heir)
    return replace(spec, env={**spec.env, "name": heir}, replaced_env=name)


def newer_version(name: str) -> str | None:
    """Return the newest version of an environment of which only newer ones are registered."""
    found = _VERSION.fullmatch(name)
    if found is None or name in gymnasium.registry:
        return None
    newer = [
        int(other[2])
        for other in map(_VERSION.fullmatch, gymnasium.registry)
        if other is not None and other[1] == found[1] and int(other[2]) > int(found[2])
    ]
    return f"{found[1]}-v{max(newer)}" if newer else None
