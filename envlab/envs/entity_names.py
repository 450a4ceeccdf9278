"""Names in a composed scene: which thing a part belongs to, and which parts an entity has.

A model carries the prefixes of its things as a text, so that the model alone, such as an exported
MJCF, is enough to find its things.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import mujoco
import numpy as np

from envlab.errors import ConfigurationError, did_you_mean

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


Names = str | list[str] | None

Lookup = Callable[[int], Any]
"""A model's way to a part by its index, such as ``model.body``."""


def things_of(model: mujoco.MjModel) -> list[str]:
    """Return the names of a scene's things: those that it is composed of.

    Of a model that is one file, they are the robot and other bodies in the world that can move.
    """
    if prefixes := prefixes_of(model):
        return list(prefixes)
    moving = {*model.body_rootid[model.jnt_bodyid].tolist()}
    moving |= {*np.flatnonzero(model.body_mocapid >= 0).tolist()}
    others = sorted(moving - {*EntityParts("robot", model).bodies})
    return ["robot", *(model.body(body).name for body in others if model.body(body).name)]


class EntityParts:
    """The meaning of an entity's name in a model: its bodies, and the names that it searches.

    Attributes:
        prefix: What names of a thing begin with; nothing elsewhere.
        root: Its topmost body.
        bodies: All its bodies.
    """

    def __init__(self, name: str, model: mujoco.MjModel) -> None:
        self._name, self._model = name, model
        self._prefixes = prefixes_of(model)
        self.prefix = self._prefixes.get(name, "")
        self._is_thing = name in self._prefixes
        if not self._is_thing:
            self.root, self.bodies = _subtree(name, model, self._prefixes)
            return
        tops = [
            body
            for body in range(1, model.nbody)
            if model.body_parentid[body] == 0 and self._owns(model.body(body).name)
        ]
        free = [body for body in tops if model.body_dofnum[body] == 6]
        self.root = (free or tops or [0])[0]
        self.bodies = [body for body in range(1, model.nbody) if model.body_rootid[body] in tops]

    def on_bodies(self, lookup: Lookup, body_ids: np.ndarray) -> list[int]:
        """Return sites or geoms on the entity's bodies, and those of a thing on the world."""
        return [
            i
            for i, body in enumerate(body_ids)
            if body in self.bodies
            or (body == 0 and self.prefix and lookup(i).name.startswith(self.prefix))
        ]

    def named(self, lookup: Lookup, ids: Iterable[int], *, shared: bool = False) -> list[int]:
        """Return those of the parts that have a name of this thing; elsewhere all.

        With ``shared`` also those of no thing, such as sensors that ``env.sensors`` adds.
        """
        if not self._is_thing:
            return list(ids)
        owners = {i: owner_of(lookup(i).name, self._prefixes) for i in ids}
        return [i for i, one in owners.items() if one == self._name or (shared and one is None)]

    def match(
        self,
        kind: str,
        patterns: Names,
        lookup: Lookup,
        ids: Iterable[int],
    ) -> list[int]:
        """Return the parts that regular expressions match.

        Raises:
            ConfigurationError: For one that matches nothing, or the same in several things.
        """
        found = match(kind, patterns, lookup, ids, of=self._name if self._is_thing else "")
        if patterns is not None and not self._is_thing:
            plain = [lookup(i).name for i in found]
            if not any(re.fullmatch(one, name) for one in listed(patterns) for name in plain):
                check_one_thing(kind, listed(patterns), plain, self._model)
        return found

    def _owns(self, name: str) -> bool:
        return owner_of(name, self._prefixes) == self._name


def match(
    kind: str,
    patterns: Names,
    lookup: Lookup,
    ids: Iterable[int],
    *,
    preserve_order: bool = False,
    of: str = "",
) -> list[int]:
    """Return the parts that patterns match; ``of`` names the thing that they belong to, if any."""
    ids = list(ids)
    if patterns is None:
        return ids
    names = {i: lookup(i).name for i in ids}
    matched: list[int] = []
    for pattern in listed(patterns):
        chosen = {*matching(pattern, names.values())}
        found = [i for i, name in names.items() if name in chosen]
        if not found:
            known = [own_name(name) if of else name for name in names.values() if name]
            whole = f"the thing {of!r}" if of else "the model"
            raise ConfigurationError(
                f"No {kind} of {whole} matches {pattern!r}; it "
                f"has {', '.join(known) or 'none'}.{did_you_mean(pattern, known)}"
            )
        matched += [i for i in found if i not in matched]
    return matched if preserve_order else sorted(matched)


def listed(patterns: Names) -> list[str]:
    """Return patterns as a list."""
    return [patterns] if isinstance(patterns, str) else patterns or []


def _subtree(name: str, model: mujoco.MjModel, things: Mapping[str, str]) -> tuple[int, list[int]]:
    """Return an entity's topmost body and all its bodies."""
    tops = [body for body in range(1, model.nbody) if model.body_parentid[body] == 0]
    names = [model.body(body).name for body in tops]
    if name in names:
        root = tops[names.index(name)]
        return root, [body for body in range(root, model.nbody) if model.body_rootid[body] == root]
    if name != "robot":
        if things:
            raise ConfigurationError(
                f"The scene has no {name!r}; its things are {', '.join(things)}."
                f"{did_you_mean(name, things)}"
            )
        raise ConfigurationError(
            f"The scene has no {name!r}; the bodies attached to the world are "
            f"{', '.join(filter(None, names)) or 'none'}.{did_you_mean(name, names)}"
        )
    free = [body for body in tops if model.body_dofnum[body] == 6]
    return (free or tops or [0])[0], list(range(1, model.nbody))
