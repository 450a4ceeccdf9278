"""URDF files as MuJoCo specifications, in Isaac Gym's order of links.

MuJoCo also reads URDF, but keeps the file's order of links; policies trained in Isaac Gym expect
children sorted by name, depth first. So the file is read here: fixed joints are collapsed unless
``dont_collapse="true"``, a mass without a valid inertia is spread over the shapes, and a missing
mesh raises one sentence.
"""

from __future__ import annotations

import logging
import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from pathlib import Path

import mujoco
import numpy as np

from envlab.errors import ConfigurationError
from envlab_isaacgym.parameters import UNLIMITED, AssetOptions

logger = logging.getLogger(f"envlab.{__name__}")

MESH_SUFFIXES = (".stl", ".obj", ".msh")
MASSLESS_KG, MASSLESS_INERTIA = 1e-3, 1e-6
"""For links with neither ``inertial`` nor shapes: MuJoCo requires mass of moving bodies."""

_MOVING = {"revolute": "hinge", "continuous": "hinge", "prismatic": "slide"}


@dataclass(frozen=True)
class Pose:
    """A rotation matrix and a position in m."""

    rotation: np.ndarray = field(default_factory=lambda: np.eye(3))
    position: np.ndarray = field(default_factory=lambda: np.zeros(3))

    def __matmul__(self, other: Pose) -> Pose:
        return Pose(self.rotation @ other.rotation, self.rotation @ other.position + self.position)

    @property
    def quat(self) -> np.ndarray:
        """The rotation as w, x, y, z."""
        quat = np.zeros(4)
        mujoco.mju_mat2Quat(quat, np.ascontiguousarray(self.rotation).ravel())
        return quat


@dataclass
class Joint:
    """A joint of the file, with its limits and losses."""

    name: str
    kind: str
    pose: Pose
    axis: np.ndarray
    keep: bool
    has_limits: bool = False
    lower: float = -UNLIMITED
    upper: float = UNLIMITED
    effort: float = UNLIMITED
    velocity: float = UNLIMITED
    damping: float = 0.0
    friction: float = 0.0


@dataclass
class Link:
    """A link, including links merged into it."""

    name: str
    mass: float | None = None
    centre: np.ndarray = field(default_factory=lambda: np.zeros(3))
    inertia: np.ndarray | None = None
    shapes: list[tuple[Pose, ET.Element]] = field(default_factory=list)
    children: list[tuple[Joint, Link]] = field(default_factory=list)

    def absorb(self, other: Link, pose: Pose) -> None:
        """Merge a link that is fixed to this one, at ``pose`` in this one's frame."""
        self.shapes += [(pose @ shape_pose, shape) for shape_pose, shape in other.shapes]
        for joint, child in other.children:
            joint.pose = pose @ joint.pose
            self.children.append((joint, child))
        if not other.mass or other.inertia is None:
            return
        centre = pose.rotation @ other.centre + pose.position
        inertia = pose.rotation @ other.inertia @ pose.rotation.T
        own_mass = self.mass if self.mass and self.inertia is not None else 0.0
        own_inertia = self.inertia if own_mass and self.inertia is not None else np.zeros((3, 3))
        total = own_mass + other.mass
        middle = (own_mass * self.centre + other.mass * centre) / total
        self.inertia = _moved(own_inertia, own_mass, self.centre - middle) + _moved(
            inertia, other.mass, centre - middle
        )
        self.mass, self.centre = total, middle


def _moved(inertia: np.ndarray, mass: float, offset: np.ndarray) -> np.ndarray:
    """Return an inertia about a point that lies ``offset`` away (the parallel axis theorem)."""
    return inertia + mass * (offset @ offset * np.eye(3) - np.outer(offset, offset))


def read_urdf(path: Path, options: AssetOptions) -> tuple[mujoco.MjSpec, list[Joint]]:
    """Return a specification with one body under the world, and the file's joints in order.

    Raises:
        ConfigurationError: If the file is not a URDF with one root, or a mesh of it is missing.
    """
    links, joints = _parse(path)
    is_child = {child for _, child, _ in joints}
    roots = [link for name, link in links.items() if name not in is_child]
    if len(roots) != 1:
        raise ConfigurationError(
            f"{path} has {len(roots)} root links ({', '.join(link.name for link in roots)}), but a "
            "URDF has one. Join them by joints."
        )
    for parent, child, joint in joints:
        links[parent].children.append((joint, links[child]))
    _arrange(roots[0], options.collapse_fixed_joints)
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    spec.compiler.balanceinertia = True
    spec.compiler.boundmass, spec.compiler.boundinertia = 1e-6, 1e-9
    builder = _Builder(spec, path, options)
    root = builder.add(spec.worldbody, roots[0], Pose(), None)
    if not options.fix_base_link:
        root.add_freejoint()
    return spec, builder.joints


def _arrange(link: Link, collapse: bool) -> None:
    """Collapse fixed joints below a link, and sort children by name, as in Isaac Gym."""
    kept = []
    while link.children:
        joint, child = link.children.pop(0)
        if collapse and joint.kind == "fixed" and not joint.keep:
            link.absorb(child, joint.pose)
        else:
            kept.append((joint, child))
    link.children = sorted(kept, key=lambda pair: pair[1].name)
    for _, child in link.children:
        _arrange(child, collapse)


_NO_SPACE = re.compile(r"""(=\s*(?:"[^"<]*"|'[^'<]*'))(?=[A-Za-z_])""")
"""A value with the next attribute behind it, without a space."""


def read_xml(path: Path) -> ET.Element:
    """Return a file's root.

    As by Isaac Gym's parser, attributes need no space between them.

    Raises:
        OSError: If the file cannot be read.
        ET.ParseError: If it is no XML.
    """
    data = path.read_bytes()
    try:
        return ET.fromstring(data)
    except ET.ParseError:
        mended = _NO_SPACE.sub(r"\1 ", data.decode("utf-8", errors="replace"))
        return ET.fromstring(mended.encode())


def _parse(path: Path) -> tuple[dict[str, Link], list[tuple[str, str, Joint]]]:
    """Return links by name, and joints with the names of the links they connect."""
    root = read_xml(path)
    links = {link.get("name", ""): _link(link) for link in root.findall("link")}
    joints = []
    for element in root.findall("joint"):
        ends = [_attribute(element, end, "link") for end in ("parent", "child")]
        unknown = [end for end in ends if end not in links]
        if unknown:
            raise ConfigurationError(
                f"{path} joins the link {unknown[0]!r} by {element.get('name')!r}, but has no such "
                "link."
            )
        joints.append((ends[0], ends[1], _joint(element)))
    return links, joints


def _link(element: ET.Element) -> Link:
    link = Link(element.get("name", ""))
    inertial = element.find("inertial")
    if inertial is not None:
        pose, moments = _origin(inertial), inertial.find("inertia")
        mass = float(_attribute(inertial, "mass", "value", "0"))
        link.mass, link.centre = mass or None, pose.position
        if moments is not None and mass:
            xx, xy, xz, yy, yz, zz = (
                float(moments.get(f"i{axes}", 0)) for axes in ("xx", "xy", "xz", "yy", "yz", "zz")
            )
            matrix = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
            if np.linalg.eigvalsh(matrix)[0] > 0.0:
                link.inertia = pose.rotation @ matrix @ pose.rotation.T
            elif matrix.any():
                logger.warning(
                    "The inertia of the link %r is impossible, because it is not positive in all "
                    "directions. It is computed from the link's mass and shapes instead.",
                    link.name,
                )
    for collision in element.findall("collision"):
        geometry = collision.find("geometry")
        if geometry is not None and len(geometry):
            link.shapes.append((_origin(collision), geometry[0]))
    return link


def _joint(element: ET.Element) -> Joint:
    joint = Joint(
        name=element.get("name", ""),
        kind=element.get("type", "fixed"),
        pose=_origin(element),
        axis=_vector(_attribute(element, "axis", "xyz", "1 0 0")),
        keep=element.get("dont_collapse") == "true",
        damping=float(_attribute(element, "dynamics", "damping", "0")),
        friction=float(_attribute(element, "dynamics", "friction", "0")),
    )
    limit = element.find("limit")
    if limit is not None:
        joint.effort = float(limit.get("effort", UNLIMITED))
        joint.velocity = float(limit.get("velocity", UNLIMITED))
        if joint.kind != "continuous" and limit.get("upper") is not None:
            joint.has_limits = True
            joint.lower, joint.upper = (float(limit.get(end, 0)) for end in ("lower", "upper"))
    return joint


class _Builder:
    """Writes links into a specification."""

    def __init__(self, spec: mujoco.MjSpec, path: Path, options: AssetOptions) -> None:
        self._spec, self._path, self._options = spec, path, options
        self._meshes: dict[tuple[str, str], str] = {}
        self.joints: list[Joint] = []

    def add(self, parent: mujoco.MjsBody, link: Link, pose: Pose, joint: Joint | None):  # type: ignore[no-untyped-def]
        """Add a link and all below it; return its body."""
        body = parent.add_body(name=link.name, pos=pose.position, quat=pose.quat)
        is_given = link.mass is not None and link.inertia is not None
        for shape_pose, shape in link.shapes:
            self._add_shape(body, shape_pose, shape, 0.0 if is_given else self._options.density)
        shapes = list(body.geoms)
        if link.mass is not None and link.inertia is not None:
            inertia = link.inertia
            body.explicitinertial, body.mass, body.ipos = True, link.mass, link.centre
            body.fullinertia = [*np.diag(inertia), inertia[0, 1], inertia[0, 2], inertia[1, 2]]
        elif not shapes:
            body.explicitinertial, body.mass = True, link.mass or MASSLESS_KG
            body.inertia = [MASSLESS_INERTIA] * 3
        elif link.mass is not None:
            for shape in shapes:
                shape.mass = link.mass / len(shapes)
        if joint is not None and joint.kind in _MOVING:
            body.add_joint(
                name=joint.name,
                type=getattr(mujoco.mjtJoint, f"mjJNT_{_MOVING[joint.kind].upper()}"),
                axis=joint.axis,
                limited=joint.has_limits,
                range=[joint.lower, joint.upper] if joint.has_limits else [0, 0],
            )
        elif joint is not None and joint.kind not in ("fixed", "floating"):
            raise ConfigurationError(
                f"{self._path} has the joint {joint.name!r} of type {joint.kind!r}, but only "
                f"{', '.join(_MOVING)} and fixed joints can be simulated."
            )
        for child_joint, child in link.children:
            self.joints.append(child_joint)
            self.add(body, child, child_joint.pose, child_joint)
        return body

    def _add_shape(
        self, body: mujoco.MjsBody, pose: Pose, shape: ET.Element, density: float
    ) -> None:
        kinds, place = mujoco.mjtGeom, {"pos": pose.position, "quat": pose.quat, "density": density}
        if shape.tag == "box":
            body.add_geom(type=kinds.mjGEOM_BOX, size=_vector(shape.get("size", "")) / 2, **place)
        elif shape.tag == "sphere":
            radius = float(shape.get("radius", 0))
            body.add_geom(type=kinds.mjGEOM_SPHERE, size=[radius, 0, 0], **place)
        elif shape.tag in ("cylinder", "capsule"):
            is_round = shape.tag == "capsule" or self._options.replace_cylinder_with_capsule
            kind = kinds.mjGEOM_CAPSULE if is_round else kinds.mjGEOM_CYLINDER
            size = [float(shape.get("radius", 0)), float(shape.get("length", 0)) / 2, 0]
            body.add_geom(type=kind, size=size, **place)
        elif shape.tag == "mesh" and (mesh := self._mesh(shape)):
            body.add_geom(type=kinds.mjGEOM_MESH, meshname=mesh, **place)

    def _mesh(self, shape: ET.Element) -> str | None:
        """Return the name of a mesh in the specification; None if its format is not read."""
        named, scale = shape.get("filename", ""), shape.get("scale", "1 1 1")
        if (named, scale) in self._meshes:
            return self._meshes[named, scale]
        path = self._find(named)
        if path.suffix.lower() not in MESH_SUFFIXES:
            logger.warning(
                "%s: the collision shape %s is ignored; only %s are read.",
                *(self._path.name, named, ", ".join(MESH_SUFFIXES)),
            )
            return None
        name = self._meshes[named, scale] = f"mesh{len(self._meshes)}"
        self._spec.add_mesh(
            name=name,
            file=str(path.resolve()),
            scale=_vector(scale),
            inertia=mujoco.mjtMeshInertia.mjMESH_INERTIA_CONVEX,
        )
        return name

    def _find(self, named: str) -> Path:
        """Return the path of a mesh: next to the file, or in the package that its name begins with.

        Raises:
            ConfigurationError: If it is not found.
        """
        relative = named.split("://", 1)[-1]
        folder = self._path.resolve().parent
        below = relative.split("/", 1)[-1]
        for start in (folder, *folder.parents[:3]):
            for part in (relative, below):
                if (start / part).is_file():
                    return start / part
        raise ConfigurationError(
            f"{self._path} has a collision mesh {named!r}, which is neither next to it nor in a "
            "folder above. Fetch it: large files are often missing from a shallow copy or LFS."
        )


def _origin(element: ET.Element) -> Pose:
    roll, pitch, yaw = _vector(_attribute(element, "origin", "rpy", "0 0 0"))
    turns = ((0, roll), (1, pitch), (2, yaw))
    rotation = np.eye(3)
    for axis, angle in turns:
        first, second = (axis + 1) % 3, (axis + 2) % 3
        turn = np.eye(3)
        turn[first, first] = turn[second, second] = np.cos(angle)
        turn[second, first] = np.sin(angle)
        turn[first, second] = -turn[second, first]
        rotation = turn @ rotation
    return Pose(rotation, _vector(_attribute(element, "origin", "xyz", "0 0 0")))


def _attribute(element: ET.Element, child: str, name: str, default: str = "") -> str:
    found = element.find(child)
    return default if found is None else found.get(name, default)


def _vector(text: str) -> np.ndarray:
    return np.array([float(number) for number in text.split()])
