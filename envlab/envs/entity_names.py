"""Names in a composed scene: which thing a part belongs to, and what its own file calls it.

A model carries the prefixes of its things as a text, so that the model alone, such as an exported
MJCF, is enough to find its things.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Mapping, Sequence

import mujoco

from envlab.errors import ConfigurationError

RECORD = "envlab_entities"
"""Name of the text."""


def record_prefixes(spec: mujoco.MjSpec, prefixes: Mapping[str, str]) -> None:
    """Write the prefix of each thing, ``cube/`` or nothing, into a model."""
    spec.add_text(name=RECORD, data=json.dumps(dict(prefixes)))


def prefixes_of(model: mujoco.MjModel | mujoco.MjSpec) -> dict[str, str]:
    """Return the prefixes of a model's things by name; none of a model that is one file."""
    if isinstance(model, mujoco.MjSpec):
        text = model.text(RECORD)
        return {} if text is None else _read(text.data)
    index = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_TEXT, RECORD)
    if index < 0:
        return {}
    start = int(model.text_adr[index])
    return _read(model.text_data[start : start + int(model.text_size[index]) - 1].decode())


@functools.lru_cache(maxsize=64)
def _parsed(text: str) -> dict[str, str]:
    prefixes: dict[str, str] = json.loads(text)
    return prefixes


def _read(text: str) -> dict[str, str]:
    return dict(_parsed(text))


def owner_of(name: str, prefixes: Mapping[str, str]) -> str | None:
    """Return the thing to which a part of that name belongs; None: the scene itself."""
    found = [one for one, prefix in prefixes.items() if name.startswith(prefix)]
    return max(found, key=lambda one: len(prefixes[one]), default=None)


def own_name(name: str) -> str:
    """Return what the file of a thing calls a part, without the thing's prefix."""
    return name.partition("/")[2] or name


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """Return the names that a regular expression matches in full, in their order.

    If it matches none, those that it matches without the prefixes of their things.
    """
    names = list(names)
    found = [name for name in names if re.fullmatch(pattern, name)]
    return found or [one for one in names if "/" in one and re.fullmatch(pattern, own_name(one))]


def check_one_thing(
    kind: str,
    patterns: Sequence[str],
    names: Iterable[str],
    model: mujoco.MjModel | mujoco.MjSpec,
) -> None:
    """Refuse names that no thing was given for, and that several things have.

    Raises:
        ConfigurationError: Naming the things.
    """
    prefixes = {} if all("/" in pattern for pattern in patterns) else prefixes_of(model)
    things = list(dict.fromkeys(owner_of(name, prefixes) for name in names)) if prefixes else []
    if len(things) > 1:
        raise ConfigurationError(
            f"The {kind} {', '.join(map(repr, patterns))} is one of {len(things)} things: "
            f"{', '.join(thing or 'the scene itself' for thing in things)}. Name the thing, by "
            "asset_name, or with its prefix, as in 'robot/elbow'."
        )
