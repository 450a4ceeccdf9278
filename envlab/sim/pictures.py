"""Pictures of all environments by a camera of the model, on a CPU: depth, colours, segmentation.

It needs the package ``warp-lang``, whose functions find what each pixel shows
(:mod:`envlab.sim._picture_raster`) and colour it (:mod:`envlab.sim._picture_colours`). On a GPU
``mujoco_warp`` draws: :mod:`envlab.sim._warp_pictures`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import mujoco
import numpy as np
import torch
import warp as wp

from envlab.errors import ConfigurationError
from envlab.sim._picture_colours import Lights, Looks, Textures, paint
from envlab.sim._picture_raster import find_visible
from envlab.sim._picture_shapes import Ground, Poses, Shapes, View, eye_of
from envlab.sim.cfg import LIGHT_FIELDS, POSE_FIELDS, Frames, PictureCfg, lens
from envlab.sim.height_field import HeightField
from envlab.sim.simulation import Fields

wp.set_module_options({"enable_backward": False})

ENVS_PER_THREAD = 16
"""Fewer are not worth another CPU thread."""
SMOOTH_COSINE = 0.8
"""Minimum cosine between a mesh's normals at a corner and of its triangle (``mjr_uploadMesh``)."""
_HFIELD, _MESH = int(mujoco.mjtGeom.mjGEOM_HFIELD), int(mujoco.mjtGeom.mjGEOM_MESH)
_UNSET = (0.5, 0.5, 0.5, 1.0)
"""MuJoCo's default colour of a geom, over which a material's counts."""


class CpuPictures:
    """Draws a camera's pictures into frames."""

    def __init__(
        self,
        cfg: PictureCfg,
        model: mujoco.MjModel,
        data: Fields,
        params: Fields,
        frames: Frames,
        *,
        wanted: torch.Tensor,
        slot: torch.Tensor,
        num_threads: int = 1,
    ) -> None:
        """Prepare to draw; all tensors are read or written at each :meth:`draw`.

        Args:
            cfg: The camera.
            model: The model.
            data: :data:`POSE_FIELDS`, and for colours :data:`LIGHT_FIELDS`.
            params: Fields of the model that differ between environments.
            frames: The frames.
            wanted: Environments to draw, bool ``(num_envs,)``.
            slot: Index of the frame to draw on, int32 ``(num_envs,)``.
            num_threads: Threads.

        Raises:
            ConfigurationError: For a geom that cannot be drawn.
        """
        wp.init()
        self._kept: list[object] = []  # by Warp they are not
        self._model, self._cfg = model, cfg
        self._params = dict(params.items())
        num_envs = len(wanted)
        fields = [geom for geom in cfg.geoms if model.geom_type[geom] == _HFIELD]
        _check(model, cfg.geoms, fields)
        ground, reach = Ground(), 1
        ground.geom = -1
        self._lens = lens(model, cfg, self._params)
        if fields:
            field = HeightField(model, model.geom(fields[0]).name, wanted.device)
            ground = self._ground(field, fields[0])
            corner = self._lens[:, :2].abs().max(dim=0).values
            ends = float(torch.cat((corner, torch.ones(1))).norm())
            span = 2.0 * cfg.clipping_range[1] * ends / field.spacing[0]
            reach = int(min(math.ceil(span) + 3, field.data.shape[1]))
        scene = [
            *(self._view(), ground, self._shapes(fields), self._textures()),
            *(self._looks(), self._lights(), self._poses(data, frames.rgb is not None)),
            *map(wp.from_torch, (wanted, slot)),
        ]
        targets = self._targets(frames, num_envs)
        self._kept += [wanted, slot, scene, targets]
        parts = max(1, min(num_threads, num_envs // ENVS_PER_THREAD))
        bounds = [num_envs * part // parts for part in range(parts + 1)]
        self._launches = [
            wp.launch(
                draw_pictures,
                last - first,
                inputs=[*scene, first, *self._room(reach), *targets],
                device="cpu",
                record_cmd=True,
            )
            for first, last in itertools.pairwise(bounds)
        ]
        self._pool = ThreadPoolExecutor(len(self._launches), thread_name_prefix="pictures")

    def draw(self) -> None:
        """Draw the wanted environments."""
        self._refresh()
        # One part of the work stays in this thread.
        others = [self._pool.submit(launch.launch) for launch in self._launches[1:]]
        self._launches[0].launch()
        for other in others:
            other.result()

    def _keep(self, values: torch.Tensor, dtype: object = None) -> wp.array:
        values = values.contiguous()
        self._kept.append(values)
        if not values.numel():  # which Warp takes for strides that are not contiguous
            inner = 0 if dtype is None else len(getattr(dtype, "_shape_", ()))
            kinds = {torch.float32: float, torch.int32: int, torch.uint8: wp.uint8}
            shape = tuple(values.shape[: values.dim() - inner])
            kind = dtype or kinds.get(values.dtype, wp.bool)
            array = wp.empty(shape, dtype=kind, device="cpu")
            self._kept.append(array)
            return array
        return wp.from_torch(values, dtype=dtype)

    def _constant(self, values: np.ndarray, dtype: object, kind: type = np.float32) -> wp.array:
        return self._keep(torch.from_numpy(np.ascontiguousarray(values, dtype=kind)), dtype)

    def _field(self, name: str, dtype: object) -> wp.array:
        """Return a field of the model, with a row for each environment or one for all."""
        if name in self._params:
            return self._keep(self._params[name], dtype)
        return self._constant(np.asarray(getattr(self._model, name))[None], dtype)

    def _whole(self, name: str) -> wp.array:
        """Return a field of whole numbers, which variants alone change, before any drawing."""
        if name not in self._params:
            return self._constant(np.asarray(getattr(self._model, name))[None], None, np.int32)
        return self._keep(self._params[name].int())

    def _room(self, columns: int) -> list[wp.array]:
        """Return one thread's buffers: two rows of a height field's corners, and a z-buffer."""
        shape = (self._cfg.height, self._cfg.width)
        return [
            self._keep(torch.zeros(2, columns, 3), wp.vec3),
            self._keep(torch.zeros(2, columns, 2), wp.vec2),
            self._keep(torch.zeros(2, columns, dtype=torch.int32)),
            self._keep(torch.zeros(shape)),
            self._keep(torch.zeros(shape, dtype=torch.int32)),
        ]

    def _targets(self, frames: Frames, num_envs: int) -> list[wp.array]:
        """Return the frames as Warp sees them; those that are not drawn are empty."""
        depth, rgb, segmentation = frames.depth, frames.rgb, frames.segmentation
        if rgb is not None:
            rgb = rgb.view(*rgb.shape[:3], -1)
        none = [torch.float32, torch.uint8, torch.int32]
        return [
            self._keep(torch.zeros(0, 0, 0, 0, dtype=dtype) if one is None else one)
            for one, dtype in zip((depth, rgb, segmentation), none, strict=True)
        ]

    def _view(self) -> View:
        view, cfg = View(), self._cfg
        view.camera, view.height, view.width = cfg.camera, cfg.height, cfg.width
        view.near, view.far = cfg.clipping_range
        view.lens = self._keep(self._lens, wp.vec4)
        return view

    def _ground(self, field: HeightField, geom: int) -> Ground:
        ground = Ground()
        ground.geom = geom
        ground.heights = self._keep(field.data)
        (ground.x, ground.y), (ground.dx, ground.dy) = field.start, field.spacing
        return ground

    def _poses(self, data: Fields, has_lights: bool) -> Poses:
        poses = Poses()
        for name in (*POSE_FIELDS, *(LIGHT_FIELDS if has_lights else ())):
            values = data[name]
            if name.endswith("mat"):
                setattr(poses, name, self._keep(values.unflatten(2, (3, 3)), wp.mat33))
            else:
                setattr(poses, name, self._keep(values, wp.vec3))
        return poses

    def _shapes(self, fields: list[int]) -> Shapes:
        model, shapes = self._model, Shapes()
        visible = [geom for geom in self._cfg.geoms if geom not in fields]
        shapes.visible = self._constant(np.array(visible), None, np.int32)
        shapes.kind, shapes.mesh = self._whole("geom_type"), self._whole("geom_dataid")
        shapes.size = self._field("geom_size", wp.vec3)
        kinds = self._params.get("geom_type", torch.from_numpy(model.geom_type))
        meshes = range(model.nmesh) if (kinds == _MESH).any() else ()
        made = [_mesh(model, index) for index in meshes]
        names = np.array([mesh.id for mesh in made], dtype=np.uint64)
        shapes.mesh_id = wp.array(names, dtype=wp.uint64, device="cpu")
        boxes = np.array([_box(model, index) for index in meshes]).reshape(-1, 2, 3)
        shapes.centre = self._constant(boxes[:, 0], wp.vec3)
        shapes.half = self._constant(boxes[:, 1], wp.vec3)
        corners = [_corner_normals(model, index) for index in meshes]
        first = np.cumsum([0, *map(len, corners)])[:-1]
        shapes.first_corner = self._constant(first, None, np.int32)
        shapes.corner_normal = self._constant(np.concatenate([np.zeros((0, 3)), *corners]), wp.vec3)
        self._kept += [shapes.mesh_id, made]
        return shapes

    def _textures(self) -> Textures:
        model, textures = self._model, Textures()
        colours = [_texels(model, index) for index in range(model.ntex)]
        starts = np.cumsum([0, *map(len, colours)])[:-1] if colours else np.zeros(0)
        textures.texels = self._constant(np.concatenate([np.zeros((0, 3)), *colours]), wp.vec3)
        textures.mean = self._constant(
            np.array([one.mean(axis=0) for one in colours]).reshape(-1, 3), wp.vec3
        )
        textures.start = self._constant(starts, None, np.int32)
        for name in ("width", "height"):
            values = self._constant(getattr(model, f"tex_{name}"), None, np.int32)
            setattr(textures, name, values)
        textures.kind = self._constant(model.tex_type, None, np.int32)
        return textures

    def _looks(self) -> Looks:
        model, looks = self._model, Looks()
        self._colours = geom_colours(model, self._params)
        looks.colour = self._keep(self._colours, wp.vec3)
        gloss = np.tile([0.5, 64.0, 0.0], (model.ngeom, 1))
        texture = np.full(model.ngeom, -1)
        repeat, is_uniform = np.ones((model.ngeom, 2)), np.zeros(model.ngeom, dtype=bool)
        has = model.geom_matid >= 0
        material = model.geom_matid[has]
        gloss[has] = np.column_stack(
            (
                model.mat_specular[material],
                128.0 * model.mat_shininess[material],
                model.mat_emission[material],
            )
        )
        texture[has] = model.mat_texid[material, int(mujoco.mjtTextureRole.mjTEXROLE_RGB)]
        repeat[has], is_uniform[has] = model.mat_texrepeat[material], model.mat_texuniform[material]
        looks.gloss = self._constant(gloss, wp.vec3)
        looks.texture = self._constant(texture, None, np.int32)
        looks.repeat = self._constant(repeat, wp.vec2)
        looks.is_uniform = self._constant(is_uniform, None, np.bool_)
        skies = np.flatnonzero(model.tex_type == mujoco.mjtTexture.mjTEXTURE_SKYBOX)
        looks.sky = int(skies[0]) if len(skies) else -1
        looks.background = wp.vec3(*self._cfg.background)
        return looks

    def _lights(self) -> Lights:
        model, lights = self._model, Lights()
        lights.kind = self._constant(model.light_type, None, np.int32)
        lights.is_on = self._constant(model.light_active[None], None, np.bool_)
        for name in ("attenuation", "ambient", "diffuse", "specular"):
            setattr(lights, name, self._field(f"light_{name}", wp.vec3))
        cutoff = np.cos(np.radians(model.light_cutoff))
        spot = np.column_stack((cutoff, model.light_exponent))
        lights.spot = self._constant(spot[None], wp.vec2)
        head = model.vis.headlight
        for name in ("ambient", "diffuse", "specular"):
            values = getattr(head, name) if head.active else np.zeros(3)
            setattr(lights, f"head_{name}", wp.vec3(*map(float, values)))
        return lights

    def _refresh(self) -> None:
        """Recompute what follows from the fields that differ between environments."""
        if len(self._lens) > 1:
            self._lens.copy_(lens(self._model, self._cfg, self._params))
        if len(self._colours) > 1:
            self._colours.copy_(geom_colours(self._model, self._params))


@wp.kernel
def draw_pictures(
    view: View,
    ground: Ground,
    shapes: Shapes,
    textures: Textures,
    looks: Looks,
    lights: Lights,
    poses: Poses,
    wanted: wp.array(dtype=wp.bool),
    slot: wp.array(dtype=int),
    first: int,
    points: wp.array2d(dtype=wp.vec3),
    pixels: wp.array2d(dtype=wp.vec2),
    codes: wp.array2d(dtype=int),
    frame: wp.array2d(dtype=float),
    ids: wp.array2d(dtype=int),
    depth: wp.array4d(dtype=float),
    rgb: wp.array4d(dtype=wp.uint8),
    segmentation: wp.array4d(dtype=int),
) -> None:
    """Draw an environment's picture into a slot of its frames, which may be empty."""
    n = first + wp.tid()
    if not wanted[n]:
        return
    eye = eye_of(view, poses, n)
    find_visible(view, ground, shapes, poses, eye, n, points, pixels, codes, frame, ids)
    if depth.shape[0] > 0:
        far = depth[n, slot[n]]
        farthest = 1.0 / view.far
        for i in range(view.height):
            row = frame[i]
            out = far[i]
            for j in range(view.width):
                out[j] = wp.where(row[j] > farthest, 1.0 / row[j], wp.inf)
    if segmentation.shape[0] > 0:
        parts = segmentation[n, slot[n]]
        for i in range(view.height):
            shown = ids[i]
            out_ids = parts[i]
            for j in range(view.width):
                out_ids[j] = shown[j]
    if rgb.shape[0] > 0:
        colours = rgb[n, slot[n]]
        paint(view, ground, shapes, textures, looks, lights, poses, eye, n, frame, ids, colours)


def geom_colours(model: mujoco.MjModel, params: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Return the colours of all geoms, their own or their materials'.

    Float32 ``(num_envs or 1, ngeom, 3)``; more than a row only where ``params`` has other colours.
    """

    def field(name: str) -> torch.Tensor:
        values = params.get(name)
        if values is not None:
            return values
        return torch.from_numpy(np.asarray(getattr(model, name), dtype=np.float32))[None]

    own = field("geom_rgba")
    material = torch.from_numpy(model.geom_matid.astype(np.int64))
    if not model.nmat:
        return own[..., :3].contiguous()
    of_material = field("mat_rgba")[:, material.clamp(min=0)]
    is_unset = (own == torch.tensor(_UNSET)).all(dim=-1) & (material >= 0)
    return torch.where(is_unset.unsqueeze(-1), of_material, own)[..., :3].contiguous()


def _texels(model: mujoco.MjModel, index: int) -> np.ndarray:
    """Return a texture's colours, from 0 to 1, ``(height * width, 3)``."""
    channels = int(model.tex_nchannel[index])
    start = int(model.tex_adr[index])
    size = int(model.tex_width[index]) * int(model.tex_height[index]) * channels
    values = model.tex_data[start : start + size].reshape(-1, channels)
    return np.broadcast_to(values[:, :3], (len(values), 3)) / 255.0


def _mesh(model: mujoco.MjModel, index: int) -> wp.Mesh:
    vertices, faces = int(model.mesh_vertadr[index]), int(model.mesh_faceadr[index])
    points = model.mesh_vert[vertices : vertices + int(model.mesh_vertnum[index])]
    corners = model.mesh_face[faces : faces + int(model.mesh_facenum[index])]
    return wp.Mesh(
        points=wp.array(points, dtype=wp.vec3, device="cpu"),
        indices=wp.array(corners.ravel(), dtype=int, device="cpu"),
    )


def _box(model: mujoco.MjModel, index: int) -> np.ndarray:
    """Return the centre of a mesh's bounding box, and half its sizes, ``(2, 3)``."""
    first = int(model.mesh_vertadr[index])
    points = model.mesh_vert[first : first + int(model.mesh_vertnum[index])]
    low, high = points.min(axis=0), points.max(axis=0)
    return np.array([(low + high) / 2.0, (high - low) / 2.0])


def _corner_normals(model: mujoco.MjModel, index: int) -> np.ndarray:
    """Return the normals at the corners of a mesh's triangles, ``(3 * num_faces, 3)``.

    Those that are far from their triangle's own are not smooth: that is used, as in MuJoCo.
    """
    first, normals = int(model.mesh_faceadr[index]), int(model.mesh_normaladr[index])
    faces = slice(first, first + int(model.mesh_facenum[index]))
    corners = model.mesh_vert[int(model.mesh_vertadr[index]) + model.mesh_face[faces]]
    flat = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    flat = flat / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-12)
    flat = flat.repeat(3, axis=0)
    smooth = model.mesh_normal[normals + model.mesh_facenormal[faces].ravel()]
    is_near = (smooth * flat).sum(axis=1, keepdims=True) >= SMOOTH_COSINE
    return np.where(is_near, smooth, flat)


def _check(model: mujoco.MjModel, geoms: Sequence[int], fields: list[int]) -> None:
    if len(fields) > 1:
        names = " and ".join(repr(model.geom(geom).name) for geom in fields[:2])
        raise ConfigurationError(
            f"A camera sees one height field, but here are {names}. Keep one of them out of "
            "its geom_groups."
        )
    for geom in geoms:
        if int(model.geom_type[geom]) > _MESH:
            kind = mujoco.mjtGeom(int(model.geom_type[geom])).name.removeprefix("mjGEOM_").lower()
            body = model.body(int(model.geom_bodyid[geom])).name
            raise ConfigurationError(
                f"A camera cannot draw a geom of type {kind}, such as geom {geom} of body "
                f"{body!r}. Leave its group out of the camera's geom_groups."
            )
