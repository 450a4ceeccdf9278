"""Heights of a terrain straight below points, by lookup, equal to those of vertical rays.

A ray against a height field tests dozens of triangles; a lookup interpolates in the one below. For
1024 environments with 187 points each on 800 x 1600 cells, the CPU's rays took 51 ms on two cores
and :meth:`HeightField.heights` 7.5 ms. Both give the same heights (tested).
"""

from __future__ import annotations

import mujoco
import numpy as np
import torch

from envlab.errors import ConfigurationError


class HeightField:
    """An upright height field fixed to the world, on a simulation's device.

    Attributes:
        data: Heights in world coordinates, in m, float32 ``(num_rows, num_columns)``; rows are
            along y, columns along x.
        start: x and y of the first vertex, in m.
        spacing: Distances of two vertices along x and y, in m.
    """

    def __init__(self, model: mujoco.MjModel, geom: str, device: torch.device) -> None:
        """Read the height field of a geom.

        Args:
            model: The model.
            geom: The geom's name.
            device: Device of the points.

        Raises:
            ConfigurationError: If there is no such geom, or it is not fixed and upright.
        """
        index = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_GEOM, geom)
        if index < 0 or model.geom_type[index] != mujoco.mjtGeom.mjGEOM_HFIELD:
            raise ConfigurationError(
                f"{geom!r} is not a geom of type hfield in this model. Name one that is."
            )
        scene = mujoco.MjData(model)
        mujoco.mj_kinematics(model, scene)
        is_fixed = model.body_weldid[model.geom_bodyid[index]] == 0
        if not is_fixed or not np.allclose(scene.geom_xmat[index], np.eye(3).ravel()):
            raise ConfigurationError(
                f"The height field {geom!r} moves or is rotated. Fix it to the world, and write "
                "its data in world axes."
            )
        field = model.geom_dataid[index]
        num_rows, num_columns = int(model.hfield_nrow[field]), int(model.hfield_ncol[field])
        start = int(model.hfield_adr[field])
        values = model.hfield_data[start : start + num_rows * num_columns]
        half_x, half_y, top, _ = model.hfield_size[field]
        x, y, z = scene.geom_xpos[index]
        heights = values.reshape(num_rows, num_columns) * top + z
        self.data = torch.tensor(heights, dtype=torch.float32, device=device)
        self._flat = self.data.flatten()
        self._last_row, self._last_column = num_rows - 1, num_columns - 1
        self._last_cell = (num_rows - 1) * num_columns - 2
        self._x_scale = self._last_column / (2.0 * half_x)
        self._y_scale = self._last_row / (2.0 * half_y)
        self._x_start, self._y_start = x - half_x, y - half_y
        self.start = (float(self._x_start), float(self._y_start))
        self.spacing = (1.0 / float(self._x_scale), 1.0 / float(self._y_scale))

    def raise_to(self, heights: np.ndarray) -> None:
        """Let lookups also see what stands on or above the field.

        Args:
            heights: The uppermost height at each vertex, in m, of the shape of ``data``.
        """
        tops = torch.tensor(heights, dtype=torch.float32, device=self.data.device)
        torch.maximum(self.data, tops, out=self.data)

    def heights(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Return the terrain's heights at points, in m, of their shape.

        Beyond the border it is the height of the nearest point on the border, and where a
        coordinate is NaN, NaN.

        Args:
            x: World coordinates in m, of any shape.
            y: The same.
        """
        column = ((x - self._x_start) * self._x_scale).clamp(0.0, self._last_column)
        row = ((y - self._y_start) * self._y_scale).clamp(0.0, self._last_row)
        first_column = column.floor().clamp_(max=self._last_column - 1)
        first_row = row.floor().clamp_(max=self._last_row - 1)
        u, v = column - first_column, row - first_row
        near = first_row.mul_(self._last_column + 1).add_(first_column).long()
        # NaN, as of a robot that is about to be reset, becomes an index far beyond the end.
        near.clamp_(0, self._last_cell)
        far = near + (self._last_column + 2)
        # MuJoCo splits a cell by its diagonal from the first to the last corner. On either side two
        # of the three corners are those of the diagonal; the third is at the larger coordinate.
        beside = torch.where(u > v, near + 1, far - 1)
        corner, middle, last = (self._flat[ids] for ids in (near, beside, far))
        long, short = torch.maximum(u, v), torch.minimum(u, v)
        return corner + (middle - corner) * long + (last - middle) * short
