"""Links on fixed joints become part of those above them, as Isaac Sim's reader of URDF does it."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import mujoco

_KEEP = "kept by envlab_isaaclab: "


def merge_fixed_joints(spec: mujoco.MjSpec, path: Path) -> mujoco.MjSpec:
    """Return a robot's model without the links that its URDF file lets be merged.

    Args:
        spec: The model.
        path: The file, in which ``dont_collapse="true"`` keeps a fixed joint's link.
    """
    joints = ElementTree.parse(path).getroot().iter("joint")
    kept = [
        child.get("link", "")
        for joint in joints
        if joint.get("dont_collapse") == "true" and (child := joint.find("child")) is not None
    ]
    # MuJoCo merges what has no joint, the root too: these have one for as long as it takes.
    for name in [*kept, *(body.name for body in spec.worldbody.bodies)]:
        body = spec.body(name)
        if body is not None and not list(body.joints):
            body.add_joint(name=_KEEP + name)
            if not body.mass and not list(body.geoms):
                body.mass, body.inertia, body.explicitinertial = 1e-6, [1e-9] * 3, True
    spec.compiler.fusestatic = True
    spec.compile()
    merged = mujoco.MjSpec.from_string(spec.to_xml())
    merged.modelfiledir, merged.meshdir = spec.modelfiledir, spec.meshdir
    for joint in list(merged.joints):
        if joint.name.startswith(_KEEP):
            merged.delete(joint)
    return merged
