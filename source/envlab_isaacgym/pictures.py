"""Draws pictures of a world, through MuJoCo's OpenGL. They show collision shapes."""

from __future__ import annotations

import importlib
import math
import os
import sys

import mujoco
import numpy as np

from envlab.errors import ConfigurationError
from envlab.sim.opengl import INSTALL_HINT, choose_opengl, opengl_problems
from envlab_isaacgym.enums import ImageType
from envlab_isaacgym.parameters import CameraProperties
from envlab_isaacgym.values import Quat, Transform, Vec3
from envlab_isaacgym.world import Env, Sim, terrain_name


class Pictures:
    """Draws a world's pictures of one size.

    All cameras of that size share it, as OpenGL contexts are scarce; each environment's shapes are
    taken from its own model.
    """

    def __init__(self, model: mujoco.MjModel, width: int, height: int) -> None:
        size = model.vis.global_
        size.offwidth, size.offheight = max(size.offwidth, width), max(size.offheight, height)
        # MuJoCo chooses its OpenGL once, on import; most scripts need none.
        choose_opengl()
        if os.environ["MUJOCO_GL"] == "disable":
            raise ConfigurationError(
                f"No picture can be drawn here ({opengl_problems()}). {INSTALL_HINT}."
            )
        importlib.reload(sys.modules[mujoco.Renderer.__module__].gl_context)
        self._renderer = mujoco.Renderer(model, height, width)
        self._far = model.vis.map.zfar * model.stat.extent
        self._option, self._eye = mujoco.MjvOption(), mujoco.MjvCamera()
        self._pushes = mujoco.MjvPerturb()

    def see(self, envs: list[Env], pose: Transform, horizontal_fov: float) -> None:
        """View environments, the first with the ground, from ``pose``.

        Args:
            envs: Environments; if several, each at its origin.
            pose: Pose of the eye, which looks along x with z upwards.
            horizontal_fov: In degrees.
        """
        scene, simulation = self._renderer.scene, envs[0].sim.physics.flushed()
        all_kinds = mujoco.mjtCatBit.mjCAT_ALL
        for number, env in enumerate(envs):
            model, data = simulation.model_of(env.index), simulation.data_of(env.index)
            first = scene.ngeom if number else 0
            if number:
                mujoco.mjv_addGeoms(model, data, self._option, self._pushes, all_kinds, scene)
            else:
                mujoco.mjv_updateScene(
                    model, data, self._option, self._pushes, self._eye, all_kinds, scene
                )
            if scene.ngeom == scene.maxgeom:
                break
            for geom in scene.geoms[first : scene.ngeom] if len(envs) > 1 else ():
                if model.geom_bodyid[geom.objid] > 0:
                    geom.pos += np.asarray(env.origin)
                elif number:  # the ground is already drawn
                    geom.rgba[3] = 0.0
        self._aim(pose, math.tan(math.radians(horizontal_fov) / 2))

    def _aim(self, pose: Transform, half: float) -> None:
        renderer = self._renderer
        for eye in renderer.scene.camera:
            eye.pos = np.asarray(pose.p)
            eye.forward = np.asarray(pose.r.rotate(Vec3(1, 0, 0)))
            eye.up = np.asarray(pose.r.rotate(Vec3(0, 0, 1)))
            top = eye.frustum_near * half * renderer.height / renderer.width
            eye.frustum_top, eye.frustum_bottom = top, -top
            eye.frustum_center = eye.frustum_width = 0.0  # as wide as the picture

    def colors(self) -> np.ndarray:
        """Return red, green, blue and 255 of each pixel, uint8 ``(height, width, 4)``."""
        colors = self._renderer.render()
        opaque = np.full((*colors.shape[:2], 1), 255, dtype=np.uint8)
        return np.concatenate((colors, opaque), axis=-1)

    def depths(self) -> np.ndarray:
        """Return negative distances along the axis in m, ``(height, width)``; -inf: nothing."""
        self._renderer.enable_depth_rendering()
        depths = self._renderer.render()
        self._renderer.disable_depth_rendering()
        return np.where(depths < self._far * 0.999, -depths, -np.inf).astype(np.float32)

    def geoms(self) -> np.ndarray:
        """Return the id of the shape that each pixel shows, ``(height, width)``; -1: nothing."""
        self._renderer.enable_segmentation_rendering()
        ids, kinds = np.moveaxis(self._renderer.render(), -1, 0)
        self._renderer.disable_segmentation_rendering()
        return np.where(kinds == mujoco.mjtObj.mjOBJ_GEOM, ids, -1)


def looking(position: Vec3, target: Vec3) -> Transform:
    """Return the pose of an eye at one point looking at another."""
    ahead = target - position
    turn = math.atan2(ahead.y, ahead.x)
    dip = math.atan2(-ahead.z, math.hypot(ahead.x, ahead.y))
    return Transform(position, Quat.from_euler_zyx(0.0, dip, turn))


def pictures_of(sim: Sim, properties: CameraProperties) -> Pictures:
    """Return the drawer of a running world's pictures of one size.

    Raises:
        ConfigurationError: If the machine has no OpenGL to draw with.
    """
    size = properties.width, properties.height
    model = sim.physics.flushed().model
    made: tuple[mujoco.MjModel, Pictures] | None = sim.pictures.get(size)
    if made is None or made[0] is not model:  # changed properties may have replaced it
        sim.pictures[size] = made = model, Pictures(model, *size)
    return made[1]


def draw(env: Env, pose: Transform, properties: CameraProperties, kind: ImageType) -> np.ndarray:
    """Return a picture of one environment.

    Colours are uint8, ``(height, width, 4)``; depths float32, and segmentation ids int32, are
    ``(height, width)``.

    Raises:
        ConfigurationError: If the machine has no OpenGL to draw with.
        NotImplementedError: If optical flow is requested.
    """
    if kind == ImageType.IMAGE_OPTICAL_FLOW:
        raise NotImplementedError(
            "IMAGE_OPTICAL_FLOW is not implemented: colours, depths and segmentation are drawn."
        )
    pictures = pictures_of(env.sim, properties)
    pictures.see([env], pose, properties.horizontal_fov)
    if kind == ImageType.IMAGE_COLOR:
        return pictures.colors()
    if kind == ImageType.IMAGE_DEPTH:
        return pictures.depths()
    return _segmentation_ids(env)[pictures.geoms()]


def _segmentation_ids(env: Env) -> np.ndarray:
    """Return the id of each shape, followed by the id of no shape."""
    sim = env.sim
    model: mujoco.MjModel = sim.physics.scene.model
    ids = np.zeros(model.ngeom + 1, dtype=np.int32)
    statics = {terrain_name(number): terrain.params for number, terrain in enumerate(sim.terrains)}
    for name, static in {"ground": sim.ground, **statics}.items():
        if static is not None:
            ids[model.geom(name).id] = static.segmentation_id
    by_body = np.zeros(model.nbody, dtype=np.int32)
    by_body[sim.physics.scene.bodies] = [
        actor.segmentation_of(body)
        for actor in env.actors
        for body in range(len(actor.asset.body_names))
    ]
    moving = model.geom_bodyid > 0
    ids[:-1][moving] = by_body[model.geom_bodyid[moving]]
    return ids
