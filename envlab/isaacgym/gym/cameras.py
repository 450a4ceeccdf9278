"""Methods on cameras. Pictures show collision shapes, and are drawn when they are asked for."""

from __future__ import annotations

import copy
import importlib
import math
import os
import sys
from dataclasses import dataclass, field

import mujoco
import numpy as np

from envlab.errors import ConfigurationError
from envlab.isaacgym.enums import CameraFollowMode, ImageType
from envlab.isaacgym.gym.states import pose_of
from envlab.isaacgym.gym.worlds import physics_of
from envlab.isaacgym.parameters import CameraProperties
from envlab.isaacgym.values import Quat, Transform, Vec3
from envlab.isaacgym.world import Env, Sim
from envlab.rl.loop.opengl import INSTALL_HINT, choose_opengl, opengl_problems


@dataclass(eq=False)
class Camera:
    """A camera, which looks along x of its pose, with z upwards."""

    properties: CameraProperties
    pose: Transform = field(default_factory=Transform)
    """In its environment; of one on a body, in the frame that it follows."""
    body: int | None = None
    mode: CameraFollowMode = CameraFollowMode.FOLLOW_TRANSFORM
    renderer: mujoco.Renderer | None = None


class Cameras:
    """See :class:`envlab.isaacgym.gymapi.Gym`."""

    def create_camera_sensor(self, env: Env, properties: CameraProperties, /) -> int:
        env.cameras.append(Camera(properties))
        return len(env.cameras) - 1

    def destroy_camera_sensor(self, sim: Sim, env: Env, camera: int, /) -> None:
        renderer, env.cameras[camera].renderer = env.cameras[camera].renderer, None
        if renderer is not None:
            renderer.close()

    def attach_camera_to_body(
        self, camera: int, env: Env, body: int, offset: Transform, mode: CameraFollowMode, /
    ) -> None:
        """Let a camera follow a body's position, or all of its pose."""
        own = env.cameras[camera]
        own.body, own.pose, own.mode = body, copy.deepcopy(offset), CameraFollowMode(mode)

    def set_camera_transform(self, camera: int, env: Env, pose: Transform, /) -> None:
        own = env.cameras[camera]
        own.body, own.pose = None, copy.deepcopy(pose)

    def set_camera_location(self, camera: int, env: Env, position: Vec3, target: Vec3, /) -> None:
        """Place a camera at a point, looking at another."""
        ahead = target - position
        turn = math.atan2(ahead.y, ahead.x)
        dip = math.atan2(-ahead.z, math.hypot(ahead.x, ahead.y))
        self.set_camera_transform(
            camera, env, Transform(position, Quat.from_euler_zyx(0.0, dip, turn))
        )

    def get_camera_transform(self, sim: Sim, env: Env, camera: int, /) -> Transform:
        own = env.cameras[camera]
        if own.body is None:
            return own.pose
        pose = pose_of(env, own.body)
        if own.mode == CameraFollowMode.FOLLOW_POSITION:
            return Transform(pose.p + own.pose.p, own.pose.r)
        return pose * own.pose

    def get_camera_view_matrix(self, sim: Sim, env: Env, camera: int, /) -> np.ndarray:
        """Return what takes points of the environment to the camera's axes: right, up, backwards.

        As OpenGL's, transposed: it multiplies rows from the right.
        """
        pose = self.get_camera_transform(sim, env, camera)
        matrix = np.eye(4, dtype=np.float32)
        axes = [Vec3(0, -1, 0), Vec3(0, 0, 1), Vec3(-1, 0, 0)]
        rotation = np.array([np.asarray(pose.r.rotate(axis)) for axis in axes])
        matrix[:3, :3] = rotation.T
        matrix[3, :3] = -rotation @ np.asarray(pose.p)
        return matrix

    def get_camera_proj_matrix(self, sim: Sim, env: Env, camera: int, /) -> np.ndarray:
        """Return the projection to the picture, without an end of sight, transposed as the view."""
        properties = env.cameras[camera].properties
        half = math.tan(math.radians(properties.horizontal_fov) / 2)
        matrix = np.zeros((4, 4), dtype=np.float32)
        matrix[0, 0], matrix[1, 1] = 1 / half, properties.width / properties.height / half
        matrix[2, 3], matrix[3, 2] = -1.0, properties.near_plane
        return matrix

    def render_all_camera_sensors(self, sim: Sim, /) -> None:
        """Do nothing: a picture is drawn when it is asked for."""

    def get_camera_image(self, sim: Sim, env: Env, camera: int, kind: ImageType, /) -> np.ndarray:
        """Return a picture.

        Colours are uint8, ``(height, 4 * width)``: red, green, blue and 255 of each pixel. Depths
        are the negative distances along the camera's axis in m, ``(height, width)``.

        Raises:
            ConfigurationError: If the machine has no OpenGL to draw with.
            NotImplementedError: If another kind is asked for.
        """
        if kind not in (ImageType.IMAGE_COLOR, ImageType.IMAGE_DEPTH):
            raise NotImplementedError(
                f"Gym.get_camera_image: only colours and depths are drawn, not {kind!r}."
            )
        own = env.cameras[camera]
        simulation = physics_of(sim).flushed()
        if own.renderer is None:
            own.renderer = _renderer(simulation.model_of(env.index), own.properties)
        own.renderer.update_scene(simulation.data_of(env.index))
        self._aim(own.renderer, self.get_camera_transform(sim, env, camera), own.properties)
        if kind == ImageType.IMAGE_DEPTH:
            own.renderer.enable_depth_rendering()
            depths = -own.renderer.render()
            own.renderer.disable_depth_rendering()
            return depths
        colors = own.renderer.render()
        opaque = np.full((*colors.shape[:2], 1), 255, dtype=np.uint8)
        return np.concatenate((colors, opaque), axis=-1).reshape(len(colors), -1)

    def write_camera_image_to_file(
        self, sim: Sim, env: Env, camera: int, kind: ImageType, path: str, /
    ) -> None:
        """Write colours as a file whose name ends in .png."""
        from matplotlib.image import imsave

        colors = self.get_camera_image(sim, env, camera, kind)
        imsave(path, colors.reshape(len(colors), -1, 4))

    def _aim(
        self, renderer: mujoco.Renderer, pose: Transform, properties: CameraProperties
    ) -> None:
        half = math.tan(math.radians(properties.horizontal_fov) / 2)
        for eye in renderer.scene.camera:
            eye.pos = np.asarray(pose.p)
            eye.forward = np.asarray(pose.r.rotate(Vec3(1, 0, 0)))
            eye.up = np.asarray(pose.r.rotate(Vec3(0, 0, 1)))
            top = eye.frustum_near * half * properties.height / properties.width
            eye.frustum_top, eye.frustum_bottom = top, -top
            eye.frustum_center = eye.frustum_width = 0.0  # as wide as the picture


def _renderer(model: mujoco.MjModel, properties: CameraProperties) -> mujoco.Renderer:
    size = model.vis.global_
    size.offwidth = max(size.offwidth, properties.width)
    size.offheight = max(size.offheight, properties.height)
    # MuJoCo reads once which OpenGL there is, when it is imported; most scripts need none.
    choose_opengl()
    if os.environ["MUJOCO_GL"] == "disable":
        raise ConfigurationError(
            f"No picture can be drawn here ({opengl_problems()}). {INSTALL_HINT}."
        )
    importlib.reload(sys.modules[mujoco.Renderer.__module__].gl_context)
    return mujoco.Renderer(model, properties.height, properties.width)
