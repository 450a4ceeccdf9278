"""Cameras: depth, colour and labels, for all environments in one batch."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
import warp as wp

from envlab.config import check_ranges
from envlab_navigation.camera_kernels import Light, Paint, Primitive, Scene, Scratch, View, Wall
from envlab_navigation.house import CEILING_HEIGHT, CELL
from envlab_navigation.nav_cfg import CameraCfg, ImageKind
from envlab_navigation.paint_kernels import Images, take_picture

CHANNELS: dict[ImageKind, tuple[int, torch.dtype]] = {
    "depth": (1, torch.float32),
    "rgb": (3, torch.uint8),
    "labels": (1, torch.uint8),
    "goal_mask": (1, torch.uint8),
}
"""Channels of a camera's image, and their type."""
ENVS_PER_THREAD = 32
"""Minimum number of environments that is worth another CPU thread."""
SPARE = 3
"""Number of unused pictures whose memory is kept."""


class Pictures(dict[ImageKind, torch.Tensor]):
    """Images of all environments by kind, ``(num_envs, height, width, channels)``.

    Attributes:
        launches: The kernel that draws on them, once for each CPU thread.
    """

    def __init__(self, images: Mapping[ImageKind, torch.Tensor], launches: list[wp.Launch]) -> None:
        super().__init__(images)
        self.launches = launches


class Memory:
    """Memory of pictures on a CPU, which is reused when they are no longer referenced.

    torch's CPU allocator would return it to the system, and touching 32 MB of fresh pages takes a
    tenth of a step of 1024 environments.
    """

    def __init__(self, arrays: dict[ImageKind, np.ndarray], launches: list[wp.Launch]) -> None:
        """Keep arrays, and the launches that draw on them, until the tensors are handed out."""
        self._arrays, self._launches = arrays, launches
        self._unused = self._references()

    @property
    def is_free(self) -> bool:
        """Whether all tensors that share this memory are gone, views and detached ones too."""
        return self._references() == self._unused

    def hand_out(self) -> Pictures:
        """Return tensors in this memory."""
        tensors = {kind: torch.from_numpy(array) for kind, array in self._arrays.items()}
        return Pictures(tensors, self._launches)

    def _references(self) -> list[int]:
        return [sys.getrefcount(array) for array in self._arrays.values()]


class Camera:
    """Draws the views of all agents of a batch of environments."""

    def __init__(
        self,
        cfg: CameraCfg,
        houses: Mapping[str, torch.Tensor],
        *,
        slot: torch.Tensor,
        pose: torch.Tensor,
        goal_class: torch.Tensor,
        kinds: tuple[ImageKind, ...],
        mirrored: torch.Tensor | None = None,
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
            kinds: Kinds of images to draw.
            mirrored: Whether left and right are exchanged, bool ``(num_envs,)``; read at each
                picture; None: never.
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
        if mirrored is None:
            mirrored = torch.zeros(self._num_envs, dtype=torch.bool, device=self.device)
        self._kept_alive = (headings, mirrored)  # Warp does not keep them
        self._scene = _scene(houses, slot, pose, goal_class, mirrored, headings)
        is_cpu = self.device.type == "cpu"
        strip = strip or (cfg.width if is_cpu else 1)
        self._strips = -(-cfg.width // strip)
        self._device = wp.device_from_torch(self.device)
        self._view = _view(cfg, kinds, strip)
        self._seen = torch.zeros(
            self._num_envs, self._cameras, self._strips, dtype=torch.int32, device=self.device
        )
        self._wanted = torch.zeros(self._num_envs, dtype=torch.bool, device=self.device)
        num_threads = max(1, min(num_threads, self._num_envs // ENVS_PER_THREAD)) if is_cpu else 1
        bounds = [self._num_envs * part // num_threads for part in range(num_threads + 1)]
        self._parts = list(itertools.pairwise(bounds))
        self._scratches = [self._make_scratch(strip) for _ in self._parts]
        self._memory: list[Memory] = []
        self._pool = ThreadPoolExecutor(num_threads, thread_name_prefix="camera")

    def shape(self, kind: ImageKind) -> tuple[int, int, int]:
        """Return the shape of an image: height, width, channels."""
        return (self.cfg.height, self.cfg.width, CHANNELS[kind][0] * self._cameras)

    def new_images(self) -> Pictures:
        """Return images to draw on; their contents are finite, but meaningless."""
        shapes = {kind: (self._num_envs, *self.shape(kind)) for kind in self.kinds}
        if self.device.type != "cpu":
            images = {
                kind: torch.zeros(shape, dtype=CHANNELS[kind][1], device=self.device)
                for kind, shape in shapes.items()
            }
            return Pictures(images, self._record(images))
        free = [memory for memory in self._memory if memory.is_free]
        for memory in free[SPARE:]:
            self._memory.remove(memory)
        if free:
            return free[0].hand_out()
        images = {
            kind: torch.zeros(shape, dtype=CHANNELS[kind][1]) for kind, shape in shapes.items()
        }
        arrays = {kind: values.numpy() for kind, values in images.items()}
        self._memory.append(Memory(arrays, self._record(images)))
        return self._memory[-1].hand_out()

    def draw(self, pictures: Pictures, mask: torch.Tensor) -> None:
        """Draw the images of some environments.

        Args:
            pictures: From :meth:`new_images`; their other rows stay as they are.
            mask: Which environments to draw, bool ``(num_envs,)``.
        """
        self._wanted.copy_(mask)
        # One part of the work stays in this thread.
        others = [self._pool.submit(launch.launch) for launch in pictures.launches[1:]]
        pictures.launches[0].launch()
        for other in others:
            other.result()

    def goal_pixels(self) -> torch.Tensor:
        """Return the number of the latest images' pixels of the goal's class, ``(num_envs,)``."""
        return self._seen.sum(dim=(1, 2))

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()

    def _record(self, images: Mapping[ImageKind, torch.Tensor]) -> list[wp.Launch]:
        """Return the launches that draw on images: packing their arguments takes longer.

        Recorded launches take 20 us, others 100 us.
        """
        arrays = Images()
        arrays.seen = wp.from_torch(self._seen)
        for kind, values in images.items():
            rows = values.view(self._num_envs, -1, *([3] if kind == "rgb" else []))
            dtype = {"depth": wp.float32, "rgb": wp.vec3ub}.get(kind, wp.uint8)
            setattr(arrays, kind, wp.from_torch(rows, dtype=dtype))
        wanted = wp.from_torch(self._wanted)
        return [
            wp.launch(
                take_picture,
                dim=(last - first, self._cameras, self._strips),
                inputs=[self._scene, self._view, wanted, first, scratch, arrays],
                device=self._device,
                record_cmd=True,
            )
            for (first, last), (scratch, _) in zip(self._parts, self._scratches, strict=True)
        ]

    def _make_scratch(self, strip: int) -> tuple[Scratch, dict[str, torch.Tensor]]:
        """Return the buffers that a thread draws on, and their tensors.

        On a CPU it is that of one strip, which stays in the processor's L1 cache.
        """
        rows = 1 if self.device.type == "cpu" else self._seen.numel()
        height = self.cfg.height
        shapes: dict[str, tuple[int, ...]] = {
            "inverse": (rows, height),
            "ground": (rows, height),
            "near_wall": (rows, strip),
        }
        shapes |= {"depth": (rows, strip, height), "hit": (rows, strip, height)}
        tensors = {name: torch.zeros(shape, device=self.device) for name, shape in shapes.items()}
        tensors["hit"] = tensors["hit"].int()
        scratch = Scratch()
        for name, values in tensors.items():
            setattr(scratch, name, wp.from_torch(values))
        return scratch, tensors


def _scene(houses: Mapping[str, torch.Tensor], *tensors: torch.Tensor) -> Scene:
    scene = Scene()
    rows = {"walls": Wall, "primitives": Primitive, "colours": wp.vec3}
    for name, dtype in (rows | {"paints": Paint, "light": Light, "room_of": wp.uint8}).items():
        setattr(scene, name, wp.from_torch(houses[name], dtype=dtype))
    for name, values in zip(
        ("slot", "pose", "goal_class", "mirrored", "headings"), tensors, strict=True
    ):
        setattr(scene, name, wp.from_torch(values))
    scene.ceiling, scene.cells_per_m = CEILING_HEIGHT, 1.0 / CELL
    return scene


def _view(cfg: CameraCfg, kinds: tuple[ImageKind, ...], strip: int) -> View:
    view = View()
    view.cameras, view.strip = len(cfg.headings_deg), strip
    view.height, view.width = cfg.height, cfg.width
    view.pixel = 2.0 * math.tan(math.radians(cfg.hfov_deg) / 2) / cfg.width
    view.tilts = cfg.pitch == "tilt"
    view.wants_depth, view.wants_rgb = "depth" in kinds, "rgb" in kinds
    view.wants_labels, view.wants_mask = "labels" in kinds, "goal_mask" in kinds
    return view
