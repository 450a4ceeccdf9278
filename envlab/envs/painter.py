"""Pictures of environments, drawn by MuJoCo, of large generated ground the part around the robot.

MuJoCo draws all of a height field, for a shadow twice more: 1.5 million triangles of a parkour took
0.4 s of a CPU for a picture, those of a window 0.1 s.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import mujoco
import numpy as np

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


RADIUS_M = 12.0
"""Half the side of what is drawn."""
SLACK_M = 4.0
"""How far the robot may move away from its middle."""


@dataclass(frozen=True, kw_only=True)
class _Window:
    """A part of a height field."""

    rows: slice
    columns: slice
    size: np.ndarray
    """Half its sides, in m, ``(2,)``: x, y."""
    middle: np.ndarray
    """In the field's frame, in m, ``(2,)``."""


class PictureGround:
    """Replaces a picture model's height field by a part of it."""

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData, at: np.ndarray) -> None:
        """Write the part around a place to a model, before its renderer is made.

        Args:
            model: The model to draw; it is changed.
            data: A state of the physics.
            at: The place, in m, ``(2,)``.
        """
        self._moves: list[tuple[int, np.ndarray]] = []
        self._at = at.copy()
        by_geom = np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_HFIELD)
        for geom in by_geom if model.nhfield == 1 else ():
            turn = data.geom_xmat[geom].reshape(3, 3)
            if np.allclose(turn, np.eye(3)) and (model.hfield_size[0, :2] > RADIUS_M).any():
                window = _window(model, at - data.geom_xpos[geom, :2])
                _cut(model, window)
                model.geom_rbound[geom] = 4.0 * RADIUS_M
                self._moves.append((int(geom), window.middle))

    def has_left(self, at: np.ndarray) -> bool:
        """Return whether a place, in m, ``(2,)``, is too far from the middle of what is drawn."""
        return bool(self._moves) and float(np.abs(at - self._at).max()) > SLACK_M

    @contextmanager
    def placed(self, data: mujoco.MjData) -> Iterator[None]:
        """Have the part where it belongs while a scene is made of ``data``."""
        for geom, middle in self._moves:
            data.geom_xpos[geom, :2] += middle
        try:
            yield
        finally:
            for geom, middle in self._moves:
                data.geom_xpos[geom, :2] -= middle


def _window(model: mujoco.MjModel, at: np.ndarray) -> _Window:
    """Return the part of the only height field around a place in its frame, in m, ``(2,)``."""
    parts, sizes, middles = [], [], []
    for axis, num in enumerate((int(model.hfield_ncol[0]), int(model.hfield_nrow[0]))):
        half = float(model.hfield_size[0, axis])
        step = 2.0 * half / (num - 1)
        wanted = min(num, 2 * round(RADIUS_M / step) + 1)
        first = min(max(round((at[axis] + half) / step) - wanted // 2, 0), num - wanted)
        parts.append(slice(first, first + wanted))
        sizes.append(0.5 * step * (wanted - 1))
        middles.append(step * (first + 0.5 * (wanted - 1)) - half)
    return _Window(columns=parts[0], rows=parts[1], size=np.array(sizes), middle=np.array(middles))


def _cut(model: mujoco.MjModel, window: _Window) -> None:
    """Leave only a part of the only height field."""
    num_rows, num_columns = int(model.hfield_nrow[0]), int(model.hfield_ncol[0])
    heights = model.hfield_data[: num_rows * num_columns].reshape(num_rows, num_columns)
    part = heights[window.rows, window.columns].copy()
    model.hfield_data[: part.size] = part.ravel()
    model.hfield_nrow[0], model.hfield_ncol[0] = part.shape
    model.hfield_size[0, :2] = window.size
