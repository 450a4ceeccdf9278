"""Cameras: what they see (colours, depth, segmentation), when, and how late it arrives.

Names follow Isaac Lab's ``TiledCameraCfg`` and mjlab's ``CameraSensorCfg``. A CPU draws with
:mod:`envlab.sim.pictures`, a GPU with ``mujoco_warp``'s renderer; both need the package
``warp-lang``. Cameras of rays, which need neither, are in :mod:`envlab.envs.ray_sensor`.
"""

from __future__ import annotations

import functools
import logging
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import mujoco
import numpy as np
import torch

from envlab.config import PositiveInt, Range
from envlab.envs.managers.sensor import PeriodicSensor, PeriodicSensorCfg
from envlab.envs.masks import clear
from envlab.envs.ray_patterns import PinholeCameraPatternCfg
from envlab.envs.spec_sensors import OffsetCfg, matches, names_of
from envlab.envs.vector_env import VectorEnv
from envlab.errors import ConfigurationError, did_you_mean
from envlab.sim.cfg import (
    LIGHT_FIELDS,
    POSE_FIELDS,
    AugmentationCfg,
    Frames,
    PictureCfg,
    lens,
    ray_lengths,
)
from envlab.sim.recording import between_graphs
from envlab.state import State

if TYPE_CHECKING:
    from envlab.sim.augmentation import Augmentation

logger = logging.getLogger(__name__)

DataType = Literal["rgb", "depth", "distance_to_image_plane", "distance_to_camera", "segmentation"]
_AXES = {
    "ros": np.diag([1.0, -1.0, -1.0]),
    "opengl": np.eye(3),
    "world": np.array([[0.0, 0.0, -1.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]),
}
"""By convention: from MuJoCo's axes (x right, y up, z backwards) to those that ``rot`` turns."""
_KINDS = {"rgb": "rgb", "segmentation": "segmentation"}
"""What is drawn for a data type; for the others, depth."""


@dataclass(kw_only=True)
class CameraOffsetCfg(OffsetCfg):
    """Pose of a camera on its body."""

    convention: Literal["ros", "opengl", "world"] = "world"
    """The view without a ``rot``: ``world`` along x with z up, ``ros`` along z with
    y down, ``opengl`` along -z with y up."""


@dataclass(kw_only=True)
class CameraCfg(PeriodicSensorCfg):
    """A camera of the model's file, or a new one on a body or in the world."""

    DATA_FIELDS: ClassVar[tuple[str, ...]] = (*POSE_FIELDS, *LIGHT_FIELDS)
    __former_names__: ClassVar[dict[str, str | None]] = {
        "camera": "camera_name",
        "data_type": None,
        "sees_own_body": None,
    }

    camera_name: str | None = None
    """A camera of the file; null: a new one, called ``name``."""
    name: str = "camera"
    """Name of the new camera in the model, by which events find it."""
    body_name: str = "world"
    """The body that carries the new camera."""
    offset: CameraOffsetCfg = field(default_factory=CameraOffsetCfg)
    """Its pose on the body."""
    data_types: list[DataType] = field(default_factory=lambda: ["rgb"])
    """Its images. ``depth``, which is ``distance_to_image_plane``, is along the camera's axis,
    ``distance_to_camera`` along each pixel's ray. ``segmentation``: the geom of each pixel."""
    width: PositiveInt = 64
    """Pixels from left to right."""
    height: PositiveInt = 64
    """Pixels from top to bottom."""
    fovy: Annotated[float | None, Range(above=0.0, below=180.0)] = None
    """Vertical field of view, in degrees; null: the file's, or 45 of a new camera."""
    pattern_cfg: PinholeCameraPatternCfg | None = None
    """Pixels and lens of a new camera, in place of ``width``, ``height`` and ``fovy``."""
    clipping_range: tuple[float, float] = (0.01, 50.0)
    """Anything nearer than the first or farther than the second is not seen, in m."""
    depth_clipping_behavior: Literal["zero", "max"] = "max"
    """Depth of a pixel that sees nothing: 0, or the far end of ``clipping_range``."""
    delay_range: tuple[int, int] = (0, 0)
    """Smallest and largest delay of images, in steps; drawn for each episode."""
    history_length: PositiveInt = 1
    """Number of images in an observation, the newest in the last channels."""
    geom_groups: list[int] | None = field(default_factory=lambda: [0, 1, 2])
    """Groups of geoms that are seen, 0 to 5; null: all. Groups 0 to 2 are MuJoCo's default."""
    seen_bodies: list[str] | None = None
    """Bodies seen in addition to what is fixed to the world, by regular expressions that match in
    full; null: all."""
    background_color: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Colour of empty space, from 0 to 1; if the file has a sky, the camera sees that instead."""
    augmentation: AugmentationCfg = field(default_factory=AugmentationCfg)
    """Random changes of each image's colours: an image that is kept or late changes once."""

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of an image."""
        pixels = self if self.pattern_cfg is None else self.pattern_cfg
        return pixels.height, pixels.width

    def add_to(self, spec: mujoco.MjSpec) -> None:
        _check(self)
        names = names_of(spec, "camera")
        if self.camera_name is not None:
            if self.camera_name not in names:
                raise ConfigurationError(
                    f"A camera sensor is the camera {self.camera_name!r}, but the model has the "
                    f"cameras {', '.join(names) or '(none)'}."
                    f"{did_you_mean(self.camera_name, names)}"
                )
            if self.fovy is not None:
                spec.camera(self.camera_name).fovy = self.fovy
            return
        if self.name in names:
            raise ConfigurationError(
                f"A new camera is called {self.name!r}, but the model has a camera of that name. "
                f"Set another name, or, to use it, camera_name={self.name!r}."
            )
        bodies = names_of(spec, "body")
        if self.body_name not in bodies:
            raise ConfigurationError(
                f"A camera is on the body {self.body_name!r}, but the model has the bodies "
                f"{', '.join(bodies)}.{did_you_mean(self.body_name, bodies)}"
            )
        rotation, quat = np.zeros(9), np.zeros(4)
        mujoco.mju_quat2Mat(rotation, np.asarray(self.offset.rot) / np.linalg.norm(self.offset.rot))
        turn = rotation.reshape(3, 3) @ _AXES[self.offset.convention]
        mujoco.mju_mat2Quat(quat, turn.ravel())
        camera = spec.body(self.body_name).add_camera(
            name=self.name, pos=self.offset.pos, quat=quat, fovy=self.fovy or 45.0
        )
        if self.pattern_cfg is not None:
            self.pattern_cfg.write(camera)

    def build(self, env: VectorEnv) -> Camera:
        return Camera(self, env)


class Camera(PeriodicSensor):
    """See :class:`CameraCfg`.

    Attributes:
        cfg: The configuration.
        name: The camera's name in the model.
        frames: The latest images by what is drawn, ``(num_envs, num_slots, height, width, ...)``:
            ``depth`` along the axis in m, float32, inf where no geom is seen; ``rgb`` uint8, with 3
            channels; ``segmentation`` int32, the geom's index, -1 where no geom is seen.
    """

    STATE = State(per_env=("_slot", "_count", "_delay"), per_env_by_name=("frames",))

    def __init__(self, cfg: CameraCfg, env: VectorEnv) -> None:
        """Prepare to draw.

        Raises:
            ConfigurationError: For a camera that cannot make images here.
            SimulationError: If the backend draws none, or ``warp-lang`` is not installed.
        """
        super().__init__(cfg, env)
        model = env.sim.model
        self.cfg, self._random, self._device = cfg, env.random, env.device
        self.name = cfg.name if cfg.camera_name is None else cfg.camera_name
        if cfg.camera_name is None:
            env.sensor_cameras.add(cfg.name)
        num_slots = cfg.history_length + math.ceil(cfg.delay_range[1] / self._period)
        size = (env.num_envs, num_slots, *cfg.shape)
        kinds = {_KINDS.get(name, "depth") for name in cfg.data_types}
        first = {
            "depth": lambda: torch.full(size, torch.inf, device=env.device),
            "rgb": lambda: torch.zeros(*size, 3, dtype=torch.uint8, device=env.device),
            "segmentation": lambda: torch.full(size, -1, dtype=torch.int32, device=env.device),
        }
        self.frames = {kind: make() for kind, make in first.items() if kind in kinds}
        self._slot, self._count, self._delay = (torch.zeros_like(self._age) for _ in range(3))
        self._wanted = self._stale.clone()
        self._back = torch.arange(cfg.history_length - 1, -1, -1, device=env.device)
        self._rows = torch.arange(env.num_envs, device=env.device).unsqueeze(1)
        camera = model.camera(self.name).id
        geoms = _seen_geoms(cfg, model, "geom_rgba" in set(env.sim.params))
        _warn_of_enclosing_geoms(self.name, model, geoms)
        picture = PictureCfg(
            camera=camera,
            height=cfg.shape[0],
            width=cfg.shape[1],
            clipping_range=cfg.clipping_range,
            geoms=geoms,
            background=cfg.background_color,
        )
        self._lenses = functools.partial(lens, model, picture, dict(env.sim.params.items()))
        lengths = ray_lengths(self._lenses(), picture).to(env.device)
        self._picture_cfg, self._lengths = picture, lengths if len(lengths) == 1 else None
        self._pictures = env.sim.pictures(
            picture,
            Frames(**self.frames),
            wanted=self._wanted,
            slot=self._slot,
            num_threads=env.context.num_threads,
        )
        self._augmentation = _augmentation(cfg, env)
        self._geom_names = tuple(_geom_name(model, geom) for geom in range(model.ngeom))

    @property
    def output(self) -> dict[str, torch.Tensor]:
        """The images of all ``data_types``, by their names; see :meth:`image`."""
        return {name: self.image(name) for name in self.cfg.data_types}

    @property
    def segmentation_names(self) -> tuple[str, ...]:
        """What a segmentation's numbers mean: the geoms' names, or their bodies' with a number."""
        return self._geom_names

    def reset(self, mask: torch.Tensor) -> None:
        super().reset(mask)
        clear(self._count, mask)
        low, high = self.cfg.delay_range
        if high:
            stream = self._random.stream("camera.delay")
            drawn = stream.uniform(low, high + 1, 1, mask)[:, 0].floor().clamp(max=high).int()
            self._delay.copy_(torch.where(mask, drawn, self._delay))

    def image(self, data_type: DataType | None = None) -> torch.Tensor:
        """Return the images that have arrived, ``(num_envs, height, width, channels * history)``.

        Depths and distances are float32 in m, colours uint8, a segmentation int32: indices into
        :attr:`segmentation_names`, -1 where no geom is seen. At the start of an episode, all images
        of a history are its first one.

        Args:
            data_type: One of the camera's; None: its first.

        Raises:
            ConfigurationError: If the camera does not make it.
        """
        if data_type is None:
            data_type = self.cfg.data_types[0]
        if data_type not in self.cfg.data_types and not {data_type, *self.cfg.data_types} <= {
            "depth",
            "distance_to_image_plane",
            "distance_to_camera",
        }:
            raise ConfigurationError(
                f"The camera {self.name!r} makes {', '.join(self.cfg.data_types)}, but an image of "
                f"it is to be {data_type!r}. Add that to its data_types."
            )
        self.refresh()
        late = (self._delay - self._age).clamp(min=0)
        behind = ((late + self._period - 1) // self._period).unsqueeze(1) + self._back
        behind = torch.minimum(behind, (self._count - 1).clamp(min=0).unsqueeze(1))
        kind = _KINDS.get(data_type, "depth")
        frames = self.frames[kind]
        slots = (self._slot.unsqueeze(1) - behind) % frames.shape[1]
        shown = frames[self._rows, slots.long()]
        if kind == "rgb":
            return shown.permute(0, 2, 3, 1, 4).flatten(3)
        if kind == "segmentation":
            return shown.permute(0, 2, 3, 1)
        if data_type == "distance_to_camera":
            lengths = self._lengths
            if lengths is None:  # lenses differ between environments, and may change
                lengths = ray_lengths(self._lenses(), self._picture_cfg)
            shown = shown * lengths.unsqueeze(1)
        far = self.cfg.clipping_range[1]
        nothing = far if self.cfg.depth_clipping_behavior == "max" else 0.0
        return torch.where(shown <= far, shown, nothing).permute(0, 2, 3, 1)

    def preview(self, index: int) -> np.ndarray:
        """Return the latest image: colours, else depth, else a colour for each geom.

        Depths are bright when near, dark grey at the largest visible depth, and black beyond.
        """
        kind, frames = next(iter(sorted(self.frames.items(), key=lambda item: item[0] != "rgb")))
        latest = frames[index, self._slot[index]].cpu().numpy()
        if kind == "rgb":
            return np.asarray(latest)
        if kind == "depth":
            farthest = latest[np.isfinite(latest)].max(initial=0.0)
            shades = 1.0 - np.minimum(0.75 * latest / max(farthest, 1e-6), 1.0)
        else:
            shades = (latest + 1)[..., None] * np.array([0.618, 0.414, 0.236]) % 1.0
        return np.broadcast_to((255.0 * shades).astype(np.uint8).T, (3, *latest.shape[::-1])).T

    def measure(self, mask: torch.Tensor) -> None:
        self._wanted.copy_(mask)
        num_slots = next(iter(self.frames.values())).shape[1]
        self._slot.copy_((self._slot + self._wanted) % num_slots)
        self._count.copy_((self._count + self._wanted).clamp(max=num_slots))
        if self._augmentation is not None:
            bits = self._random.stream("camera.augmentation").bits(1)[:, 0]
            self._augmentation.draw(bits, self._wanted)
        self._draw()

    @between_graphs  # Warp, of which torch knows nothing
    def _draw(self) -> None:
        self._pictures.draw()
        if self._augmentation is not None:
            self._augmentation.apply(self.frames["rgb"], self._wanted, self._slot)


def _check(cfg: CameraCfg) -> None:
    near, far = cfg.clipping_range
    if not 0.0 <= near < far < math.inf:
        raise ConfigurationError(
            f"A camera's clipping_range is {[near, far]}, but must be two distances in m, the "
            "nearer first."
        )
    low, high = cfg.delay_range
    if not 0 <= low <= high:
        raise ConfigurationError(
            f"A camera's delay_range is {[low, high]}, but must be the minimum and maximum number "
            "of steps, 0 or more."
        )
    if not cfg.data_types:
        raise ConfigurationError(
            "A camera's data_types are empty, so that it makes no image. Name at least one, such "
            "as rgb."
        )
    if cfg.augmentation.changes_colours and "rgb" not in cfg.data_types:
        raise ConfigurationError(
            f"A camera's augmentation changes colours, but its data_types are {cfg.data_types}. "
            "Add rgb, or set all of augmentation to 0."
        )
    if cfg.pattern_cfg is not None and cfg.camera_name is not None:
        raise ConfigurationError(
            f"A camera sensor has a pattern_cfg, but its camera {cfg.camera_name!r} comes from the "
            "file with its own lens. Set width, height and fovy, or camera_name=null."
        )


def _augmentation(cfg: CameraCfg, env: VectorEnv) -> Augmentation | None:
    if not cfg.augmentation.changes_colours:
        return None
    from envlab.sim.augmentation import Augmentation  # needs warp-lang, which drawing asks for

    return Augmentation(cfg.augmentation, env.num_envs, env.device)


def _geom_name(model: mujoco.MjModel, geom: int) -> str:
    name = model.geom(geom).name
    if name:
        return str(name)
    body = int(model.geom_bodyid[geom])
    return f"{model.body(body).name}/{geom - int(model.body_geomadr[body])}"


def _seen_geoms(cfg: CameraCfg, model: mujoco.MjModel, colours_differ: bool) -> list[int]:
    names = [model.body(index).name for index in range(model.nbody)]
    patterns = [".*"] if cfg.seen_bodies is None else cfg.seen_bodies
    found = matches("A camera is to see the body", patterns, names) if patterns else []
    return [
        geom
        for geom in range(model.ngeom)
        if (
            model.body_weldid[model.geom_bodyid[geom]] == 0
            or names[model.geom_bodyid[geom]] in found
        )
        and (cfg.geom_groups is None or int(model.geom_group[geom]) in cfg.geom_groups)
        and (colours_differ or model.geom_rgba[geom, 3] > 0.0)
    ]


def _warn_of_enclosing_geoms(name: str, model: mujoco.MjModel, geoms: list[int]) -> None:
    """Warn of geoms that a camera is in, whose surfaces it sees through, as in OpenGL."""
    data = mujoco.MjData(model)
    if model.nkey:
        mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    at, axis = data.cam_xpos[model.camera(name).id], np.array([1.0, 0.0, 0.0])
    hollow = (mujoco.mjtGeom.mjGEOM_PLANE, mujoco.mjtGeom.mjGEOM_HFIELD, mujoco.mjtGeom.mjGEOM_MESH)
    for geom in geoms:
        kind = int(model.geom_type[geom])
        if kind in map(int, hollow):
            continue
        pose = data.geom_xpos[geom], data.geom_xmat[geom], model.geom_size[geom]
        # The shapes are convex: only from inside do opposite rays both meet the surface.
        if all(mujoco.mju_rayGeom(*pose, at, way * axis, kind) >= 0.0 for way in (1.0, -1.0)):
            logger.warning(
                "The camera %r is inside the geom %r, which it therefore does not see. Move it, "
                "or, if that is meant, leave the geom's body out of seen_bodies.",
                name,
                _geom_name(model, geom),
            )
