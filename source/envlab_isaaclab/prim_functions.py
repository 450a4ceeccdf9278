"""``isaaclab.sim.utils.prims`` over :mod:`envlab_isaaclab.stage`.

Prims keep kinds, poses and attributes, which a ray caster's mesh needs. Materials, visibility,
references and variants have no effect: what is simulated is described by the spawners.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from envlab_isaaclab import stage
from envlab_isaaclab.stage import Prim, in_first

__all__ = [
    "add_usd_reference",
    "apply_nested",
    "bind_physics_material",
    "bind_visual_material",
    "change_prim_property",
    "clone",
    "create_prim",
    "delete_prim",
    "export_prim_to_file",
    "get_usd_references",
    "make_uninstanceable",
    "move_prim",
    "safe_set_attribute_on_usd_prim",
    "safe_set_attribute_on_usd_schema",
    "select_usd_variants",
    "set_prim_visibility",
]


def create_prim(
    prim_path: str,
    prim_type: str = "Xform",
    position: Sequence[float] | None = None,
    translation: Sequence[float] | None = None,
    orientation: Sequence[float] | None = None,
    attributes: Mapping[str, Any] | None = None,
    **keywords: Any,
) -> Prim:
    """Return the prim at a path, made with the given kind, pose and attributes."""
    prim = stage.current().define(in_first(prim_path), prim_type)
    place = translation if translation is not None else position
    if place is not None:
        prim.pos = np.array([float(value) for value in place])
    if orientation is not None:
        prim.quat = np.array([float(value) for value in orientation])
    prim.attributes.update(attributes or {})
    return prim


def delete_prim(prim_path: str | Sequence[str], *arguments: Any, **keywords: Any) -> bool:
    """Remove prims; return whether all existed."""
    paths = [prim_path] if isinstance(prim_path, str) else prim_path
    removed = [stage.current().remove(in_first(path)) for path in paths]
    return all(removed)


def clone(func: Callable[..., Any]) -> Callable[..., Any]:
    """Let a spawner be called with a pattern of environments: it spawns in environment 0."""

    @functools.wraps(func)
    def spawn(prim_path: Any, cfg: Any, *arguments: Any, **keywords: Any) -> Any:
        return func(in_first(str(prim_path)), cfg, *arguments, **keywords)

    return spawn


def apply_nested(func: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function that changes USD's schemas do nothing: spawners read the configurations."""

    @functools.wraps(func)
    def nothing(*arguments: Any, **keywords: Any) -> bool:
        return True

    return nothing


def _nothing(*arguments: Any, **keywords: Any) -> bool:
    """Do nothing: see the module."""
    return True


add_usd_reference = bind_physics_material = bind_visual_material = change_prim_property = _nothing
export_prim_to_file = make_uninstanceable = move_prim = _nothing
safe_set_attribute_on_usd_schema = select_usd_variants = set_prim_visibility = _nothing


def safe_set_attribute_on_usd_prim(
    prim: Any, attr_name: str, value: Any, *arguments: Any, **keywords: Any
) -> None:
    """Note an attribute, such as a light's colour; one of a material, which is no prim, is lost."""
    if isinstance(prim, Prim):
        prim.attributes[attr_name] = value


def get_usd_references(*arguments: Any, **keywords: Any) -> list[str]:
    """Return nothing: prims refer to no files."""
    return []
