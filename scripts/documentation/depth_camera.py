"""Draw docs/images/depth_camera.png: Go2's camera images of parkour courses, and of its legs.

python scripts/documentation/depth_camera.py
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from envlab import registry
from envlab.distributed.context import DistributedContext
from envlab.envs.camera import CameraOffsetCfg

PAGE = Path(__file__).parents[2] / "docs/images/depth_camera.png"
TASK = "Envlab-Velocity-Parkour-Depth-Unitree-Go2-v0"
SCALE = 3
GAP = 6


def views(*, of_its_legs: bool = False) -> list[np.ndarray]:
    """Return images in 0 to 1 of a gap, a hurdle and a block of a middle level, or of the legs."""
    task = registry.get_task(TASK)
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


def main() -> None:
    """Draw the page's picture: near is bright."""
    parts = []
    for view in [*views(), *views(of_its_legs=True)]:
        shades = np.rint(255.0 * (1.0 - view)).astype(np.uint8)
        parts += [np.kron(shades, np.ones((SCALE, SCALE), dtype=np.uint8))]
        parts += [np.full((len(parts[0]), GAP), 255, dtype=np.uint8)]
    Image.fromarray(np.concatenate(parts[:-1], axis=1)).save(PAGE, optimize=True)
    print(PAGE)


if __name__ == "__main__":
    main()
