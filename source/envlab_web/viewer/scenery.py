"""Static objects: the ground, and the other fixed bodies of each environment."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any
from unittest import mock

import mujoco
import numpy as np
import trimesh
import viser
from mjviser.conversions import (
    get_body_name,
    group_geoms_by_visual_compat,
    is_fixed_body,
    merge_geoms,
)

from envlab_web.viewer.messages import Stage

SPACING = 1.5
"""Distance of environments that are laid out, in units of the robot's extent."""
WIDE_TYPES = tuple(map(int, (mujoco.mjtGeom.mjGEOM_PLANE, mujoco.mjtGeom.mjGEOM_HFIELD)))
"""Types of ground, which environments share."""
TILE_M = 1.0
"""Side of the ground's tiles."""
NUM_TILES = 60
"""Tiles along each side of the drawn ground, which follows the camera."""
TILE_COLOURS = ((150, 160, 172), (128, 138, 150))


@contextlib.contextmanager
def painted_meshes() -> Iterator[None]:
    """Give meshes made in this context a paint material.

    trimesh writes colours without a material, which glTF treats as metal: black without an
    environment to reflect.
    """
    export = trimesh.Trimesh.export

    def painted(mesh: trimesh.Trimesh, *words: Any, **options: Any) -> Any:
        return export(mesh, *words, tree_postprocessor=_paint, **options)

    with mock.patch.object(trimesh.Trimesh, "export", painted):
        yield


def _paint(tree: dict[str, Any]) -> None:
    """Add a material to the parts of a glTF document without one."""
    materials = tree.setdefault("materials", [])
    for primitive in (one for mesh in tree["meshes"] for one in mesh["primitives"]):
        primitive.setdefault("material", len(materials))
    paint = {"metallicFactor": 0.0, "roughnessFactor": 0.7}
    materials.append({"pbrMetallicRoughness": paint})


class Ground:
    """A tiled plane in place of each of the model's planes, if any.

    mjviser's own is an infinite grid, which takes 3 s a picture on a CPU.
    """

    def __init__(self, server: viser.ViserServer, model: mujoco.MjModel) -> None:
        self._handles: list[viser.MeshHandle] = []
        for geom in np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE):
            body = int(model.geom_bodyid[geom])
            if not is_fixed_body(model, body):
                continue
            name = mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_GEOM, geom)
            server.scene.remove_by_name(f"/fixed_bodies/{get_body_name(model, body)}/{name}")
            for index, colour in enumerate(TILE_COLOURS):
                handle = server.scene.add_mesh_simple(
                    f"/fixed_bodies/ground/{geom}/{index}",
                    *_tiles(index),
                    color=colour,
                    position=model.geom_pos[geom],
                    wxyz=model.geom_quat[geom],
                    cast_shadow=False,
                )
                self._handles.append(handle)

    def move(self, centre: np.ndarray) -> None:
        """Draw it around ``centre``, in m, ``(3,)``, without moving the pattern."""
        pattern = 2.0 * TILE_M
        x, y = (pattern * round(float(value) / pattern) for value in centre[:2])
        for handle in self._handles:
            handle.position = (x, y, handle.position[2])


class Scenery:
    """Tables, rails and the like: static bodies are drawn once, but each environment has them."""

    def __init__(self, server: viser.ViserServer, stage: Stage) -> None:
        self._handles: list[tuple[viser.BatchedGlbHandle, np.ndarray]] = []
        model = stage.model
        if stage.num_shown == 1 or stage.is_apart:
            return
        data = mujoco.MjData(model)
        mujoco.mj_kinematics(model, data)
        for body in range(model.nbody):
            start = int(model.body_geomadr[body])
            geoms = [
                geom
                for geom in range(start, start + int(model.body_geomnum[body]))
                if is_fixed_body(model, body)
                and int(model.geom_type[geom]) not in WIDE_TYPES
                and model.geom_group[geom] < 3
                and model.geom_rgba[geom, 3] > 0
            ]
            for index, group in enumerate(group_geoms_by_visual_compat(model, geoms)):
                handle = server.scene.add_batched_meshes_trimesh(
                    f"/fixed_bodies/others/{body}/{index}",
                    merge_geoms(model, group),
                    batched_wxyzs=np.tile(data.xquat[body], (stage.num_shown - 1, 1)),
                    batched_positions=np.tile(data.xpos[body], (stage.num_shown - 1, 1)),
                )
                self._handles.append((handle, data.xpos[body].copy()))

    def move(self, spots: np.ndarray, followed: int, is_hidden: bool) -> None:
        """Draw it for all environments except the followed one, which has it already."""
        others = np.delete(spots, followed, axis=0)
        for handle, position in self._handles:
            handle.visible = not is_hidden
            handle.batched_positions = position + others


def extent_of(model: mujoco.MjModel) -> float:
    """Return the approximate size of the moving parts, in m."""
    data = mujoco.MjData(model)
    if model.nkey:
        mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_kinematics(model, data)
    moves = np.array([not is_fixed_body(model, int(body)) for body in model.geom_bodyid], bool)
    if not moves.any():
        return float(model.stat.extent)
    radius = model.geom_rbound[moves, None]
    low, high = (data.geom_xpos[moves] - radius).min(0), (data.geom_xpos[moves] + radius).max(0)
    return float(np.linalg.norm(high - low))


def spots_of(stage: Stage) -> np.ndarray:
    """Return the place of each shown environment in the layout, in m, ``(num_shown, 3)``.

    They are all zero if environments already lie apart.
    """
    spots = np.zeros((stage.num_shown, 3))
    if not stage.is_apart:
        columns = math.ceil(math.sqrt(stage.num_shown))
        gap = SPACING * extent_of(stage.model)
        for index in range(stage.num_shown):
            # Behind the first one, as seen from the camera.
            spots[index, :2] = -gap * (index // columns), gap * (index % columns)
    return spots


def _tiles(parity: int) -> tuple[np.ndarray, np.ndarray]:
    """Return every other tile as a mesh, vertices and faces; the centre of all is at 0."""
    side = np.arange(NUM_TILES) - NUM_TILES // 2
    x, y = (values.ravel() for values in np.meshgrid(side, side, indexing="ij"))
    is_wanted = (x + y) % 2 == parity
    tiles = np.stack([x, y, 0 * x], axis=1)[is_wanted, None]
    vertices = TILE_M * (tiles + np.array([(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0)]))
    first = 4 * np.arange(len(tiles))[:, None]
    faces = np.concatenate([first + np.array(three) for three in ((0, 1, 2), (0, 2, 3))])
    return vertices.reshape(-1, 3).astype(np.float32), faces.astype(np.uint32)
