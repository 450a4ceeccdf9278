"""``--config_kwargs``: arguments of an experiment as JSON, or a configuration.

Without an experiment, ``{"agent": {"max_iterations": 20}}`` is the override
``agent.max_iterations=20``.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from envlab.config.translator import override
from envlab.errors import ConfigurationError, did_you_mean

ROOTS = ("env", "agent")
NUM_NODES = "distributed_nodes"
"""AllenAct's experiments take the number of nodes; here it must be the number of hosts."""

_KEY = re.compile(r"[A-Za-z_][\w-]*(\.[A-Za-z_][\w-]*)*")


def read_config_kwargs(given: str) -> dict[str, Any]:
    """Return the given JSON, or that in the file of this name.

    Raises:
        ConfigurationError: If it is not JSON, or not an object.
    """
    text = given
    if not given.lstrip().startswith("{"):
        try:
            text = Path(given).expanduser().read_text()
        except (OSError, UnicodeDecodeError):
            raise ConfigurationError(
                f"--config_kwargs is {given!r}, which is neither JSON nor a file that can be read. "
                """Write it in single quotes, as in --config_kwargs '{"agent": {"seed": 1}}'."""
            ) from None
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigurationError(
            f"--config_kwargs is not JSON: {error.msg} at character {error.pos + 1} of {text!r}. "
            "JSON has double quotes, true, false and null; put it in single quotes for the shell."
        ) from None
    if not isinstance(values, dict):
        raise ConfigurationError(
            f"--config_kwargs is {text!r}, but must be a JSON object, with names as keys."
        )
    return values


def overrides_of(values: dict[str, Any], num_hosts: int | None = None) -> list[str]:
    """Return the equivalent overrides.

    Args:
        values: By ``env`` and ``agent``; and ``distributed_nodes``, which must be the number of
            hosts and is no override.
        num_hosts: Number of hosts; None if unknown.

    Raises:
        ConfigurationError: If a key has no meaning here.
    """
    found = []
    for key, value in values.items():
        if key == NUM_NODES:
            _check_hosts(value, num_hosts)
        elif key.partition(".")[0] not in ROOTS:
            raise ConfigurationError(
                f"--config_kwargs has the key {key!r}, but settings are below env and "
                f"agent.{did_you_mean(key, (*ROOTS, NUM_NODES))} Flags of train.py are given as "
                "flags."
            )
        else:
            found += _below(key, value)
    return found


def kwargs_of_experiment(values: dict[str, Any], num_hosts: int | None = None) -> list[str]:
    """Return the flag that passes the same to an experiment on every host.

    Raises:
        ConfigurationError: If it is for another number of hosts.
    """
    if NUM_NODES in values:
        _check_hosts(values[NUM_NODES], num_hosts)
    return [f"--config_kwargs={json.dumps(values)}"]


def _check_hosts(value: Any, num_hosts: int | None) -> None:
    if num_hosts not in (None, value):
        raise ConfigurationError(
            f"--config_kwargs says {NUM_NODES}: {json.dumps(value)}, but --runs_on names "
            f"{num_hosts} hosts. Leave it out, or make them agree."
        )


def _below(path: str, value: Any) -> list[str]:
    """Return an override for each leaf at or below a path."""
    if not _KEY.fullmatch(path):
        raise ConfigurationError(
            f"--config_kwargs has the key {path!r}, but keys are names: letters, digits and _."
        )
    if isinstance(value, dict) and value:
        return [word for key, one in value.items() for word in _below(f"{path}.{key}", one)]
    return [override(path, value)]
