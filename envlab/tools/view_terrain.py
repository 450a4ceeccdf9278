"""``envlab view --task ID --terrain``: a picture of a task's ground, without its robot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tabulate import tabulate

from envlab.config import compose
from envlab.errors import ConfigurationError
from envlab.registry import get_task, load_env_cfg
from envlab.run.compare.statistics import require
from envlab.training.arguments import TrainingParser

if TYPE_CHECKING:
    import numpy as np

    from envlab.envs.terrain import TerrainCfg

DEFAULT_PATH = "terrain.png"
SIZE = 720, 1280
"""Pixels from top to bottom and from left to right."""


def main(arguments: Sequence[str]) -> int:
    """Print the kinds of ground, and write the picture.

    Raises:
        ConfigurationError: If the task has no generated ground, or no picture can be made.
    """
    parser = TrainingParser(
        prog="envlab view --terrain",
        description="Draw a task's ground: levels rise to the back, kinds begin on the right.",
    )
    parser.add_argument("--task", required=True, metavar="ID", help="task id")
    parser.add_argument("--terrain", action="store_true", help="draw the ground alone")
    parser.add_argument(
        "--output", metavar="FILE.png", default=DEFAULT_PATH, help=f"default: {DEFAULT_PATH}"
    )
    flags, overrides = parser.parse_with_overrides(arguments)
    path = Path(flags.output)
    if path.suffix != ".png" or not path.parent.is_dir():
        raise ConfigurationError(
            f"--output is {str(path)!r}, but must be a file FILE.png in a folder that exists."
        )
    cfg = compose({"env": load_env_cfg(get_task(flags.task))}, overrides)["env"]
    terrain: TerrainCfg | None = getattr(getattr(cfg, "scene", None), "terrain", None)
    if terrain is None:
        raise ConfigurationError(
            f"{flags.task} has no generated ground (env.scene.terrain). Name a task on rough "
            "ground, such as Isaac-Velocity-Rough-Unitree-Go2-v0."
        )
    image = require("matplotlib.image", "The picture")
    print(kinds(terrain))
    image.imsave(path, draw(terrain))
    print(f"Picture: {path}")
    return 0


def kinds(cfg: TerrainCfg) -> str:
    """Return a table of the kinds of ground, with the number of tiles of each."""
    from envlab.envs.terrain.generator import generate

    generator = cfg.terrain_generator
    made = generate(generator).kinds.ravel().tolist()
    names = [name for name, kind in generator.sub_terrains.items() if kind is not None]
    rows = [(name, made.count(index)) for index, name in enumerate(names)]
    return tabulate(rows, headers=("Kind", f"Tiles of {generator.size[0]:g} m"))


def draw(cfg: TerrainCfg) -> np.ndarray:
    """Return a picture of the ground, uint8 ``(height, width, 3)``.

    Raises:
        ConfigurationError: If nothing here can draw.
    """
    import mujoco

    from envlab.envs.terrain.generator import add_terrain
    from envlab.sim.opengl import provide_opengl

    spec, (height, width) = mujoco.MjSpec(), SIZE
    spec.visual.global_.offheight, spec.visual.global_.offwidth = SIZE
    spec.worldbody.add_light(pos=[0, 0, 50], dir=[0.5, 0.5, -1.0], type=1)  # from afar
    add_terrain(spec, cfg)
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    generator = cfg.terrain_generator
    lengths = generator.size[0] * generator.num_rows, generator.size[1] * generator.num_cols
    camera = mujoco.MjvCamera()
    camera.azimuth, camera.elevation, camera.distance = 0.0, -40.0, 0.9 * max(lengths)
    provide_opengl()
    renderer = mujoco.Renderer(model, height=height, width=width)
    renderer.update_scene(data, camera)
    picture: np.ndarray = renderer.render()
    renderer.close()
    return picture
