"""Methods on the camera of a script's window, with which pictures are taken without a window."""

from __future__ import annotations

from envlab.errors import ConfigurationError
from envlab_isaacgym.gym.worlds import physics_of
from envlab_isaacgym.pictures import looking, pictures_of
from envlab_isaacgym.values import Int2, Transform, Vec3
from envlab_isaacgym.world import Env, Viewer


class Windows:
    """See :class:`envlab_isaacgym.gymapi.Gym`.

    If ``create_viewer`` returned None, they apply to the last simulation that was made, so that a
    script without a display writes the pictures that its window would show.
    """

    _window: Viewer | None = None

    def viewer_camera_look_at(
        self, viewer: Viewer | None, env: Env | None, position: Vec3, target: Vec3, /
    ) -> None:
        """Place the camera; points are in an environment, or in the world."""
        window, origin = self._window_of(viewer), Vec3() if env is None else env.origin
        window.pose = looking(position + origin, target + origin)

    def get_viewer_camera_transform(self, viewer: Viewer | None, env: Env | None, /) -> Transform:
        """Return the camera's pose, in an environment or in the world."""
        pose = self._window_of(viewer).pose
        return Transform(pose.p - (Vec3() if env is None else env.origin), pose.r)

    def get_viewer_size(self, viewer: Viewer | None, /) -> Int2:
        properties = self._window_of(viewer).properties
        return Int2(properties.width, properties.height)

    def write_viewer_image_to_file(self, viewer: Viewer | None, path: str, /) -> None:
        """Write the window camera's view of all environments to a .png file.

        Raises:
            ConfigurationError: If the machine has no OpenGL to draw with.
        """
        from matplotlib.image import imsave

        window = self._window_of(viewer)
        physics_of(window.sim)
        pictures = pictures_of(window.sim, window.properties)
        pictures.see(window.sim.envs, window.pose, window.properties.horizontal_fov)
        imsave(path, pictures.colors())

    def _window_of(self, viewer: Viewer | None) -> Viewer:
        window = viewer or self._window
        if window is None:
            raise ConfigurationError("There is no simulation to view. Call create_sim first.")
        return window
