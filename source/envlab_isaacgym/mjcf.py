"""MJCF files as MuJoCo specifications, with fixes of errors that Isaac Gym's importer accepted.

Attributes unknown to MuJoCo are dropped and logged; duplicate names get a number;
materials are dropped, which files often name without a definition.
"""

from __future__ import annotations

import logging
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import mujoco

from envlab.errors import ConfigurationError
from envlab_isaacgym.parameters import AssetOptions

logger = logging.getLogger(f"envlab.{__name__}")

_MOST_DROPPED = 100
_NAMED = ("joint", "body", "geom", "site", "motor", "position", "velocity", "general")
_UNKNOWN = re.compile(r"unrecognized attribute: '(\w+)'.*?[Ee]lement '(\w+)'", re.DOTALL)
_LEAST_MASS, _LEAST_INERTIA = 1e-4, 1e-7
"""Mass and inertia of bodies with visuals only."""


def read_mjcf(path: Path, options: AssetOptions) -> mujoco.MjSpec:
    """Return a specification with one body under the world, which floats unless it is fixed.

    Raises:
        ConfigurationError: If MuJoCo cannot read the file, or it has no body.
    """
    root = _with_includes(path)
    _make_folders_absolute(root, path)
    _number_doubles(root)
    spec = _parse(root, path)
    for kind in ("geoms", "sites", "cameras", "lights"):  # floors and lights are no actor's
        for element in list(getattr(spec.worldbody, kind)):
            spec.delete(element)
    for element in (*spec.keys, *spec.sensors):
        spec.delete(element)
    _drop_unread_meshes(spec)
    for geom in spec.geoms:
        geom.material = ""
    body = spec.worldbody.first_body()
    if body is None:
        raise ConfigurationError(f"{path} has no body, so there is no actor to make of it.")
    _fix_or_free(spec, body, options.fix_base_link)
    spec.compiler.boundmass = max(spec.compiler.boundmass, _LEAST_MASS)
    spec.compiler.boundinertia = max(spec.compiler.boundinertia, _LEAST_INERTIA)
    return spec


def _fix_or_free(spec: mujoco.MjSpec, body: mujoco.MjsBody, is_fixed: bool) -> None:
    free = [joint for joint in body.joints if joint.type == mujoco.mjtJoint.mjJNT_FREE]
    if is_fixed:
        for joint in free:
            spec.delete(joint)
    elif not free and not any(map(_moves, body.joints)):
        for joint in list(body.joints):
            spec.delete(joint)
        body.add_freejoint()


def _moves(joint: mujoco.MjsJoint) -> bool:
    """Return whether a joint has a range; tasks lock floating roots by 0..0."""
    return not (joint.limited == 1 and joint.range[0] == joint.range[1] == 0.0)


def _with_includes(path: Path) -> ET.Element:
    """Return the file's root with included files instead of ``<include>``."""
    root = ET.parse(path).getroot()
    for parent in list(root.iter()):
        for place, child in reversed(list(enumerate(parent))):
            if child.tag == "include":
                parent.remove(child)
                for element in reversed(list(_with_includes(path.parent / child.get("file", "")))):
                    parent.insert(place, element)
    return root


def _make_folders_absolute(root: ET.Element, path: Path) -> None:
    """Make meshes' folders absolute, since MuJoCo gets text rather than the file."""
    compilers = root.findall("compiler") or [ET.SubElement(root, "compiler")]
    for compiler in compilers:
        for name in ("meshdir", "texturedir", "assetdir"):
            if compiler is compilers[0] or compiler.get(name):
                folder = path.resolve().parent / compiler.get(name, compiler.get("assetdir", ""))
                if name != "assetdir":
                    compiler.set(name, str(folder))
        compiler.attrib.pop("assetdir", None)


def _number_doubles(root: ET.Element) -> None:
    seen: dict[tuple[str, str], int] = {}
    for element in root.iter():
        tag = "joint" if element.tag == "freejoint" else element.tag
        name = element.get("name")
        if name and tag in _NAMED:
            count = seen[tag, name] = seen.get((tag, name), -1) + 1
            if count:
                element.set("name", f"{name}__{count}")


def _parse(root: ET.Element, path: Path) -> mujoco.MjSpec:
    dropped: set[str] = set()
    for _ in range(_MOST_DROPPED):
        try:
            spec = mujoco.MjSpec.from_string(ET.tostring(root, encoding="unicode"))
            break
        except ValueError as error:
            found = _UNKNOWN.search(str(error))
            if found is None:
                reason = " ".join(str(error).split())
                raise ConfigurationError(f"MuJoCo cannot read {path}: {reason}") from error
            attribute, tag = found.groups()
            dropped.add(f"{attribute!r} of <{tag}>")
            for element in root.iter(tag):
                element.attrib.pop(attribute, None)
    else:
        raise ConfigurationError(f"{path} has too many attributes that MuJoCo does not know.")
    if dropped:
        logger.warning(
            "%s: %s dropped, which MuJoCo does not know.", path.name, ", ".join(sorted(dropped))
        )
    return spec


def _drop_unread_meshes(spec: mujoco.MjSpec) -> None:
    """Remove meshes of formats that MuJoCo does not read; they are visuals."""
    unread = {
        mesh.name or Path(mesh.file).stem
        for mesh in spec.meshes
        if not str(mesh.file).lower().endswith((".stl", ".obj", ".msh"))
    }
    for geom in list(spec.geoms):
        if geom.meshname in unread:
            spec.delete(geom)
    for mesh in list(spec.meshes):
        if (mesh.name or Path(mesh.file).stem) in unread:
            spec.delete(mesh)
