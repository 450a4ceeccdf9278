"""Draw the pictures of docs/cameras.md.

    python scripts/documentation/cameras.py

docs/images/cameras.png: colours, MuJoCo's own renderer, depth and segmentation of three tasks.
docs/images/depth_camera.png: Go2's camera images of parkour courses, and of its legs.
"""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from envlab.sim.opengl import choose_opengl

if __name__ == "__main__":
    choose_opengl()  # must precede the import of MuJoCo

import mujoco

from envlab import registry
from envlab.distributed.context import DistributedContext
from envlab.envs.camera import Camera, CameraCfg, CameraOffsetCfg

IMAGES = Path(__file__).parents[2] / "docs/images"
TASKS = {
    "Isaac-Velocity-Flat-G1-v0": "side",
    "Isaac-Open-Drawer-Franka-v0": "side",
    "Isaac-Repose-Cube-Allegro-v0": "room/front",
}
PARKOUR = "Envlab-Velocity-Parkour-Depth-Unitree-Go2-v0"
SIZE = 200
FAR = 4.0
"""Depth that is black, in m."""
SCALE = 3
GAP = 6


def row_of(task_id: str, camera_name: str) -> list[np.ndarray]:
    """Return four pictures of a task: ours, MuJoCo's, depth and segmentation."""
    task = registry.get_task(task_id)
    cfg = registry.load_env_cfg(task)
    eye = CameraCfg(
        camera_name=camera_name,
        data_types=["rgb", "depth", "segmentation"],
        width=SIZE,
        height=SIZE,
    )
    old = {} if cfg.sensors is None else vars(cfg.sensors)
    named = {**old, "eye": eye}
    cfg.sensors = dataclasses.make_dataclass("Sensors", named)(**named)
    env = task.make(cfg, context=DistributedContext(num_threads=1), num_envs=1, seed=1)
    camera = env.sensor_manager.get_term("eye")
    assert isinstance(camera, Camera)
    model = env.sim.model_of(0)
    model.vis.quality.offsamples = 0
    with mujoco.Renderer(model, SIZE, SIZE) as renderer:
        renderer.update_scene(env.sim.data_of(0), camera=camera_name)
        for name in ("SHADOW", "REFLECTION", "HAZE"):
            renderer.scene.flags[int(getattr(mujoco.mjtRndFlag, f"mjRND_{name}"))] = 0
        theirs = renderer.render()
    ours = camera.image("rgb")[0].numpy()
    depth = np.minimum(camera.image("depth")[0, ..., 0].numpy() / FAR, 1.0)
    shades = np.rint(255.0 * (1.0 - depth)).astype(np.uint8)[..., None].repeat(3, axis=2)
    geoms = camera.image("segmentation")[0, ..., 0].numpy()
    parts = ((geoms + 1)[..., None] * np.array([0.618, 0.414, 0.236]) % 1.0 * 255).astype(np.uint8)
    apart = np.abs(ours.astype(int) - theirs).mean()
    print(f"{task_id}: {apart:.2f} of 255 apart from MuJoCo's renderer")
    return [ours, theirs, shades, parts]


def depth_views(*, of_its_legs: bool = False) -> list[np.ndarray]:
    """Return images in 0 to 1 of a gap, a hurdle and a block of a middle level, or of the legs."""
    task = registry.get_task(PARKOUR)
    cfg = registry.load_env_cfg(task)
    camera = cfg.sensors.depth_camera
    if of_its_legs:
        camera.seen_bodies, camera.geom_groups = [".*"], [0, 1]
        pitch = 0.5  # a view back and down, from below the head
        camera.offset = CameraOffsetCfg(
            pos=(0.33, 0.0, -0.12), rot=(0.0, -math.sin(pitch / 2), 0.0, math.cos(pitch / 2))
        )
    env = task.make(cfg, context=DistributedContext(num_threads=1), num_envs=12, seed=1)
    env.terrain.move(torch.full((12,), 6))
    qpos = env.sim.data.qpos.clone()
    qpos[:, :2] = env.env_origins[:, :2]
    qpos[:, 0] += 0.25
    qpos[:, 2] = 0.33
    qpos[:, 3:7] = torch.tensor([1.0, 0.0, 0.0, 0.0])
    env.sim.reset(torch.ones(12, dtype=torch.bool), qpos)
    sensor = env.sensor_manager.get_term("depth_camera")
    sensor.reset(torch.ones(12, dtype=torch.bool))
    images = sensor.image()[..., 0] / cfg.sensors.depth_camera.clipping_range[1]
    return [images[index].numpy() for index in ((1,) if of_its_legs else (1, 5, 9))]


def beside(pictures: list[np.ndarray]) -> np.ndarray:
    """Return pictures side by side, with white between them."""
    gap = np.full((len(pictures[0]), GAP, *pictures[0].shape[2:]), 255, dtype=np.uint8)
    parts = [part for picture in pictures for part in (picture, gap)]
    return np.concatenate(parts[:-1], axis=1)


def main() -> None:
    """Draw both; in depth images, near is bright."""
    rows = [beside(row_of(*item)) for item in TASKS.items()]
    gap = np.full((GAP, *rows[0].shape[1:]), 255, dtype=np.uint8)
    parts = [part for row in rows for part in (row, gap)]
    Image.fromarray(np.concatenate(parts[:-1])).save(IMAGES / "cameras.png", optimize=True)
    views = [
        np.kron(np.rint(255.0 * (1.0 - view)).astype(np.uint8), np.ones((SCALE, SCALE), np.uint8))
        for view in [*depth_views(), *depth_views(of_its_legs=True)]
    ]
    Image.fromarray(beside(views)).save(IMAGES / "depth_camera.png", optimize=True)


if __name__ == "__main__":
    main()
