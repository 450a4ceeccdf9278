"""Markers in a picture, such as goals, which are not part of the physics."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np

_HIDDEN = 3
"""From this group of geoms on, MuJoCo's own viewer draws none by default."""


def add_sphere(
    scene: mujoco.MjvScene,
    position: np.ndarray,
    *,
    radius: float,
    rgba: Sequence[float],
) -> None:
    """Add a sphere to a scene that is about to be drawn.

    Args:
        scene: The argument of the environment's ``add_markers``.
        position: Its centre in the world, in m, ``(3,)``.
        radius: In m.
        rgba: Colour and opacity, 0 to 1.
    """
    if scene.ngeom >= scene.maxgeom:
        return  # a full scene is drawn without it
    mujoco.mjv_initGeom(
        scene.geoms[scene.ngeom],
        type=mujoco.mjtGeom.mjGEOM_SPHERE,
        size=np.full(3, radius),
        pos=np.asarray(position, dtype=np.float64),
        mat=np.eye(3).ravel(),
        rgba=np.asarray(rgba, dtype=np.float32),
    )
    scene.ngeom += 1


def add_frame(
    scene: mujoco.MjvScene, position: np.ndarray, quaternion: np.ndarray, *, length: float
) -> None:
    """Add a frame's axes to a scene that is about to be drawn: x red, y green, z blue.

    Args:
        scene: The argument of the environment's ``add_markers``.
        position: Its origin in the world, in m, ``(3,)``.
        quaternion: Its orientation, (w, x, y, z).
        length: Of the axes, in m.
    """
    matrix = np.zeros(9)
    mujoco.mju_quat2Mat(matrix, np.asarray(quaternion, dtype=np.float64))
    start = np.asarray(position, dtype=np.float64)
    for axis, rgba in enumerate(((0.9, 0.2, 0.15, 1), (0.2, 0.7, 0.25, 1), (0.2, 0.4, 0.9, 1))):
        if scene.ngeom >= scene.maxgeom:
            return
        geom = scene.geoms[scene.ngeom]
        mujoco.mjv_initGeom(
            geom,
            type=mujoco.mjtGeom.mjGEOM_CAPSULE,
            size=np.zeros(3),
            pos=np.zeros(3),
            mat=np.eye(3).ravel(),
            rgba=np.asarray(rgba, dtype=np.float32),
        )
        end = start + length * matrix.reshape(3, 3)[:, axis]
        mujoco.mjv_connector(geom, mujoco.mjtGeom.mjGEOM_CAPSULE, 0.06 * length, start, end)
        scene.ngeom += 1


def add_arrow(
    scene: mujoco.MjvScene,
    position: np.ndarray,
    vector: np.ndarray,
    *,
    width: float,
    rgba: Sequence[float],
) -> None:
    """Add an arrow to a scene that is about to be drawn, unless it is too short for its width.

    Args:
        scene: The argument of the environment's ``add_markers``.
        position: Its start in the world, in m, ``(3,)``.
        vector: From there to its tip, in m, ``(3,)``.
        width: Of its shaft, in m.
        rgba: Colour and opacity, 0 to 1.
    """
    if scene.ngeom >= scene.maxgeom or np.linalg.norm(vector) < 3.0 * width:
        return
    geom = scene.geoms[scene.ngeom]
    start = np.asarray(position, dtype=np.float64)
    mujoco.mjv_initGeom(
        geom,
        type=mujoco.mjtGeom.mjGEOM_ARROW,
        size=np.zeros(3),
        pos=np.zeros(3),
        mat=np.eye(3).ravel(),
        rgba=np.asarray(rgba, dtype=np.float32),
    )
    mujoco.mjv_connector(geom, mujoco.mjtGeom.mjGEOM_ARROW, width, start, start + vector)
    scene.ngeom += 1


def add_body(
    scene: mujoco.MjvScene,
    model: mujoco.MjModel,
    body: int,
    position: np.ndarray,
    quaternion: np.ndarray,
    rgba: Sequence[float] | None = None,
) -> None:
    """Add a copy of a body to a scene that is about to be drawn: a goal for it.

    Geoms of the groups that MuJoCo hides, 3 and above, are omitted.

    Args:
        scene: The argument of the environment's ``add_markers``.
        model: The model.
        body: Its index.
        position: Position of the copy in the world, in m, ``(3,)``.
        quaternion: Its orientation, (w, x, y, z).
        rgba: Colour and opacity, 0 to 1; None: the body's own.
    """
    turn = np.asarray(quaternion, dtype=np.float64)
    start = int(model.body_geomadr[body])
    for geom in range(start, start + int(model.body_geomnum[body])):
        if scene.ngeom >= scene.maxgeom:
            return
        if model.geom_group[geom] >= _HIDDEN:
            continue
        place, quat, matrix = np.zeros(3), np.zeros(4), np.zeros(9)
        mujoco.mju_rotVecQuat(place, model.geom_pos[geom], turn)
        mujoco.mju_mulQuat(quat, turn, model.geom_quat[geom])
        mujoco.mju_quat2Mat(matrix, quat)
        mujoco.mjv_initGeom(
            scene.geoms[scene.ngeom],
            type=model.geom_type[geom],
            size=model.geom_size[geom],
            pos=np.asarray(position, dtype=np.float64) + place,
            mat=matrix,
            rgba=model.geom_rgba[geom] if rgba is None else np.asarray(rgba, dtype=np.float32),
        )
        scene.ngeom += 1
