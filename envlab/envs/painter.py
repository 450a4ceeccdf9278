"""Pictures of environments, drawn by MuJoCo."""

from __future__ import annotations

import copy
from collections.abc import Callable

import mujoco
import numpy as np

from envlab.envs.picture_ground import PictureGround
from envlab.envs.skin import Look
from envlab.sim.opengl import provide_opengl
from envlab.sim.simulation import Simulation


class Painter:
    """Draws environments of a simulation, in a size."""

    def __init__(self, sim: Simulation, look: Look | None, *, height: int, width: int) -> None:
        """Open no renderer yet.

        Args:
            sim: The environments.
            look: What robots look like; None: as in the physics.
            height: Of pictures, in pixels.
            width: Likewise.
        """
        self._sim, self._look = sim, look
        self.size = height, width
        self._ground: PictureGround | None = None
        self._renderer: mujoco.Renderer | None = None

    def draw(
        self,
        index: int,
        camera: int | mujoco.MjvCamera,
        add_markers: Callable[[mujoco.MjvScene], None] | None,
    ) -> np.ndarray:
        """Return a picture, uint8 ``(height, width, 3)``.

        Args:
            index: The environment.
            camera: Where from.
            add_markers: Adds to the scene; None: adds none.
        """
        sim, look = self._sim, self._look
        data = sim.data_of(index) if look is None else look.state_of(sim, index)
        at = data.subtree_com[min(1, sim.model.nbody - 1), :2]
        if self._renderer is None or self._ground is None or self._ground.has_left(at):
            self._open(data, at)
        assert self._renderer is not None
        assert self._ground is not None
        if look is None:
            sim.write_params(self._renderer.model, index)
        else:
            look.write_params(self._renderer.model, sim, index)
        with self._ground.placed(data):
            self._renderer.update_scene(data, camera=camera)
        if add_markers is not None:
            add_markers(self._renderer.scene)
        picture: np.ndarray = self._renderer.render()
        return picture

    def close(self) -> None:
        """Free the renderer."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None

    def _open(self, data: mujoco.MjData, at: np.ndarray) -> None:
        self.close()
        provide_opengl()
        model = copy.copy(self._sim.model_of(0) if self._look is None else self._look.model)
        self._ground = PictureGround(model, data, at)
        self._renderer = mujoco.Renderer(model, height=self.size[0], width=self.size[1])
