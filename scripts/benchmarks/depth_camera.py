"""Depth images a CPU second on Go2's rough ground: our camera and MuJoCo's renderer.

    MUJOCO_GL=egl taskset -c 0 python scripts/benchmarks/depth_camera.py

Both take turns, and each draws the same views of 58 x 87 pixels, up to 2 m (the camera of Cheng et
al. 2023, "Extreme Parkour"; arXiv 2309.14341). Seconds are the process's CPU seconds; a software
renderer may use several threads, which count.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable

import mujoco
import numpy as np
import torch

from envlab import registry
from envlab.distributed.context import DistributedContext
from envlab.envs.camera import DepthCameraSensor
from envlab.sim.opengl import provide_opengl

TASK = "Envlab-Velocity-Rough-Depth-Unitree-Go2-v0"


def seconds(work: Callable[[], object]) -> float:
    """Return the CPU seconds that ``work`` takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--num_envs", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=15)
    flags = parser.parse_args()
    task = registry.get_task(TASK)
    context = DistributedContext(num_threads=1)
    env = task.make(registry.load_env_cfg(task), context=context, num_envs=flags.num_envs, seed=0)
    for _ in range(25):
        env.step(torch.zeros_like(env.actions))
    sensor = env.sensor_manager.get_term("depth_camera")
    assert isinstance(sensor, DepthCameraSensor)
    everywhere = torch.ones(flags.num_envs, dtype=torch.bool)
    cfg = sensor.cfg
    provide_opengl()
    model = env.sim.model_of(0)
    renderer = mujoco.Renderer(model, height=cfg.pattern_cfg.height, width=cfg.pattern_cfg.width)
    renderer.enable_depth_rendering()
    camera = mujoco.MjvCamera()
    options = mujoco.MjvOption()
    options.geomgroup[:] = [0, 1, 0, 0, 0, 0]
    fy = cfg.pattern_cfg.intrinsic_matrix()[1, 1]
    model.vis.global_.fovy = 2 * math.degrees(math.atan(0.5 * cfg.pattern_cfg.height / fy))
    views = min(8, flags.num_envs)
    datas = [env.sim.data_of(index) for index in range(views)]
    body = model.body(cfg.body_name).id

    def rendered() -> list[np.ndarray]:
        images = []
        for data in datas:
            turn = data.xmat[body].reshape(3, 3)
            ahead = turn[:, 0]
            camera.lookat[:] = data.xpos[body] + turn @ np.asarray(cfg.offset.pos) + ahead
            camera.distance = 1.0
            camera.azimuth = math.degrees(math.atan2(ahead[1], ahead[0]))
            camera.elevation = math.degrees(math.asin(ahead[2]))
            renderer.update_scene(data, camera=camera, scene_option=options)
            images.append(renderer.render())
        return images

    ours, theirs = [], []
    rendered()
    sensor._take(everywhere)
    for _ in range(flags.rounds):
        ours.append(seconds(lambda: sensor._take(everywhere)) / flags.num_envs)
        theirs.append(seconds(rendered) / views)
    mine, other = statistics.median(ours), statistics.median(theirs)
    print(f"envlab: {1 / mine:,.0f} frames a CPU second (fastest {1 / min(ours):,.0f})")
    print(f"mujoco.Renderer: {1 / other:,.0f} (fastest {1 / min(theirs):,.0f})")
    print(f"ratio of medians: {other / mine:.1f}")


if __name__ == "__main__":
    main()
