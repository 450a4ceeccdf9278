"""Models for files on Nvidia's server, which are not needed: this project's own robots and props.

The table is by the end of a path, so a project's own copy that is not there (``.../go2.usd``) leads
to the same robot.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from envlab.envs.model_files import find_model, read_spec
from envlab_isaaclab.spawn_shapes import geom
from envlab_isaaclab.things import Robot, robot


@dataclass(frozen=True)
class Entry:
    """A robot of ours that replaces a file."""

    model: str
    """Its name in ``envlab_assets``, or its source as in ``env.scene.model``."""
    siblings: Literal["name", "file"] = "name"
    root: str | None = None
    is_fixed: bool = False
    top: str | None = None
    """The topmost body of the robot, if the model has several."""
    root_name: str | None = None
    """The topmost body's name in the file, if it is another."""
    links: tuple[tuple[str, str] | tuple[str, str, str], ...] = ()
    """Links of the file that our model lacks, which touch nothing and weigh nothing to speak of:
    name, link above, and a hinge's name if one turns it."""


_ROBOTS = {
    r"cartpole/cartpole\.usd": Entry("cartpole", "file", root="slider", is_fixed=True),
    r"cartdoublependulum/cart_double_pendulum\.usd": Entry(
        "cart_double_pendulum", "file", root="rail", is_fixed=True
    ),
    r"ant/ant_instanceable\.usd|ant\.usd": Entry("ant", "file"),
    r"humanoid/humanoid_instanceable\.usd": Entry("humanoid", "file"),
    r"humanoid28/humanoid_28\.usd": Entry("humanoid_28", "file"),
    r"a1\.usd": Entry("envlab_tasks:locomotion/velocity/a1/a1.xml", root_name="trunk"),
    r"go1\.usd": Entry("go1"),
    r"go2\.usd": Entry("go2", links=(("Head_upper", "base"), ("Head_lower", "Head_upper"))),
    r"anymal_b\.usd": Entry("anymal_b"),
    r"anymal_c\.usd": Entry("anymal_c"),
    r"anymal_d(_minimal)?\.usd": Entry("anymal_d"),
    r"cassie\.usd": Entry("cassie"),
    r"h1(_minimal)?\.usd": Entry("h1"),
    r"g1(_minimal)?\.usd": Entry("g1"),
    r"g1_29dof(_rev_1_0)?\.usd": Entry("g1_29"),
    r"panda_instanceable\.usd|franka\.usd": Entry("franka", is_fixed=True),
    r"spot\.usd": Entry("spot"),
    r"shadow_hand_instanceable\.usd": Entry("shadow", is_fixed=True),
    r"allegro_hand_instanceable\.usd": Entry("allegro", is_fixed=True),
    r"ur10_instanceable\.usd": Entry("ur10_reach", is_fixed=True),
    r"sektion_cabinet_instanceable\.usd": Entry(
        "franka_cabinet",
        is_fixed=True,
        top="cabinet",
        root_name="sektion",
        links=(
            ("door_left_link", "sektion", "door_left_joint"),
            ("door_right_link", "sektion", "door_right_joint"),
            ("drawer_bottom", "sektion", "drawer_bottom_joint"),
        ),
    ),
    r"cf2x\.usd": Entry(
        "quadcopter", links=tuple((f"m{n}_prop", "body", f"m{n}_joint") for n in range(1, 5))
    ),
}

PROPS: dict[str, tuple[str, Any, float]] = {
    r"seattlelabtable/table_instanceable\.usd": (
        "fixed",
        geom("BOX", [0.35, 0.6, 0.5], pos=[0.0, 0.0, -0.5]),
        0.0,
    ),
    r"dexcube/dex_cube_instanceable\.usd": ("body", [0.03, 0.03, 0.03], 0.216),
    r"(red|green|blue|yellow)_block\.usd": ("body", [0.0235, 0.0235, 0.0235], 0.1),
    r"stand/stand_instanceable\.usd": (
        "fixed",
        geom("BOX", [0.1, 0.1, 0.4], pos=[0, 0, -0.4]),
        0.0,
    ),
}
"""Props as boxes: half sizes in m and a mass in kg at scale 1. A table's top is at height 0."""


def find_robot(path: str, **settings: Any) -> Robot | None:
    """Return our robot for a file, None if there is none.

    Args:
        path: The file.
        settings: More of what :class:`Robot` says.
    """
    entry = _entry(path)
    if entry is None:
        return None
    is_source = ":" in entry.model
    source = entry.model if is_source else f"envlab_assets:robots/{entry.model}.xml"
    spec = read_spec(find_model(source))
    for body in list(spec.worldbody.bodies):
        if entry.top is not None and body.name != entry.top:
            spec.delete(body)
    if entry.root_name is not None:
        spec.worldbody.bodies[0].name = entry.root_name
    for link, above, *joints in entry.links:
        body = spec.body(above).add_body(name=link)
        for joint in joints:
            body.mass, body.inertia, body.explicitinertial = 1e-4, [1e-6] * 3, True
            body.add_joint(name=joint)
    settings.setdefault("is_fixed", entry.is_fixed)
    return robot(spec, siblings=entry.siblings, root=entry.root, **settings)


def knows_robot(path: str) -> bool:
    """Return whether we have a robot for a file."""
    return _entry(path) is not None


def _entry(path: str) -> Entry | None:
    for pattern, entry in _ROBOTS.items():
        if re.search(rf"(^|/)({pattern})$", path.lower()):
            return entry
    return None


def find_prop(path: str) -> tuple[str, Any, float] | None:
    """Return the shape that replaces a prop's file; None if we have none."""
    for pattern, prop in PROPS.items():
        if re.search(rf"(^|/)({pattern})$", path.lower()):
            return prop
    return None
