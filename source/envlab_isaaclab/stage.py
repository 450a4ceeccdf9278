"""The stage: what was spawned, as a tree of prims, in place of USD's.

Environment 0 is described; the others have the same prims, which are created on request.
Prims answer the few questions of USD's interface that Isaac Lab's queries ask.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

ENVS = "/World/envs"
FIRST = f"{ENVS}/env_0"


class Path(str):
    """A path of a prim."""

    @property
    def pathString(self) -> str:
        """The path as plain text."""
        return str(self)

    def GetParentPath(self) -> Path:
        """Return the path of the prim above."""
        return Path(self.rpartition("/")[0] or "/")

    def MakeRelativePath(self, other: str) -> Path:
        """Return this path as seen from one above it."""
        return Path(self.removeprefix(str(other)).lstrip("/"))


class Attribute:
    """An attribute of a prim."""

    def __init__(self, prim: Prim, name: str) -> None:
        self._prim, self._name = prim, name

    def Get(self, *time: Any) -> Any:
        """Return the value, None if there is none."""
        return self._prim.attributes.get(self._name)

    def Set(self, value: Any, *time: Any) -> bool:
        """Set the value."""
        self._prim.attributes[self._name] = value
        return True

    def IsValid(self) -> bool:
        """Return whether it has a value."""
        return self._name in self._prim.attributes

    def __bool__(self) -> bool:
        return self.IsValid()


@dataclass(eq=False)
class Prim:
    """One prim: its kind, its pose in its parent, and what it represents."""

    stage: Stage
    path: str
    kind: str = "Xform"
    parent: Prim | None = None
    apis: set[str] = field(default_factory=set)
    attributes: dict[str, Any] = field(default_factory=dict)
    own: dict[str, Prim] = field(default_factory=dict)
    source: Prim | None = None
    """The prim that this one repeats in another environment."""
    pos: np.ndarray = field(default_factory=lambda: np.zeros(3))
    quat: np.ndarray = field(default_factory=lambda: np.array([1.0, 0.0, 0.0, 0.0]))
    """Orientation (w, x, y, z)."""

    @property
    def children(self) -> dict[str, Prim]:
        """The prims below, by name; those of a repeated prim are made here."""
        if self.source is not None:
            for name, child in self.source.children.items():
                if name not in self.own:
                    self.own[name] = Prim(
                        self.stage,
                        f"{self.path}/{name}",
                        child.kind,
                        self,
                        child.apis,
                        child.attributes,
                        source=child,
                        pos=child.pos,
                        quat=child.quat,
                    )
        return self.own

    # USD's interface

    def GetPath(self) -> Path:
        """Return the path."""
        return Path(self.path)

    GetPrimPath = GetPath

    def GetName(self) -> str:
        """Return the last part of the path."""
        return self.path.rpartition("/")[2]

    def GetParent(self) -> Any:
        """Return the parent; an invalid prim above the root."""
        return self.parent if self.parent is not None else _NOTHING

    def GetChildren(self) -> list[Prim]:
        """Return the prims below."""
        return list(self.children.values())

    GetAllChildren = GetChildren

    def GetFilteredChildren(self, *predicate: Any) -> list[Prim]:
        """Return the children; no prim is an instance, so no filter applies."""
        return self.GetChildren()

    def GetTypeName(self) -> str:
        """Return the kind."""
        return self.kind

    def IsValid(self) -> bool:
        """Return True: the prim exists."""
        return True

    def IsInstance(self) -> bool:
        """Return False: prims are not shared."""
        return False

    def IsA(self, kind: type) -> bool:
        """Return whether it is of a kind, such as ``UsdGeom.Mesh``."""
        return kind.__name__ in (self.kind, "Prim", "Imageable", "Xformable")

    def HasAPI(self, api: type, *name: Any) -> bool:
        """Return whether it is what an interface of USD's is for."""
        return api.__name__ in self.apis

    def ApplyAPI(self, api: type, *name: Any) -> bool:
        """Let it be what an interface of USD's is for."""
        self.apis.add(api.__name__)
        return True

    def GetAttribute(self, name: str) -> Attribute:
        """Return an attribute, whether or not it has a value."""
        return Attribute(self, name)

    def HasAttribute(self, name: str) -> bool:
        """Return whether an attribute has a value."""
        return name in self.attributes

    def CreateAttribute(self, name: str, *kind: Any) -> Attribute:
        """Return an attribute."""
        return Attribute(self, name)

    def GetStage(self) -> Stage:
        """Return the stage."""
        return self.stage

    def GetPrim(self) -> Prim:
        """Return itself."""
        return self

    def __bool__(self) -> bool:
        return True


class _Nothing:
    """An invalid prim, for a path without one."""

    def GetPrim(self) -> _Nothing:
        return self

    def IsValid(self) -> bool:
        return False

    def HasAPI(self, *api: Any) -> bool:
        return False

    def __bool__(self) -> bool:
        return False


_NOTHING = _Nothing()


@dataclass(eq=False)
class Spawned:
    """A thing spawned at a prim, to be added to the model.

    Attributes:
        prim: Its prim.
        cfg: Isaac Lab's configuration of it.
        pos: Where it was spawned, in m, in the environment (or the world).
        quat: Its orientation (w, x, y, z).
        thing: Its description for :mod:`envlab_isaaclab.world`.
    """

    prim: Prim
    cfg: Any
    pos: np.ndarray
    quat: np.ndarray
    thing: Any = None


class Stage:
    """A tree of prims and what was spawned at them."""

    def __init__(self) -> None:
        self.root = Prim(self, "/")
        self.spawned: dict[str, Spawned] = {}
        self.num_envs = 1
        self.origins = np.zeros((1, 3))
        """Origins of the environments in the world, in m, ``(num_envs, 3)``."""
        self.define("/World")

    def define(self, path: str, kind: str = "Xform") -> Prim:
        """Return the prim at a path; create it and its parents if missing."""
        prim = self.root
        parts = [part for part in str(path).split("/") if part]
        for number, name in enumerate(parts):
            below = prim.children.get(name)
            if below is None:
                below = Prim(self, "/" + "/".join(parts[: number + 1]), parent=prim)
                prim.own[name] = below
            prim = below
        if kind != "Xform":
            prim.kind = kind
        return prim

    def get(self, path: str) -> Prim | None:
        """Return the prim at a path, None if there is none."""
        prim: Prim | None = self.root
        for name in str(path).split("/"):
            if name and prim is not None:
                prim = prim.children.get(name)
        return prim

    def remove(self, path: str) -> bool:
        """Remove a prim, its descendants, and the things spawned at them."""
        prim = self.get(path)
        if prim is None or prim.parent is None:
            return False
        del prim.parent.own[prim.GetName()]
        for spawned in [one for one in self.spawned if f"{one}/".startswith(f"{path}/")]:
            del self.spawned[spawned]
        return True

    def repeat(self, num_envs: int, origins: np.ndarray) -> None:
        """Let the other environments have what environment 0 has."""
        first = self.define(FIRST)
        self.num_envs, self.origins = num_envs, np.asarray(origins)
        above = self.define(ENVS)
        for number in range(1, num_envs):
            name = f"env_{number}"
            above.own[name] = Prim(self, f"{ENVS}/{name}", parent=above, source=first)

    # USD's interface

    def Traverse(self, *predicate: Any) -> Iterator[Prim]:
        """Yield all prims, those above before those below."""
        waiting = [self.root]
        while waiting:
            prim = waiting.pop()
            if prim is not self.root:
                yield prim
            waiting += reversed(prim.GetChildren())

    def GetPseudoRoot(self) -> Prim:
        """Return the topmost prim."""
        return self.root

    def GetPrimAtPath(self, path: str) -> Any:
        """Return the prim at a path; an invalid prim if there is none."""
        return self.get(path) or _NOTHING

    def DefinePrim(self, path: str, kind: str = "Xform") -> Prim:
        """Return the prim at a path, made if need be."""
        return self.define(path, kind)

    def RemovePrim(self, path: str) -> bool:
        """Remove a prim."""
        return self.remove(path)


_current = Stage()


def current() -> Stage:
    """Return the stage of this process."""
    return _current


def renew() -> Stage:
    """Replace the stage by an empty one, for a new simulation."""
    global _current
    _current = Stage()
    return _current


def in_first(path: str) -> str:
    """Return a path whose pattern of environments is environment 0."""
    head = f"{ENVS}/"
    if not path.startswith(head):
        return path
    _, slash, rest = path.removeprefix(head).partition("/")
    return FIRST + slash + rest


def pattern_of(path: str) -> re.Pattern[str]:
    """Return PhysX's pattern of paths in environment 0, where ``*`` is anything in one part."""
    escaped = re.sub(r"[.\[\]+?^$]", lambda found: "\\" + found.group(), in_first(path))
    return re.compile(escaped.replace("*", "[^/]*"))


def number_of(path: str) -> int:
    """Return the number of the environment that a path is in; 0 outside of them."""
    name = path.removeprefix(f"{ENVS}/").partition("/")[0] if path.startswith(ENVS) else ""
    number = name.removeprefix("env_")
    return int(number) if number.isdigit() else 0
