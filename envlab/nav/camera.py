"""Cameras: depth, colour and labels of what agents see, for all environments at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import torch
import warp as wp

from envlab.config import check_ranges
from envlab.nav.camera_kernels import (
    Images,
    Light,
    Paint,
    Primitive,
    Scene,
    Scratch,
    View,
    Wall,
    draw,
    draw_tilted,
)
from envlab.nav.house import CEILING_HEIGHT, CELL
from envlab.nav.nav_cfg import CameraCfg, ImageKind
from envlab.nav.paint_kernels import paint

CHANNELS: dict[ImageKind, tuple[int, torch.dtype]] = {
    "depth": (1, torch.float32),
    "rgb": (3, torch.uint8),
    "labels": (1, torch.uint8),
    "goal_mask": (1, torch.uint8),
}
"""Channels of a camera's image, and their type."""
CPU_BATCH = 64
"""Environments that a CPU thread draws between two looks at its work: 2 MB of scratch memory."""


class Camera:
    """Draws what the agents of a batch of environments see."""

    def __init__(
        self,
        cfg: CameraCfg,
        houses: Mapping[str, torch.Tensor],
        *,
        slot: torch.Tensor,
        pose: torch.Tensor,
        goal_class: torch.Tensor,
        kinds: tuple[ImageKind, ...],
        num_threads: int = 1,
        strip: int | None = None,
    ) -> None:
        """Prepare to draw.

        Args:
            cfg: Sizes and directions.
            houses: The houses in memory, ``(num_slots, ...)`` each: ``HouseSet.arrays``.
            slot: House of each environment, int32 ``(num_envs,)``; read at each picture.
            pose: x, y, height of the camera in m, yaw in rad and tangent of the pitch, float32
                ``(num_envs, 5)``; read at each picture.
            goal_class: Class of the goal, int32 ``(num_envs,)``; -1: none.
            kinds: What images are wanted of.
            num_threads: Threads on a CPU.
            strip: Columns of an image that one thread of a kernel draws; None: one on a GPU, all on
                a CPU, where each thread's start costs as much as a column.

        Raises:
            ConfigurationError: If ``cfg`` makes no image.
        """
        check_ranges(cfg, "env.camera")
        wp.init()
        self.cfg, self.kinds, self.device = cfg, kinds, pose.device
        self._num_envs, self._cameras = len(pose), len(cfg.headings_deg)
        headings = torch.tensor(cfg.headings_deg, device=self.device).deg2rad()
        self._scene = _scene(houses, slot, pose, goal_class, headings)
        is_cpu = self.device.type == "cpu"
        strip = strip or (cfg.width if is_cpu else 1)
        self._strips = -(-cfg.width // strip)
        self._device = wp.device_from_torch(self.device)
        self._view = _view(cfg, kinds, strip)
        self._seen = torch.zeros(
            self._num_envs, self._cameras, self._strips, dtype=torch.int32, device=self.device
        )
        num_threads = max(1, min(num_threads, -(-self._num_envs // CPU_BATCH))) if is_cpu else 1
        self._batch = CPU_BATCH if is_cpu else self._num_envs
        self._scratches = [self._make_scratch() for _ in range(num_threads)]
        self._wanted = torch.zeros(self._num_envs, dtype=torch.bool, device=self.device)
        self._launches = [
            self._record(first, self._scratches[number % num_threads][0])
            for number, first in enumerate(range(0, self._num_envs, self._batch))
        ]
        self._pool = ThreadPoolExecutor(num_threads, thread_name_prefix="camera")

    def shape(self, kind: ImageKind) -> tuple[int, int, int]:
        """Return the shape of an image: height, width, channels."""
        return (self.cfg.height, self.cfg.width, CHANNELS[kind][0] * self._cameras)

    def new_images(self) -> dict[ImageKind, torch.Tensor]:
        """Return images that nothing is drawn on yet, ``(num_envs, height, width, channels)``."""
        return {
            kind: torch.empty(
                self._num_envs, *self.shape(kind), dtype=CHANNELS[kind][1], device=self.device
            )
            for kind in self.kinds
        }

    def draw(self, images: dict[ImageKind, torch.Tensor], mask: torch.Tensor) -> None:
        """Draw the images of some environments.

        Args:
            images: From :meth:`new_images`; their other rows stay as they are.
            mask: Which environments to draw, bool ``(num_envs,)``.
        """
        arrays = Images()
        arrays.seen = wp.from_torch(self._seen)
        for kind, values in images.items():
            if kind == "rgb":
                values = values.view(*values.shape[:3], self._cameras, 3)
            dtype = {"depth": wp.float32, "rgb": wp.vec3ub}.get(kind, wp.uint8)
            setattr(arrays, kind, wp.from_torch(values, dtype=dtype))
        self._wanted.copy_(mask)
        # One piece of work stays in this thread.
        threads = range(1, len(self._scratches))
        others = [self._pool.submit(self._draw_batches, thread, arrays) for thread in threads]
        self._draw_batches(0, arrays)
        for other in others:
            other.result()

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()

    def goal_pixels(self) -> torch.Tensor:
        """Return how many pixels of the latest images show the goal's class, ``(num_envs,)``."""
        return self._seen.sum(dim=(1, 2))

    def _draw_batches(self, thread: int, images: Images) -> None:
        """Draw what is this thread's part of the environments."""
        step = len(self._scratches)
        for number in range(thread, len(self._launches), step):
            first = number * self._batch
            if self.device.type == "cpu" and not self._wanted[first : first + self._batch].any():
                continue
            draws, paints = self._launches[number]
            paints.set_param_at_index(5, images)
            draws.launch()
            paints.launch()

    def _record(self, first: int, scratch: Scratch) -> tuple[wp.Launch, wp.Launch]:
        """Return the launches for a batch of environments: packing their arguments takes longer.

        Recorded, they take 20 us, and 100 us else.
        """
        inputs = [self._scene, self._view, wp.from_torch(self._wanted), first, scratch]
        count = min(self._batch, self._num_envs - first)
        kernel = draw_tilted if self.cfg.pitch == "tilt" else draw
        recorded = [
            wp.launch(
                kernel,
                dim=(count, self._cameras, self._strips),
                inputs=arguments,
                device=self._device,
                record_cmd=True,
            )
            for kernel, arguments in ((kernel, inputs), (paint, [*inputs, Images()]))
        ]
        return recorded[0], recorded[1]

    def _make_scratch(self) -> tuple[Scratch, tuple[torch.Tensor, ...]]:
        """Return what a thread draws on, and the tensors that hold it."""
        height, width = self.cfg.height, self.cfg.width
        rows = min(self._batch, self._num_envs) * self._cameras
        near_wall = torch.empty(rows, width, device=self.device)
        depth = torch.empty(rows, width, height, device=self.device)
        hit = torch.empty(rows, width, height, dtype=torch.int32, device=self.device)
        scratch = Scratch()
        scratch.near_wall, scratch.depth, scratch.hit = map(wp.from_torch, (near_wall, depth, hit))
        return scratch, (near_wall, depth, hit)


def _scene(houses: Mapping[str, torch.Tensor], *tensors: torch.Tensor) -> Scene:
    scene = Scene()
    rows = {"walls": Wall, "primitives": Primitive, "colours": wp.vec3}
    for name, dtype in (rows | {"paints": Paint, "light": Light, "room_of": wp.uint8}).items():
        setattr(scene, name, wp.from_torch(houses[name], dtype=dtype))
    for name, values in zip(("slot", "pose", "goal_class", "headings"), tensors, strict=True):
        setattr(scene, name, wp.from_torch(values))
    scene.ceiling, scene.cells_per_m = CEILING_HEIGHT, 1.0 / CELL
    return scene


def _view(cfg: CameraCfg, kinds: tuple[ImageKind, ...], strip: int) -> View:
    view = View()
    view.height, view.width, view.strip = cfg.height, cfg.width, strip
    view.pixel = 2.0 * math.tan(math.radians(cfg.hfov_deg) / 2) / cfg.width
    view.tilts = cfg.pitch == "tilt"
    view.wants_depth, view.wants_rgb = "depth" in kinds, "rgb" in kinds
    view.wants_labels, view.wants_mask = "labels" in kinds, "goal_mask" in kinds
    return view
