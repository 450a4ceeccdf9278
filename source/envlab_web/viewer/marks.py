"""Goals and the like: MuJoCo's decorative geoms, drawn by viser."""

from __future__ import annotations

from typing import cast

import mujoco
import numpy as np
import trimesh
import viser
from viser import transforms

from envlab_web.viewer.messages import Markers

_ARROW = int(mujoco.mjtGeom.mjGEOM_ARROW)
_HEAD = 0.35
"""Share of an arrow's length that is its head."""


def _arrow() -> trimesh.Trimesh:
    """Return an arrow of length 1 along z, whose shaft has radius 1, to be scaled."""
    shaft = trimesh.creation.cylinder(radius=1.0, height=1.0 - _HEAD, sections=16)
    shaft.apply_translation([0.0, 0.0, 0.5 * (1.0 - _HEAD)])
    head = trimesh.creation.cone(radius=2.5, height=_HEAD, sections=16)
    head.apply_translation([0.0, 0.0, 1.0 - _HEAD])
    return cast(trimesh.Trimesh, trimesh.util.concatenate([shaft, head]))


def _shapes() -> dict[int, trimesh.Trimesh]:
    """Return meshes of size 1 by MuJoCo's types of geoms."""
    kinds = mujoco.mjtGeom
    ball = trimesh.creation.icosphere(subdivisions=2, radius=1.0)
    tube = trimesh.creation.cylinder(radius=1.0, height=2.0, sections=16)
    return {
        int(kinds.mjGEOM_SPHERE): ball,
        int(kinds.mjGEOM_ELLIPSOID): ball,
        int(kinds.mjGEOM_BOX): trimesh.creation.box(extents=[2.0, 2.0, 2.0]),
        int(kinds.mjGEOM_CYLINDER): tube,
        int(kinds.mjGEOM_CAPSULE): tube,
        _ARROW: _arrow(),
    }


class Marks:
    """Draws markers; a handle for each type of geom."""

    def __init__(self, server: viser.ViserServer) -> None:
        self._scene, self._shapes = server.scene, _shapes()
        self._handles: dict[int, viser.BatchedMeshHandle] = {}

    def draw(self, markers: Markers | None, origin: np.ndarray) -> None:
        """Show ``markers`` and no others; skip those of types without a mesh.

        Args:
            markers: What to show.
            origin: Where the world's origin is drawn, in m, ``(3,)``.
        """
        types = set() if markers is None else set(markers.types.tolist()) & set(self._shapes)
        for kind, handle in self._handles.items():
            handle.visible = kind in types
        for kind in types:
            assert markers is not None
            rows = markers.types == kind
            positions = markers.positions[rows] + origin
            turns = transforms.SO3.from_matrix(markers.rotations[rows]).wxyz
            scales = markers.sizes[rows]
            if kind == _ARROW:
                scales = np.stack([scales[:, 0], scales[:, 0], scales[:, 2]], axis=1)
            drawn = {
                "batched_wxyzs": turns,
                "batched_positions": positions,
                "batched_scales": scales,
                "batched_colors": (255 * markers.colours[rows, :3]).astype(np.uint8),
                "batched_opacities": markers.colours[rows, 3],
            }
            if kind in self._handles:
                for name, values in drawn.items():
                    setattr(self._handles[kind], name, values)
                continue
            shape = self._shapes[kind]
            self._handles[kind] = self._scene.add_batched_meshes_simple(
                f"/markers/{kind}",
                shape.vertices,
                shape.faces,
                lod="off",
                cast_shadow=False,
                **drawn,
            )
