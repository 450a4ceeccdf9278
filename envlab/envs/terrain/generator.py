"""Generation of ground: heights on a grid, start positions on tiles, and what a model gets.

A model gets a height field, and boxes for what this cannot express.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np

from envlab.envs.terrain.cfg import TerrainCfg, TerrainGeneratorCfg
from envlab.envs.terrain.sub_terrains import SubTerrainCfg
from envlab.envs.terrain.tile import Box, Tile, between, find_patches
from envlab.errors import ConfigurationError

WHERE = "env.scene.terrain.terrain_generator"


@dataclass(frozen=True, eq=False)
class Ground:
    """Generated ground, its centre at the world's origin."""

    heights: np.ndarray
    """Heights of the tiles' vertices in m, float64 ``(num_x, num_y)``; zero on the outer edges."""
    size: tuple[float, float]
    """Lengths of all tiles together along x and y, in m."""
    origins: np.ndarray
    """Start position on each tile, in m, float64 ``(num_rows, num_cols, 3)``."""
    kinds: np.ndarray
    """Index of each tile's sub-terrain, int64 ``(num_rows, num_cols)``."""
    boxes: list[Box]
    """Boxes on and above the heights, in world coordinates."""
    tops: np.ndarray
    """Heights of what is uppermost, the ground or a box, like ``heights``."""
    flat_patches: dict[str, np.ndarray]
    """Flat patches of each tile by name, in m, float64 ``(num_rows, num_cols, number, 3)``; the
    start position of tiles whose kind has none of a name."""


def generate(cfg: TerrainGeneratorCfg) -> Ground:
    """Make the ground that ``cfg`` describes, the same in every call and on every machine.

    Raises:
        ConfigurationError: For proportions or sizes that are not valid.
    """
    kinds = _check(cfg)
    tile = Tile(cfg.size, cfg.horizontal_scale, cfg.vertical_scale)
    along_x, along_y = (number - 1 for number in tile.shape)
    heights = np.zeros((cfg.num_rows * along_x + 1, cfg.num_cols * along_y + 1))
    origins = np.zeros((cfg.num_rows, cfg.num_cols, 3))
    chosen = np.zeros((cfg.num_rows, cfg.num_cols), dtype=np.int64)
    size = (cfg.num_rows * cfg.size[0], cfg.num_cols * cfg.size[1])
    tops, boxes = heights.copy(), []
    patches = _no_patches(cfg, kinds)
    for row in range(cfg.num_rows):
        for column in range(cfg.num_cols):
            # One generator per tile: changing one tile leaves the others as they are.
            rng = np.random.default_rng([cfg.seed, row, column])
            chosen[row, column], difficulty = _choose(cfg, row, column, rng)
            kind = kinds[chosen[row, column]]
            made, top = kind.build(tile, difficulty, rng)
            x, y = row * along_x, column * along_y
            heights[x : x + along_x + 1, y : y + along_y + 1] += made  # edges are zero
            centre = [(row + 0.5) * cfg.size[0], (column + 0.5) * cfg.size[1]]
            origins[row, column] = [centre[0] - 0.5 * size[0], centre[1] - 0.5 * size[1], top]
            corner = np.array([row * cfg.size[0], column * cfg.size[1], 0.0])
            corner[:2] -= 0.5 * np.array(size)
            added = [box for box in kind.boxes(tile, difficulty) if (box.half > 1e-6).all()]
            boxes += [box.moved(corner) for box in added]
            covered = tile.covered(made, added)
            tops[x : x + along_x + 1, y : y + along_y + 1] += covered
            for name, places in patches.items():
                places[row, column] = origins[row, column]
                sampling = (kind.flat_patch_sampling or {}).get(name)
                if sampling is not None:
                    key = [cfg.seed, row, column, zlib.crc32(name.encode())]
                    found = find_patches(sampling, tile, covered, top, np.random.default_rng(key))
                    if len(found) == 0:
                        raise ConfigurationError(_no_patch(cfg, name, row, column, kind))
                    number = places.shape[2]
                    places[row, column] = corner + found[np.arange(number) % len(found)]
    for array in (heights, tops, origins, chosen, *patches.values()):
        array.flags.writeable = False
    return Ground(heights, size, origins, chosen, boxes, tops, patches)


def _no_patches(cfg: TerrainGeneratorCfg, kinds: list[SubTerrainCfg]) -> dict[str, np.ndarray]:
    """Return arrays for the flat patches of all tiles, by name, as long as any kind needs."""
    numbers: dict[str, int] = {}
    for kind in kinds:
        for name, sampling in (kind.flat_patch_sampling or {}).items():
            if sampling is not None:
                numbers[name] = max(numbers.get(name, 0), sampling.num_patches)
    shape = (cfg.num_rows, cfg.num_cols)
    return {name: np.zeros((*shape, number, 3)) for name, number in numbers.items()}


def _no_patch(
    cfg: TerrainGeneratorCfg, name: str, row: int, column: int, kind: SubTerrainCfg
) -> str:
    kinds = {id(one): kind_name for kind_name, one in _kinds(cfg).items()}
    path = f"{WHERE}.sub_terrains.{kinds[id(kind)]}.flat_patch_sampling.{name}"
    return (
        f"No place of the tile in row {row}, column {column} is as flat as {path} demands. Lower "
        "its patch_radius, raise max_height_diff, or widen its ranges."
    )


def _choose(
    cfg: TerrainGeneratorCfg, row: int, column: int, rng: np.random.Generator
) -> tuple[int, float]:
    """Return the kind of a tile and its difficulty: by position in a curriculum, else random."""
    proportions = np.array([kind.proportion for kind in _kinds(cfg).values()])
    shares = np.cumsum(proportions / proportions.sum())
    draw = rng.uniform(0.0, 1.0, 2)
    if cfg.curriculum:
        place, level = column / cfg.num_cols + 1e-3, (row + draw[1]) / cfg.num_rows
    else:
        place, level = draw
    kind = min(int(np.searchsorted(shares, place, side="right")), len(shares) - 1)
    return kind, between(cfg.difficulty_range, level)


def _kinds(cfg: TerrainGeneratorCfg) -> dict[str, SubTerrainCfg]:
    """Return the sub-terrains that no override removed."""
    return {name: kind for name, kind in cfg.sub_terrains.items() if kind is not None}


def _check(cfg: TerrainGeneratorCfg) -> list[SubTerrainCfg]:
    """Return the kinds of ground, after checking the configuration."""
    kinds = _kinds(cfg)
    if not kinds:
        raise ConfigurationError(
            f"{WHERE}.sub_terrains is empty, but ground needs at least one kind. Add one, or set "
            "env.scene.terrain=null for a plane."
        )
    for name, kind in kinds.items():
        if not isinstance(kind, SubTerrainCfg):
            raise ConfigurationError(
                f"{WHERE}.sub_terrains.{name} is a {type(kind).__name__}, but must be one of the "
                "configurations of envlab.envs.terrain, or one derived from SubTerrainCfg."
            )
        if not kind.proportion >= 0.0:
            raise ConfigurationError(
                f"{WHERE}.sub_terrains.{name}.proportion is {kind.proportion}, but must be 0 or "
                "more."
            )
    if not sum(kind.proportion for kind in kinds.values()) > 0.0:
        raise ConfigurationError(
            f"All proportions of {WHERE}.sub_terrains are 0, but at least one must be more. Raise "
            f"that of {' or '.join(kinds)}."
        )
    for name in ("num_rows", "num_cols", "horizontal_scale", "vertical_scale"):
        if not getattr(cfg, name) > 0:
            raise ConfigurationError(f"{WHERE}.{name} is {getattr(cfg, name)}; give more than 0.")
    if not 0.0 <= cfg.border_width < math.inf:
        raise ConfigurationError(f"{WHERE}.border_width is {cfg.border_width}; give 0 or more.")
    low, high = cfg.difficulty_range
    if not 0.0 <= low <= high <= 1.0:
        raise ConfigurationError(
            f"{WHERE}.difficulty_range is {list(cfg.difficulty_range)}, but must be [easiest, "
            "hardest] within 0 and 1."
        )
    return list(kinds.values())


FIELD = "terrain"
"""The height field's name."""
GROUP = 1
"""The ground's geom group, which allows rays against the ground alone; shown by default."""
_DEPTH = 1.0
"""Thickness of the ground below its lowest point and of the border, in m."""
_PLANE = mujoco.mjtGeom.mjGEOM_PLANE


def add_terrain(spec: mujoco.MjSpec, cfg: TerrainCfg) -> None:
    """Turn the world's floor into generated ground, which keeps its name, material and friction.

    If the world has no plane, a geom called ``floor`` is added.

    Raises:
        ConfigurationError: For proportions or sizes that are not valid.
    """
    generator = cfg.terrain_generator
    ground = generate(generator)
    low, high = float(ground.heights.min()), float(ground.heights.max())
    rise = max(high - low, 1e-3)  # of flat ground, which must not be 0
    half_x, half_y = (0.5 * length for length in ground.size)
    spec.add_hfield(
        name=FIELD,
        size=[half_x, half_y, rise, _DEPTH],
        nrow=ground.heights.shape[1],
        ncol=ground.heights.shape[0],
        userdata=((ground.heights.T - low) / rise).ravel(),
    )
    floor = _floor(spec)
    floor.type = mujoco.mjtGeom.mjGEOM_HFIELD
    floor.hfieldname = FIELD
    floor.group = GROUP
    floor.pos, floor.quat, floor.size = [0.0, 0.0, low], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0]
    width = generator.border_width
    if width > 0.0:
        whole_x = half_x + width
        for name, centre, half in (
            ("x0", (-half_x - 0.5 * width, 0.0), (0.5 * width, half_y)),
            ("x1", (half_x + 0.5 * width, 0.0), (0.5 * width, half_y)),
            ("y0", (0.0, -half_y - 0.5 * width), (whole_x, 0.5 * width)),
            ("y1", (0.0, half_y + 0.5 * width), (whole_x, 0.5 * width)),
        ):
            _add_box(spec, floor, f"border_{name}", (*centre, -0.5 * _DEPTH), (*half, 0.5 * _DEPTH))
    for number, box in enumerate(ground.boxes):
        _add_box(spec, floor, f"box_{number}", box.centre, box.half)


def _floor(spec: mujoco.MjSpec) -> mujoco.MjsGeom:
    for geom in spec.worldbody.geoms:
        if geom.type == _PLANE:
            return geom
    return spec.worldbody.add_geom(name="floor", rgba=[0.55, 0.55, 0.5, 1.0])


def _add_box(
    spec: mujoco.MjSpec,
    floor: mujoco.MjsGeom,
    name: str,
    centre: Sequence[float] | np.ndarray,
    half: Sequence[float] | np.ndarray,
) -> None:
    """Add a box that is otherwise like the floor."""
    shared = "material contype conaffinity condim priority group solmix margin gap".split()
    spec.worldbody.add_geom(
        name=f"{floor.name or 'floor'}_{name}",
        type=mujoco.mjtGeom.mjGEOM_BOX,
        pos=list(centre),
        size=list(half),
        friction=floor.friction.copy(),
        solref=floor.solref.copy(),
        solimp=floor.solimp.copy(),
        rgba=floor.rgba.copy(),
        **{field: getattr(floor, field) for field in shared},
    )


def surface(model: mujoco.MjModel) -> str:
    """Return the name of the geom that is the generated ground of ``model``."""
    field = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_HFIELD, FIELD)
    shown = (model.geom_type == mujoco.mjtGeom.mjGEOM_HFIELD) & (model.geom_dataid == field)
    name: str = model.geom(int(np.flatnonzero(shown)[0])).name
    return name
