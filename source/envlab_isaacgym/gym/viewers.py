"""Methods on windows, pictures and colours. There is no window: none of them shows anything."""

from __future__ import annotations

from typing import Any

import numpy as np

from envlab_isaacgym.enums import KeyboardInput, MeshType, MouseInput
from envlab_isaacgym.parameters import ActionEvent, CameraProperties
from envlab_isaacgym.values import Vec3
from envlab_isaacgym.world import Env, Sim, Viewer


class Viewers:
    """See :class:`envlab_isaacgym.gymapi.Gym`.

    ``create_viewer`` returns None, as Isaac Gym's does on a machine without a display; tasks then
    leave the window out.
    """

    def create_viewer(self, sim: Sim, camera: CameraProperties, /) -> Viewer | None:
        return None

    def destroy_viewer(self, viewer: Viewer | None, /) -> None: ...

    def subscribe_viewer_keyboard_event(
        self, viewer: Viewer | None, key: KeyboardInput, action: str, /
    ) -> None: ...

    def subscribe_viewer_mouse_event(
        self, viewer: Viewer | None, button: MouseInput, action: str, /
    ) -> None: ...

    def query_viewer_has_closed(self, viewer: Viewer | None, /) -> bool:
        return False

    def query_viewer_action_events(self, viewer: Viewer | None, /) -> list[ActionEvent]:
        return []

    def poll_viewer_events(self, viewer: Viewer | None, /) -> None: ...

    def step_graphics(self, sim: Sim, /) -> None: ...

    def draw_viewer(
        self, viewer: Viewer | None, sim: Sim, render_collision: bool = False
    ) -> None: ...

    def clear_lines(self, viewer: Viewer | None, /) -> None: ...

    def add_lines(
        self,
        viewer: Viewer | None,
        env: Env | None,
        count: int,
        vertices: np.ndarray,
        colors: np.ndarray,
        /,
    ) -> None: ...

    def draw_env_rigid_contacts(
        self, viewer: Viewer | None, env: Env, color: Vec3, scale: float, sort: bool, /
    ) -> None: ...

    def set_rigid_body_color(
        self, env: Env, actor: int, body: int, mesh: MeshType, color: Vec3, /
    ) -> None: ...

    def reset_actor_materials(self, env: Env, actor: int, mesh: MeshType, /) -> None: ...

    def set_rigid_body_texture(
        self, env: Env, actor: int, body: int, mesh: MeshType, texture: int, /
    ) -> None: ...

    def set_light_parameters(
        self, sim: Sim, light: int, intensity: Vec3, ambient: Vec3, direction: Vec3, /
    ) -> None: ...

    def create_texture_from_file(self, sim: Sim, path: str, /) -> int:
        return 0

    def create_texture_from_buffer(self, sim: Sim, width: int, height: int, pixels: Any, /) -> int:
        return 0

    def free_texture(self, sim: Sim, texture: int, /) -> None: ...
