"""Isaac Lab's terrain meshes as height fields, which are what MuJoCo collides with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from envlab.errors import ConfigurationError
from envlab.sim.height_field import HeightField
from envlab_isaaclab import stage, views
from envlab_isaaclab.prim_functions import create_prim
from envlab_isaaclab.spawn_shapes import put
from envlab_isaaclab.things import Material, Terrain

_CELL = 0.1
"""Distance of known heights in m: Isaac Lab's own terrains have vertices that far apart."""
_ROWS_AT_ONCE = 200
_UNITS = 1e6


def spawn_mesh(prim_path: str, mesh: Any, **keywords: Any) -> None:
    """Let the mesh of a terrain be the ground, as heights on a grid.

    Args:
        prim_path: Where.
        mesh: A ``trimesh.Trimesh``.
        keywords: Isaac Lab's.
    """
    if keywords.get("translation") is not None or keywords.get("orientation") is not None:
        raise ConfigurationError(
            f"The mesh at {prim_path} is moved from its place, which a terrain here cannot be."
        )
    heights, start = _heights(np.asarray(mesh.vertices), np.asarray(mesh.faces))
    material = Material.of(keywords.get("physics_material"))
    put(prim_path, None, Terrain(heights, start, _CELL, material))
    attributes = {
        "points": np.asarray(mesh.vertices),
        "faceVertexIndices": np.asarray(mesh.faces).flatten(),
    }
    create_prim(f"{prim_path}/mesh", "Mesh", attributes=attributes)


def _heights(vertices: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, tuple[float, float]]:
    """Return the uppermost heights on a grid ``(num_x, num_y)``, and its first point.

    A vertical wall becomes a slope as wide as a cell.
    """
    from isaaclab.utils.warp import convert_to_warp_mesh, raycast_mesh

    warped = convert_to_warp_mesh(vertices, faces, device="cpu")
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    xs = np.arange(low[0], high[0] + _CELL / 2, _CELL)
    ys = np.arange(low[1], high[1] + _CELL / 2, _CELL)
    rows = []
    for first in range(0, len(xs), _ROWS_AT_ONCE):
        some = xs[first : first + _ROWS_AT_ONCE]
        places = np.stack(np.meshgrid(some, ys, indexing="ij"), axis=-1).reshape(-1, 2)
        # Rays along the border would miss.
        places = places.clip(low[:2] + 1e-4, high[:2] - 1e-4)
        above = np.full((len(places), 1), high[2] + 1.0)
        starts = torch.tensor(np.hstack([places, above]), dtype=torch.float32)
        down = torch.tensor([0.0, 0.0, -1.0]).expand_as(starts).contiguous()
        hits = raycast_mesh(starts, down, mesh=warped)[0][:, 2].numpy()
        rows.append(np.where(np.isfinite(hits), hits, low[2]).reshape(len(some), len(ys)))
    return np.concatenate(rows), (float(xs[0]), float(ys[0]))


def height_rays(cast: Callable[..., Any]) -> Callable[..., Any]:
    """Return Isaac Lab's function of rays, which looks up heights where it can.

    Args:
        cast: The function, which tests the terrain's triangles.
    """
    fields: dict[int, HeightField | None] = {}

    def cast_rays(
        starts: torch.Tensor, directions: torch.Tensor, mesh: Any, **keywords: Any
    ) -> Any:
        limit = keywords.get("max_dist", _UNITS)
        is_plain = not any(value for name, value in keywords.items() if name.startswith("return_"))
        is_down = bool((directions[..., 2] == -1.0).all())
        ground = _ground_height(fields, starts.device) if is_plain and is_down else None
        if ground is None:
            return cast(starts, directions, mesh=mesh, **keywords)
        hits = starts.clone()
        hits[..., 2] = ground(starts)
        missed = (hits[..., 2] > starts[..., 2]) | (starts[..., 2] - hits[..., 2] > limit)
        hits[missed] = torch.inf
        return hits, None, None, None

    return cast_rays


def _ground_height(
    fields: dict[int, HeightField | None], device: torch.device
) -> Callable[[torch.Tensor], torch.Tensor] | None:
    """Return a function from points to the ground's height, None if there is more than one."""
    grounds = {
        path: spawned.thing
        for path, spawned in stage.current().spawned.items()
        if isinstance(spawned.thing, Terrain)
    }
    if len(grounds) != 1:
        return None
    ((path, terrain),) = grounds.items()
    if terrain.is_flat:
        height = float(terrain.heights.min())
        return lambda points: torch.full_like(points[..., 2], height)
    world = views.simulation_view().world
    field = fields.get(id(world))
    if field is None:
        fields.clear()
        field = fields[id(world)] = HeightField(world.model, path, device)
    return lambda points: field.heights(points[..., 0], points[..., 1])
