"""Methods on cameras. Pictures show collision shapes: see :mod:`envlab_isaacgym.pictures`."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field

import numpy as np
import torch

from envlab.errors import ConfigurationError
from envlab_isaacgym.enums import CameraFollowMode, ImageType
from envlab_isaacgym.gym.states import is_running, pose_of
from envlab_isaacgym.gym.worlds import physics_of
from envlab_isaacgym.parameters import CameraProperties
from envlab_isaacgym.pictures import draw, looking
from envlab_isaacgym.tensor import Tensor
from envlab_isaacgym.values import Transform, Vec3
from envlab_isaacgym.world import Env, Sim

_DTYPES = {
    ImageType.IMAGE_COLOR: torch.uint8,
    ImageType.IMAGE_DEPTH: torch.float32,
    ImageType.IMAGE_SEGMENTATION: torch.int32,
}
"""Types of pictures as tensors."""


@dataclass(eq=False)
class Camera:
    """A camera, which looks along x of its pose, with z upwards."""

    properties: CameraProperties
    pose: Transform = field(default_factory=Transform)
    """Pose in its environment; for one on a body, in the frame that it follows."""
    body: int | None = None
    mode: CameraFollowMode = CameraFollowMode.FOLLOW_TRANSFORM
    tensors: dict[ImageType, torch.Tensor] = field(default_factory=dict)
    """Pictures that are redrawn by ``render_all_camera_sensors``."""


class Cameras:
    """See :class:`envlab_isaacgym.gymapi.Gym`."""

    def create_camera_sensor(self, env: Env, properties: CameraProperties, /) -> int:
        env.cameras.append(Camera(properties))
        return len(env.cameras) - 1

    def destroy_camera_sensor(self, sim: Sim, env: Env, camera: int, /) -> None:
        env.cameras[camera].tensors.clear()

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
        self.set_camera_transform(camera, env, looking(position, target))

    def get_camera_transform(self, sim: Sim, env: Env, camera: int, /) -> Transform:
        own = env.cameras[camera]
        if own.body is None:
            return own.pose
        pose = pose_of(env, own.body)
        if own.mode == CameraFollowMode.FOLLOW_POSITION:
            return Transform(pose.p + own.pose.p, own.pose.r)
        return pose * own.pose

    def get_camera_view_matrix(self, sim: Sim, env: Env, camera: int, /) -> np.ndarray:
        """Return the map from points of the world to the camera's axes: right, up, backwards.

        As OpenGL's, transposed: it multiplies rows from the right.
        """
        pose = self.get_camera_transform(sim, env, camera)
        matrix = np.eye(4, dtype=np.float32)
        axes = [Vec3(0, -1, 0), Vec3(0, 0, 1), Vec3(-1, 0, 0)]
        rotation = np.array([np.asarray(pose.r.rotate(axis)) for axis in axes])
        matrix[:3, :3] = rotation.T
        matrix[3, :3] = -rotation @ np.asarray(pose.p + env.origin)
        return matrix

    def get_camera_proj_matrix(self, sim: Sim, env: Env, camera: int, /) -> np.ndarray:
        """Return the projection to the picture, without a far plane, transposed as the view."""
        properties = env.cameras[camera].properties
        half = math.tan(math.radians(properties.horizontal_fov) / 2)
        matrix = np.zeros((4, 4), dtype=np.float32)
        matrix[0, 0], matrix[1, 1] = 1 / half, properties.width / properties.height / half
        matrix[2, 3], matrix[3, 2] = -1.0, properties.near_plane
        return matrix

    def render_all_camera_sensors(self, sim: Sim, /) -> None:
        """Draw the pictures of ``get_camera_image_gpu_tensor``; others are drawn on request."""
        for env in sim.envs:
            for camera, own in enumerate(env.cameras):
                for kind in own.tensors:
                    self._draw_into_tensor(env, camera, kind)

    def get_camera_image(self, sim: Sim, env: Env, camera: int, kind: ImageType, /) -> np.ndarray:
        """Return a picture.

        Colours are uint8, ``(height, 4 * width)``: red, green, blue and 255 of each pixel. Depths
        are the negative distances along the camera's axis in m, ``(height, width)``, -inf where
        there is nothing. Segmentation ids are int32, ``(height, width)``.

        Raises:
            ConfigurationError: If the machine has no OpenGL to draw with.
            NotImplementedError: If optical flow is requested.
        """
        physics_of(sim)
        pose = self.get_camera_transform(sim, env, camera)
        picture = draw(env, pose, env.cameras[camera].properties, kind)
        return picture.reshape(len(picture), -1)

    def get_camera_image_gpu_tensor(
        self, sim: Sim, env: Env, camera: int, kind: ImageType, /
    ) -> Tensor:
        """Return a picture on the simulation's device, the same tensor each time.

        ``render_all_camera_sensors`` draws into it: colours, uint8 ``(height, width, 4)``, depths,
        float32 ``(height, width)``, or segmentation ids, int32 ``(height, width)``. Before the
        first step it is 0.

        Raises:
            ConfigurationError: If the camera was made without ``enable_tensors``.
        """
        own = env.cameras[camera]
        if not own.properties.enable_tensors:
            raise ConfigurationError(
                f"Gym.get_camera_image_gpu_tensor: camera {camera} was made without tensors. Set "
                "enable_tensors in the CameraProperties that it is made with."
            )
        if kind not in own.tensors:
            size = own.properties.height, own.properties.width
            channels = (4,) if kind == ImageType.IMAGE_COLOR else ()
            own.tensors[kind] = torch.zeros(
                *size, *channels, dtype=_DTYPES[kind], device=sim.device
            )
            if is_running(env):
                self._draw_into_tensor(env, camera, kind)
        return Tensor(own.tensors[kind])

    def _draw_into_tensor(self, env: Env, camera: int, kind: ImageType) -> None:
        own = env.cameras[camera]
        pose = self.get_camera_transform(env.sim, env, camera)
        picture = draw(env, pose, own.properties, kind)
        own.tensors[kind].copy_(torch.from_numpy(picture))

    def start_access_image_tensors(self, sim: Sim, /) -> None:
        """Do nothing: drawing is complete when ``render_all_camera_sensors`` returns."""

    def end_access_image_tensors(self, sim: Sim, /) -> None:
        """Do nothing, as above."""

    def write_camera_image_to_file(
        self, sim: Sim, env: Env, camera: int, kind: ImageType, path: str, /
    ) -> None:
        """Write colours as a file whose name ends in .png."""
        from matplotlib.image import imsave

        colors = self.get_camera_image(sim, env, camera, kind)
        imsave(path, colors.reshape(len(colors), -1, 4))
