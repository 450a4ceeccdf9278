"""Cameras: the methods of Isaac Lab's ``Camera`` and ``TiledCamera`` that draw, by our pictures.

Colours are those of the models' shapes in MuJoCo's lights, before the colour of a dome light.
Pictures are of the state in which they are read. Normals are those of the triangles between
neighbouring pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from envlab.distributed.limits import usable_threads
from envlab.distributed.ranks import launched_local_world_size
from envlab.envs.math import quat_apply, quat_from_matrix, subtract_frame_transforms
from envlab.envs.ray_patterns import PinholeCameraPatternCfg
from envlab.errors import ConfigurationError
from envlab.sim.cfg import LIGHT_FIELDS, POSE_FIELDS, Frames, PictureCfg, lens, ray_lengths
from envlab_isaaclab import stage, views
from envlab_isaaclab.labels import Labels
from envlab_isaaclab.stage import FIRST, in_first
from envlab_isaaclab.transform_functions import resolve_prim_pose
from envlab_isaaclab.world import World

_DEPTHS = ("depth", "distance_to_image_plane", "distance_to_camera", "normals")
_COLOURS = ("rgb", "rgba")
_LABELS = "semantic_segmentation"
DATA_TYPES = (*_COLOURS, *_DEPTHS, _LABELS)
"""What cameras can show."""
_SEEN_GROUPS = (0, 1, 2)  # MuJoCo's own choice


class CameraView:
    """A camera in all environments.

    Attributes:
        prims: Its prims.
        count: Their number.
    """

    def __init__(self, world: World, cfg: Any) -> None:
        """Add the camera to the model.

        Raises:
            ConfigurationError: For a lens that is not a pinhole's.
        """
        if cfg.spawn is not None and cfg.spawn.projection_type != "pinhole":
            raise ConfigurationError(
                f"{cfg.prim_path} has the lens {cfg.spawn.projection_type!r}, but pictures are "
                "drawn through pinholes. Set spawn=PinholeCameraCfg(...)."
            )
        self._world, self._cfg = world, cfg
        path = in_first(cfg.prim_path)
        is_repeated = path != cfg.prim_path
        self.count = world.num_envs if is_repeated else 1
        prim = world.stage.define(path)
        self.prims = [prim] * self.count
        self._name, self._body = path, _carrier(world, path)
        above = world.stage.get(self._body or (FIRST if is_repeated else "/World"))
        pos, quat = resolve_prim_pose(prim, above)
        attributes = prim.attributes
        if "focalLength" not in attributes:
            raise ConfigurationError(
                f"{cfg.prim_path} is a camera without spawn, but cameras of USD files are not "
                "read. Set spawn=PinholeCameraCfg(...)."
            )
        self._pixels = PinholeCameraPatternCfg(
            width=cfg.width,
            height=cfg.height,
            focal_length=float(attributes["focalLength"]),
            horizontal_aperture=float(attributes["horizontalAperture"]),
        )
        near, far = attributes["clippingRange"]
        self._clipping_range = float(near), float(far)
        world.want((*POSE_FIELDS, *LIGHT_FIELDS))
        world.add_camera(self._name, self._body, pos, quat, self._pixels)
        self._frames = self._make_frames()
        self._wanted = torch.zeros(world.num_envs, dtype=torch.bool, device=world.device)
        self._slot = torch.zeros(world.num_envs, dtype=torch.int32, device=world.device)
        self._drawn_by: Any = None
        self._offsets: torch.Tensor | None = None
        if is_repeated and not self._body:
            origins = torch.as_tensor(world.stage.origins, dtype=torch.float32).to(world.device)
            # On a terrain, whose coordinates are the world's, environments are not alike.
            self._offsets = origins - world.origins
        self._labels = Labels(world, cfg)

    @property
    def info(self) -> dict[str, Any]:
        """What a segmentation's numbers or colours mean."""
        return self._labels.info

    def get_world_poses(self, indices: Any = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Return positions in m and quaternions (w, x, y, z) that look along -z, y upwards."""
        self._spread()
        world, camera = self._world, self._world.model.camera(self._name).id
        data = world.data
        pos = data.cam_xpos[:, camera] + world.origins
        quat = quat_from_matrix(data.cam_xmat[:, camera].view(-1, 3, 3))
        rows = slice(None, self.count) if indices is None else indices
        return pos[rows].clone(), quat[rows]

    def set_world_poses(
        self, positions: torch.Tensor | None, orientations: torch.Tensor | None, indices: Any
    ) -> None:
        """Move cameras, ``(k, 3)`` and ``(k, 4)``; None: that stays as it is."""
        world, old = self._world, self.get_world_poses(indices)
        envs = torch.as_tensor(indices, device=world.device).long()
        pos, quat = (
            before if new is None else new.to(world.device)
            for new, before in zip((positions, orientations), old, strict=True)
        )
        pos = pos - world.origins[envs]
        if self._body:
            world.want(("xpos", "xquat"))
            body = world.model.body(self._body).id
            place, turn = world.data.xpos[envs, body], world.data.xquat[envs, body]
            pos, quat = subtract_frame_transforms(place, turn, pos, quat)
        world.write_camera(self._name, envs, "cam_pos", pos)
        world.write_camera(self._name, envs, "cam_quat", quat)

    def draw(self, indices: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return pictures of some environments by data type, ``(k, height, width, channels)``."""
        self._spread()
        simulation = self._world.simulation
        if self._drawn_by is not simulation:
            self._prepare(simulation)
        self._wanted.fill_(False)
        self._wanted[indices] = True
        self._pictures.draw()
        return {name: self._picture(name, indices) for name in self._cfg.data_types}

    def _spread(self) -> None:
        """Move cameras that are fixed to their environments there, when all have been added."""
        offsets, self._offsets = self._offsets, None
        if offsets is not None and bool(offsets.any()):
            world = self._world
            pos = world.read_field("cam_pos")[:, world.model.camera(self._name).id] + offsets
            envs = torch.arange(world.num_envs, device=world.device)
            world.write_camera(self._name, envs, "cam_pos", pos)

    def _prepare(self, simulation: Any) -> None:
        model = simulation.model
        self._labels.number(model)
        geoms = [
            geom
            for geom in range(model.ngeom)
            if int(model.geom_group[geom]) in _SEEN_GROUPS and model.geom_rgba[geom, 3] > 0.0
        ]
        picture = PictureCfg(
            camera=model.camera(self._name).id,
            height=self._pixels.height,
            width=self._pixels.width,
            clipping_range=self._clipping_range,
            geoms=geoms,
            background=_sky(self._world.stage),
        )
        self._lengths = ray_lengths(lens(model, picture, {}), picture).to(self._world.device)
        self._pictures = simulation.pictures(
            picture,
            self._frames,
            wanted=self._wanted,
            slot=self._slot,
            num_threads=usable_threads(launched_local_world_size()),
        )
        self._drawn_by = simulation

    def _make_frames(self) -> Frames:
        wanted, device = set(self._cfg.data_types), self._world.device
        size = (self._world.num_envs, 1, self._pixels.height, self._pixels.width)
        return Frames(
            depth=torch.zeros(size, device=device) if wanted & {*_DEPTHS} else None,
            rgb=torch.zeros(*size, 3, dtype=torch.uint8, device=device)
            if wanted & {*_COLOURS}
            else None,
            segmentation=torch.zeros(size, dtype=torch.int32, device=device)
            if _LABELS in wanted
            else None,
        )

    def _picture(self, name: str, indices: torch.Tensor) -> torch.Tensor:
        frames = self._frames
        if name in _COLOURS:
            assert frames.rgb is not None
            colours = frames.rgb[indices, 0]
            opaque = torch.full_like(colours[..., :1], 255)
            return colours if name == "rgb" else torch.cat((colours, opaque), dim=-1)
        if name == _LABELS:
            assert frames.segmentation is not None
            return self._labels.picture(frames.segmentation[indices, 0])
        assert frames.depth is not None
        depth = frames.depth[indices, 0]
        if name == "normals":
            return self._normals(depth, self.get_world_poses(indices)[1])
        far = self._clipping_range[1]
        if name == "distance_to_camera":
            depth = depth * self._lengths
            depth = torch.where(depth > far, torch.inf, depth)
        return self._clipped(depth)[..., None]

    def _clipped(self, depth: torch.Tensor) -> torch.Tensor:
        way = self._cfg.depth_clipping_behavior
        if way == "none":
            return depth
        nothing = 0.0 if way == "zero" else self._clipping_range[1]
        return torch.where(torch.isinf(depth), nothing, depth)

    def _normals(self, depth: torch.Tensor, quat: torch.Tensor) -> torch.Tensor:
        """Return normals in the world frame, 0 where nothing is seen, ``(k, h, w, 3)``."""
        height, width = depth.shape[1:]
        lens = torch.tensor(self._pixels.intrinsic_matrix(), dtype=depth.dtype).to(depth.device)
        columns = torch.arange(width, device=depth.device)
        rows = torch.arange(height, device=depth.device)
        x = (columns + 0.5 - lens[0, 2]) / lens[0, 0]
        y = (rows + 0.5 - lens[1, 2]) / lens[1, 1]
        shape = (height, width)
        rays = torch.stack((x.expand(shape), -y[:, None].expand(shape), -x.new_ones(shape)), dim=-1)
        points = rays * depth[..., None]
        right = points.diff(dim=2, append=2 * points[:, :, -1:] - points[:, :, -2:-1])
        down = points.diff(dim=1, append=2 * points[:, -1:] - points[:, -2:-1])
        normals = torch.nn.functional.normalize(torch.linalg.cross(down, right), dim=-1)
        turned = quat_apply(quat[:, None, None].expand(*depth.shape, 4), normals)
        return torch.where(torch.isfinite(turned), turned, 0.0)


def _carrier(world: World, path: str) -> str:
    """Return the body that a camera's path is below; empty: none, it does not move."""
    while path.count("/") > 1:
        path = path.rpartition("/")[0]
        if world.spec.body(path) is not None:
            return path
    return ""


def _sky(shown: stage.Stage) -> tuple[float, float, float]:
    """Return the colour of a dome light, from 0 to 1; black if there is none."""
    for prim in shown.Traverse():
        if prim.kind == "DomeLight" and "inputs:color" in prim.attributes:
            red, green, blue = prim.attributes["inputs:color"]
            return float(red), float(green), float(blue)
    return 0.0, 0.0, 0.0


# Methods of Isaac Lab's classes, ``self`` being a camera.


def check_data_types(self: Any, cfg: Any) -> None:
    """Refuse what is not drawn.

    Raises:
        ConfigurationError: With the first of it.
    """
    for name in cfg.data_types:
        if name not in DATA_TYPES:
            raise ConfigurationError(
                f"{cfg.prim_path} is a camera with {name!r} in its data_types, but pictures have "
                f"{', '.join(DATA_TYPES)}. Remove it."
            )


def initialize(self: Any) -> None:
    """Make the view and the buffers when the simulation starts."""
    from isaaclab.sensors.camera.tiled_camera import TiledCamera
    from isaaclab.sensors.sensor_base import SensorBase
    from pxr import UsdGeom

    SensorBase._initialize_impl(self)
    self._view = CameraView(views.simulation_view().world, self.cfg)
    self._ALL_INDICES = torch.arange(self._view.count, device=self._device)
    self._frame = torch.zeros(self._view.count, device=self._device, dtype=torch.long)
    self._render_product_paths = []
    self._sensor_prims = [UsdGeom.Camera(prim) for prim in self._view.prims]
    data, count = self._data, self._view.count
    data.pos_w = torch.zeros(count, 3, device=self._device)
    data.quat_w_world = torch.zeros(count, 4, device=self._device)
    data.intrinsic_matrices = torch.zeros(count, 3, 3, device=self._device)
    data.image_shape = self.image_shape
    self._update_intrinsic_matrices(self._ALL_INDICES)
    data.output = {}
    told = {name: self._view.info if name == _LABELS else None for name in self.cfg.data_types}
    data.info = told if isinstance(self, TiledCamera) else [dict(told) for _ in range(count)]


def update(self: Any, env_ids: Sequence[int] | torch.Tensor) -> None:
    """Draw the pictures of some environments."""
    self._frame[env_ids] += 1
    if self.cfg.update_latest_camera_pose or not self._data.output:
        self._update_poses(self._ALL_INDICES if not self._data.output else env_ids)
    envs = torch.as_tensor(env_ids, device=self._device).long()
    output = self._data.output
    for name, picture in self._view.draw(envs).items():
        if name not in output:
            output[name] = picture.new_zeros(self._view.count, *picture.shape[1:])
        output[name][envs] = picture


def end(self: Any) -> None:
    """Forget what waits for the simulation's end."""
    from isaaclab.sensors.sensor_base import SensorBase

    SensorBase.__del__(self)


def refuse_matrices(self: Any, *arguments: Any, **keywords: Any) -> None:
    """Refuse to change a lens.

    Raises:
        ConfigurationError: Always.
    """
    raise ConfigurationError(
        f"A script sets the intrinsic matrices of {self.cfg.prim_path}, but a lens stays what it "
        "was. Describe it in the configuration: PinholeCameraCfg.from_intrinsic_matrix(...)."
    )


METHODS = {
    "__del__": end,
    "_check_supported_data_types": check_data_types,
    "_initialize_impl": initialize,
    "_update_buffers_impl": update,
    "set_intrinsic_matrices": refuse_matrices,
}
"""What replaces Isaac Lab's methods, in both classes."""
