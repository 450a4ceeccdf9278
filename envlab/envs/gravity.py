"""Bodies without weight, such as an arm whose controller compensates gravity."""

from __future__ import annotations

import re
from collections.abc import Sequence

import mujoco

from envlab.errors import ConfigurationError, did_you_mean


def disable_gravity(spec: mujoco.MjSpec, patterns: Sequence[str]) -> None:
    """Remove gravity from some bodies of a model, by MuJoCo's gravity compensation.

    Args:
        spec: The model; it is changed.
        patterns: The bodies, by regular expressions that match in full.

    Raises:
        ConfigurationError: For a pattern that matches none.
    """
    names = [body.name for body in spec.bodies if body.name != "world"]
    for pattern in patterns:
        found = [name for name in names if re.fullmatch(pattern, name)]
        if not found:
            raise ConfigurationError(
                f"env.scene.disable_gravity: no body of the model matches {pattern!r}; it has "
                f"{', '.join(filter(None, names)) or 'none'}.{did_you_mean(pattern, names)}"
            )
        for name in found:
            spec.body(name).gravcomp = 1.0
