"""Putting generated ground into a model: a height field, and boxes for what it cannot express."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np

from envlab.envs.terrain.cfg import TerrainCfg
from envlab.envs.terrain.generator import generate

FIELD = "terrain"
"""The height field's name."""
GROUP = 1
"""The ground's geom group, which allows rays against the ground alone; shown by default."""
_DEPTH = 1.0
"""Thickness of the ground below its lowest point and of the border, in m."""
_PLANE = mujoco.mjtGeom.mjGEOM_PLANE


def add_terrain(spec: mujoco.MjSpec, cfg: TerrainCfg) -> None:
    """Turn the world's floor into generated ground, which keeps its name, material and friction.

    If the world has no plane, a geom called ``floor`` is added.

    Raises:
        ConfigurationError: For proportions or sizes that are not valid.
    """
    generator = cfg.terrain_generator
    ground = generate(generator)
    low, high = float(ground.heights.min()), float(ground.heights.max())
    rise = max(high - low, 1e-3)  # of flat ground, which must not be 0
    half_x, half_y = (0.5 * length for length in ground.size)
    spec.add_hfield(
        name=FIELD,
        size=[half_x, half_y, rise, _DEPTH],
        nrow=ground.heights.shape[1],
        ncol=ground.heights.shape[0],
        userdata=((ground.heights.T - low) / rise).ravel(),
    )
    floor = _floor(spec)
    floor.type = mujoco.mjtGeom.mjGEOM_HFIELD
    floor.hfieldname = FIELD
    floor.group = GROUP
    floor.pos, floor.quat, floor.size = [0.0, 0.0, low], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0]
    width = generator.border_width
    if width > 0.0:
        whole_x = half_x + width
        for name, centre, half in (
            ("x0", (-half_x - 0.5 * width, 0.0), (0.5 * width, half_y)),
            ("x1", (half_x + 0.5 * width, 0.0), (0.5 * width, half_y)),
            ("y0", (0.0, -half_y - 0.5 * width), (whole_x, 0.5 * width)),
            ("y1", (0.0, half_y + 0.5 * width), (whole_x, 0.5 * width)),
        ):
            _add_box(spec, floor, f"border_{name}", (*centre, -0.5 * _DEPTH), (*half, 0.5 * _DEPTH))
    for number, box in enumerate(ground.boxes):
        _add_box(spec, floor, f"box_{number}", box.centre, box.half)


def _floor(spec: mujoco.MjSpec) -> mujoco.MjsGeom:
    for geom in spec.worldbody.geoms:
        if geom.type == _PLANE:
            return geom
    return spec.worldbody.add_geom(name="floor", rgba=[0.55, 0.55, 0.5, 1.0])


def _add_box(
    spec: mujoco.MjSpec,
    floor: mujoco.MjsGeom,
    name: str,
    centre: Sequence[float] | np.ndarray,
    half: Sequence[float] | np.ndarray,
) -> None:
    """Add a box that is otherwise like the floor."""
    shared = "material contype conaffinity condim priority group solmix margin gap".split()
    spec.worldbody.add_geom(
        name=f"{floor.name or 'floor'}_{name}",
        type=mujoco.mjtGeom.mjGEOM_BOX,
        pos=list(centre),
        size=list(half),
        friction=floor.friction.copy(),
        solref=floor.solref.copy(),
        solimp=floor.solimp.copy(),
        rgba=floor.rgba.copy(),
        **{field: getattr(floor, field) for field in shared},
    )


def surface(model: mujoco.MjModel) -> str:
    """Return the name of the geom that is the generated ground of ``model``."""
    field = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_HFIELD, FIELD)
    shown = (model.geom_type == mujoco.mjtGeom.mjGEOM_HFIELD) & (model.geom_dataid == field)
    name: str = model.geom(int(np.flatnonzero(shown)[0])).name
    return name
