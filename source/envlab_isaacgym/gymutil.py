"""``isaacgym.gymutil``: command lines, settings from dictionaries, and lines to draw."""

from __future__ import annotations

import argparse
import itertools
import logging
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np
import torch

from envlab.errors import DeviceError
from envlab_bridge.ranks import is_on_cpu, own_device
from envlab_isaacgym.enums import SimType, UpAxis
from envlab_isaacgym.gymapi import Gym
from envlab_isaacgym.parameters import SimParams
from envlab_isaacgym.randomization import apply_random_samples as apply_random_samples
from envlab_isaacgym.randomization import check_buckets as check_buckets
from envlab_isaacgym.randomization import generate_random_samples as generate_random_samples
from envlab_isaacgym.randomization import get_default_setter_args as get_default_setter_args
from envlab_isaacgym.randomization import get_property_getter_map as get_property_getter_map
from envlab_isaacgym.randomization import get_property_setter_map as get_property_setter_map
from envlab_isaacgym.values import Quat, Transform, Vec3
from envlab_isaacgym.world import Env, Viewer

logger = logging.getLogger(f"envlab.{__name__}")


def parse_device_str(device_str: str) -> tuple[str, int]:
    """Return the kind of a device, ``cpu`` or ``cuda``, and its index.

    If the launcher substitutes the CPU for GPUs, every device is ``cpu``.

    Raises:
        ValueError: If it is neither ``cpu`` nor ``cuda``, ``cuda:N`` or ``gpu``.
    """
    kind, _, index = device_str.lower().partition(":")
    kind = "cuda" if kind == "gpu" else kind
    if kind not in ("cpu", "cuda") or not (index or "0").isdigit():
        raise ValueError(f"The device is {device_str!r}, but must be cpu, cuda or cuda:N.")
    return ("cpu", 0) if is_on_cpu() else (kind, int(index or 0))


def parse_arguments(
    description: str = "Isaac Gym Example",
    headless: bool = False,
    no_graphics: bool = False,
    custom_parameters: Sequence[Mapping[str, Any]] = (),
) -> argparse.Namespace:
    """Return the flags of a command line: Isaac Gym's own, and a script's.

    Without a GPU the defaults of devices become ``cpu``, also those of the script's flags.

    Args:
        description: First line of ``--help``.
        headless: Whether there is a flag ``--headless``.
        no_graphics: Whether there is a flag ``--nographics``.
        custom_parameters: For each flag its ``name``, and argparse's arguments.

    Raises:
        DeviceError: If a GPU is named, and there is none.
    """
    has_gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=description)
    if headless:
        parser.add_argument("--headless", action="store_true", help="no window (always so)")
    if no_graphics:
        parser.add_argument("--nographics", action="store_true", help="no window (always so)")
    parser.add_argument("--sim_device", default=own_device("cuda:0") if has_gpu else "cpu")
    parser.add_argument("--pipeline", default="gpu" if has_gpu else "cpu", help="cpu or gpu")
    parser.add_argument("--graphics_device_id", type=int, default=0)
    engine = parser.add_mutually_exclusive_group()
    engine.add_argument("--flex", action="store_true", help="soft bodies, which are missing")
    engine.add_argument("--physx", action="store_true", help="the default")
    parser.add_argument("--num_threads", type=int, default=0)
    parser.add_argument("--subscenes", type=int, default=0)
    parser.add_argument("--slices", type=int)
    for parameter in custom_parameters:
        options = dict(parameter)
        name = options.pop("name")
        default = str(options.get("default", ""))
        if not has_gpu and default.startswith(("cuda", "gpu")):
            logger.warning("No GPU was found: %s is cpu instead of %s.", name, default)
            options["default"] = "cpu"
        elif default == "cuda:0":
            options["default"] = own_device(default)
        parser.add_argument(name, **options)
    flags = parser.parse_args()
    return _with_devices(flags, has_gpu)


def _with_devices(flags: argparse.Namespace, has_gpu: bool) -> argparse.Namespace:
    """Add the attributes on devices that tasks read."""
    flags.sim_device_type, flags.compute_device_id = parse_device_str(flags.sim_device)
    wants_pipeline = flags.pipeline.lower() in ("gpu", "cuda")
    if not (has_gpu or is_on_cpu()) and (flags.sim_device_type == "cuda" or wants_pipeline):
        raise DeviceError(
            f"--sim_device={flags.sim_device} --pipeline={flags.pipeline} need a GPU, but no "
            "NVIDIA GPU was found. Leave them out, or give --sim_device=cpu --pipeline=cpu."
        )
    flags.use_gpu = flags.sim_device_type == "cuda"
    flags.use_gpu_pipeline = flags.use_gpu and wants_pipeline
    flags.physics_engine = SimType.SIM_FLEX if flags.flex else SimType.SIM_PHYSX
    flags.device, flags.device_id = flags.sim_device_type, flags.compute_device_id
    flags.slices = flags.slices or flags.subscenes
    return flags


def parse_sim_config(config: Mapping[str, Any], sim_params: SimParams) -> None:
    """Write a dictionary into simulation parameters; unknown names are ignored."""
    for name, value in config.items():
        if name in ("physx", "flex"):
            target = getattr(sim_params, name)
            for key, setting in value.items():
                if hasattr(target, key):
                    setattr(target, key, setting)
        elif name == "gravity":
            sim_params.gravity = Vec3(*value)
        elif name == "up_axis":
            names = {"y": UpAxis.UP_AXIS_Y, "z": UpAxis.UP_AXIS_Z}
            sim_params.up_axis = names[value] if isinstance(value, str) else UpAxis(value)
        elif hasattr(sim_params, name) and not name.startswith("_"):  # from vars() of a class
            setattr(sim_params, name, value)


def parse_bool(value: str | bool) -> bool:
    """Return whether a word means yes."""
    return str(value).lower() in ("1", "true", "yes", "y", "t")


def parse_int(value: str) -> int:
    """Return a whole number, also one like ``1e6``."""
    return int(float(value))


class LineGeometry:
    """Lines to draw: pairs of points in m, and each one's colour."""

    def __init__(self, points: np.ndarray, color: tuple[float, float, float]) -> None:
        self.points = np.asarray(points, dtype=np.float32).reshape(-1, 2, 3)
        self.color = color

    def vertices(self) -> np.ndarray:
        """Return the ends of lines, an array of ``Vec3.dtype``, ``(num_lines, 2)``."""
        return np.ascontiguousarray(self.points).view(Vec3.dtype).reshape(-1, 2)

    def colors(self) -> np.ndarray:
        """Return the lines' colours, an array of ``Vec3.dtype``, ``(num_lines,)``."""
        return np.array([self.color] * len(self.points), dtype=Vec3.dtype)

    def num_lines(self) -> int:
        """Return the number of lines."""
        return len(self.points)

    def instance_verts(self, pose: Transform) -> np.ndarray:
        """Return :meth:`vertices`, moved to a pose."""
        return pose.transform_points(self.vertices().reshape(-1)).reshape(-1, 2)


class AxesGeometry(LineGeometry):
    """The three axes of a frame, ``scale`` m long."""

    def __init__(self, scale: float = 1.0, pose: Transform | None = None) -> None:
        points = np.zeros((3, 2, 3))
        points[:, 1] = np.eye(3) * scale
        super().__init__(_placed(points, pose), (1.0, 1.0, 1.0))


class WireframeBoxGeometry(LineGeometry):
    """The edges of a box; sizes in m."""

    def __init__(
        self,
        xdim: float = 1,
        ydim: float = 1,
        zdim: float = 1,
        pose: Transform | None = None,
        color: tuple[float, float, float] | None = None,
    ) -> None:
        corners = np.array(np.meshgrid(*([(-0.5, 0.5)] * 3))).T.reshape(-1, 3)
        edges = [
            (one, other)
            for index, one in enumerate(corners)
            for other in corners[index + 1 :]
            if np.abs(one - other).sum() == 1
        ]
        points = np.array(edges) * [xdim, ydim, zdim]
        super().__init__(_placed(points, pose), color or (1.0, 0.0, 0.0))


class WireframeSphereGeometry(LineGeometry):
    """Meridians of a sphere; its radius in m."""

    def __init__(
        self,
        radius: float = 1.0,
        num_lats: int = 8,
        num_lons: int = 8,
        pose: Transform | None = None,
        color: tuple[float, float, float] | None = None,
        color2: tuple[float, float, float] | None = None,
    ) -> None:
        heights = np.linspace(0, np.pi, num_lats + 1)
        lines = []
        for turn in np.linspace(0, 2 * np.pi, num_lons, endpoint=False):
            arc = np.stack(
                (
                    np.sin(heights) * np.cos(turn),
                    np.sin(heights) * np.sin(turn),
                    np.cos(heights),
                ),
                axis=-1,
            )
            lines += list(itertools.pairwise(arc))
        super().__init__(_placed(np.array(lines) * radius, pose), color or (1.0, 0.0, 0.0))


def _placed(points: np.ndarray, pose: Transform | None) -> np.ndarray:
    if pose is None:
        return points
    moved = [pose.transform_point(Vec3(*point)) for point in points.reshape(-1, 3)]
    return np.array([np.asarray(point) for point in moved]).reshape(points.shape)


def draw_lines(
    geom: LineGeometry, gym: Gym, viewer: Viewer | None, env: Env, pose: Transform
) -> None:
    """Draw lines in a window, if there were one."""
    if viewer is not None:
        gym.add_lines(viewer, env, geom.num_lines(), geom.instance_verts(pose), geom.colors())


def draw_line(p1: Vec3, p2: Vec3, color: Vec3, gym: Gym, viewer: Viewer | None, env: Env) -> None:
    """Draw one line in a window, if there were one."""
    points = np.array([[np.asarray(p1), np.asarray(p2)]])
    geometry = LineGeometry(points, (color.x, color.y, color.z))
    draw_lines(geometry, gym, viewer, env, Transform(Vec3(), Quat()))


def _indent_xml(elem: Element, level: int = 0) -> None:
    """Indent an XML tree in place; tasks that write MJCF files call it."""
    pad = "\n" + level * "  "
    if len(elem):
        if not (elem.text or "").strip():
            elem.text = pad + "  "
        for child in elem:
            _indent_xml(child, level + 1)
        if not (elem[-1].tail or "").strip():
            elem[-1].tail = pad
    if level and not (elem.tail or "").strip():
        elem.tail = pad
