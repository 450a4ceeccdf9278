"""``envlab export-scene TASK``: the scene of a task as files that MuJoCo's viewer opens."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from envlab.config import compose
from envlab.errors import ConfigurationError
from envlab.registry import get_task, load_env_cfg
from envlab.training.arguments import TrainingParser


def main(arguments: Sequence[str]) -> int:
    """Write a folder, or a file that ends in ``.zip``.

    Raises:
        EnvlabError: If the task has no scene, or the target exists.
    """
    parser = TrainingParser(
        prog="envlab export-scene",
        description="Write a task's scene as scene.xml, with its meshes and textures.",
    )
    parser.add_argument("task", metavar="TASK", help="task id")
    parser.add_argument("--output", metavar="PATH", help="a folder or FILE.zip; default: TASK")
    flags, overrides = parser.parse_with_overrides(arguments)
    task = get_task(flags.task)
    target = Path(flags.output or flags.task)
    if target.exists() and (target.is_file() or any(target.iterdir())):
        raise ConfigurationError(
            f"--output is {str(target)!r}, which exists. Name another folder, or remove it."
        )
    from envlab.envs.entity_files import write_scene
    from envlab.envs.scene import build_spec  # they load torch
    from envlab.envs.vector_env import VectorEnv

    cfg = compose({"env": load_env_cfg(task)}, overrides)["env"]
    env = task.make(cfg, num_envs=1) if hasattr(cfg, "scene") else None
    if not isinstance(env, VectorEnv):
        raise ConfigurationError(
            f"{task.id} has no scene of MuJoCo's that could be written. Name another task."
        )
    spec, _ = build_spec(env.cfg.scene, env.cfg.sim, env.edit_spec)
    env.close()
    with tempfile.TemporaryDirectory() as folder:
        write_scene(spec, Path(folder))
        if target.suffix == ".zip":
            shutil.make_archive(str(target.with_suffix("")), "zip", folder)
        else:
            shutil.copytree(folder, target, dirs_exist_ok=True)
    print(f"Written: {target}. Look at it with: python -m mujoco.viewer --mjcf={target}/scene.xml")
    return 0
