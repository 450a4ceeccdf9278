"""Draws depth images of all environments together, of cameras on bodies: see ``depth_raster``.

It needs the package ``warp-lang``. It has not run on a GPU yet: there the same functions cast a ray
for every pixel, which is tested only on Warp's CPU device.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import mujoco
import numpy as np
import torch
import warp as wp

from envlab.errors import ConfigurationError
from envlab.sim.depth_raster import draw_frames
from envlab.sim.depth_rays import cast_rays
from envlab.sim.depth_scene import Ground, Shapes, View
from envlab.sim.depth_shapes import BOX, CAPSULE, CYLINDER, ELLIPSOID, PLANE, SPHERE
from envlab.sim.height_field import HeightField

ENVS_PER_THREAD = 32
"""Fewer are not worth another CPU thread."""
_DRAWN = (PLANE, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX)
_HEIGHT_FIELD = int(mujoco.mjtGeom.mjGEOM_HFIELD)


@dataclass(frozen=True, kw_only=True)
class Pinhole:
    """A pinhole camera on a body."""

    body: int
    """The body's index."""
    position: np.ndarray
    """In the body's frame, in m, ``(3,)``."""
    rotation: np.ndarray
    """From the camera's frame (x right, y down, z ahead) to the body's, ``(3, 3)``."""
    height: int
    """Pixels from top to bottom."""
    width: int
    """Pixels from left to right."""
    intrinsics: np.ndarray
    """Focal lengths and principal point in pixels, ``((fx, 0, cx), (0, fy, cy), (0, 0, 1))``."""
    clipping_range: tuple[float, float]
    """Nearest and farthest visible depth, in m."""

    def rays(self) -> np.ndarray:
        """Return x and y of the pixels' centres at depth 1, ``(height, width, 2)``."""
        fx, fy, cx, cy = self.intrinsics[[0, 1, 0, 1], [0, 1, 2, 2]]
        x = (np.arange(self.width) + 0.5 - cx) / fx
        y = (np.arange(self.height) + 0.5 - cy) / fy
        return np.stack(np.meshgrid(x, y), axis=-1)


class DepthImages:
    """Draws cameras' images into frames."""

    def __init__(
        self,
        camera: Pinhole,
        model: mujoco.MjModel,
        geoms: Sequence[int],
        *,
        xpos: torch.Tensor,
        xquat: torch.Tensor,
        wanted: torch.Tensor,
        slot: torch.Tensor,
        frames: torch.Tensor,
        num_threads: int = 1,
        by_rays: bool | None = None,
    ) -> None:
        """Prepare to draw; all tensors are read or written at each :meth:`draw`.

        Args:
            camera: The camera.
            model: The model.
            geoms: Indices of the visible geoms.
            xpos: Positions of the bodies in m, ``(num_envs, nbody, 3)``.
            xquat: Their orientations (w, x, y, z), ``(num_envs, nbody, 4)``.
            wanted: Environments to draw, bool ``(num_envs,)``.
            slot: Index of the frame to draw on, int32 ``(num_envs,)``.
            frames: The frames, float32 ``(num_envs, num_slots, height, width)``: depth in m,
                inf where nothing is seen.
            num_threads: Threads on a CPU.
            by_rays: Whether a ray is cast for every pixel; None: on a GPU.

        Raises:
            ConfigurationError: For a geom that cannot be drawn.
        """
        wp.init()
        device = xpos.device
        fields = [geom for geom in geoms if model.geom_type[geom] == _HEIGHT_FIELD]
        others = [geom for geom in geoms if model.geom_type[geom] != _HEIGHT_FIELD]
        _check(model, fields, others)
        self._kept: list[torch.Tensor] = []  # by Warp they are not
        view, shapes = _view(camera), self._shapes(model, others, device)
        ground, reach = Ground(), 1
        if fields:
            field = HeightField(model, model.geom(fields[0]).name, device)
            ground = self._ground(field)
            ends = np.linalg.norm(np.dstack((camera.rays(), np.ones(frames.shape[2:]))), axis=2)
            span = 2.0 * camera.clipping_range[1] * float(ends.max()) / field.spacing[0]
            reach = min(math.ceil(span) + 3, field.data.shape[1])
        is_cpu = device.type == "cpu"
        scene = [view, ground, shapes, *map(wp.from_torch, (xpos, xquat, wanted, slot))]
        self._kept += [xpos, xquat, wanted, slot, frames]
        target = wp.from_torch(frames)
        options = {"device": wp.device_from_torch(device), "record_cmd": True}
        if not is_cpu if by_rays is None else by_rays:
            sizes = (len(xpos), camera.height, camera.width)
            self._launches = [wp.launch(cast_rays, sizes, inputs=[*scene, target], **options)]
        else:
            parts = max(1, min(num_threads, len(xpos) // ENVS_PER_THREAD))
            bounds = [len(xpos) * part // parts for part in range(parts + 1)]
            self._launches = [
                wp.launch(
                    draw_frames,
                    last - first,
                    inputs=[*scene, first, *self._room(reach), target],
                    **options,
                )
                for first, last in itertools.pairwise(bounds)
            ]
        self._pool = ThreadPoolExecutor(len(self._launches), thread_name_prefix="depth")

    def draw(self) -> None:
        """Draw the wanted environments."""
        # One part of the work stays in this thread.
        others = [self._pool.submit(launch.launch) for launch in self._launches[1:]]
        self._launches[0].launch()
        for other in others:
            other.result()

    def _keep(self, values: torch.Tensor, dtype: object = None) -> wp.array:
        self._kept.append(values)
        return wp.from_torch(values, dtype=dtype)

    def _room(self, columns: int) -> list[wp.array]:
        """Return buffers for two rows of a height field's corners, for one thread."""
        return [
            self._keep(torch.zeros(2, columns, 3), wp.vec3),
            self._keep(torch.zeros(2, columns, 2), wp.vec2),
            self._keep(torch.zeros(2, columns, dtype=torch.int32)),
        ]

    def _ground(self, field: HeightField) -> Ground:
        ground = Ground()
        ground.heights = self._keep(field.data)
        (ground.x, ground.y), (ground.dx, ground.dy) = field.start, field.spacing
        return ground

    def _shapes(self, model: mujoco.MjModel, geoms: list[int], device: torch.device) -> Shapes:
        def tensor(values: np.ndarray, dtype: torch.dtype = torch.float32) -> torch.Tensor:
            return torch.tensor(np.ascontiguousarray(values), dtype=dtype, device=device)

        shapes, boxes = Shapes(), model.geom_aabb[geoms]
        rotations = np.zeros((len(geoms), 9))
        for row, geom in zip(rotations, geoms, strict=True):
            mujoco.mju_quat2Mat(row, model.geom_quat[geom])
        shapes.kind = self._keep(tensor(model.geom_type[geoms], torch.int32))
        shapes.body = self._keep(tensor(model.geom_bodyid[geoms], torch.int32))
        shapes.position = self._keep(tensor(model.geom_pos[geoms]), wp.vec3)
        shapes.rotation = self._keep(tensor(rotations.reshape(-1, 3, 3)), wp.mat33)
        shapes.size = self._keep(tensor(model.geom_size[geoms]), wp.vec3)
        shapes.centre = self._keep(tensor(boxes[:, :3]), wp.vec3)
        shapes.half = self._keep(tensor(boxes[:, 3:]), wp.vec3)
        return shapes


def _view(camera: Pinhole) -> View:
    view, rays = View(), camera.rays()
    view.body, view.height, view.width = camera.body, camera.height, camera.width
    view.position = wp.vec3(*camera.position.tolist())
    view.rotation = wp.mat33(*camera.rotation.ravel().tolist())
    view.x0, view.y0 = rays[0, 0].tolist()
    view.dx, view.dy = (1.0 / camera.intrinsics[[0, 1], [0, 1]]).tolist()
    view.near, view.far = camera.clipping_range
    return view


def _check(model: mujoco.MjModel, fields: list[int], others: list[int]) -> None:
    if len(fields) > 1:
        names = " and ".join(repr(model.geom(geom).name) for geom in fields[:2])
        raise ConfigurationError(
            f"A depth camera sees one height field, but here are {names}. Keep one of them out of "
            "its geom_groups."
        )
    for geom in others:
        if int(model.geom_type[geom]) not in map(int, _DRAWN):
            kind = mujoco.mjtGeom(int(model.geom_type[geom])).name.removeprefix("mjGEOM_").lower()
            body = model.body(int(model.geom_bodyid[geom])).name
            raise ConfigurationError(
                f"A depth camera cannot draw a geom of type {kind}, such as geom {geom} of body "
                f"{body!r}. Leave its group out of the camera's geom_groups."
            )
