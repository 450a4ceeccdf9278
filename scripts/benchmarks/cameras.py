"""Images per CPU second of a task's camera and of MuJoCo's software renderer, alternately.

    MUJOCO_GL=egl taskset -c 0 python scripts/benchmarks/cameras.py

Without ``--task``: colours of Cartpole and G1, 64 x 64, and the depth image of Go2 on rough ground.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import time
from collections.abc import Callable

import mujoco
import numpy as np
import torch

from envlab import registry
from envlab.distributed.context import DistributedContext
from envlab.envs import ManagerEnvCfg
from envlab.envs.camera import Camera, CameraCfg
from envlab.envs.managers import SensorManager
from envlab.envs.vector_env import VectorEnv
from envlab.sim.opengl import provide_opengl

COLOURS = CameraCfg(camera_name="side", geom_groups=[0, 1, 2])
TASKS: dict[str, CameraCfg | None] = {
    "Isaac-Cartpole-v0": COLOURS,
    "Isaac-Velocity-Flat-G1-v0": COLOURS,
    "Envlab-Velocity-Rough-Depth-Unitree-Go2-v0": None,
}
"""The camera that is added; None: the task's own."""


def seconds(work: Callable[[], object]) -> float:
    """Return the CPU seconds that ``work`` takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


def camera_of(env: VectorEnv) -> Camera:
    """Return the environment's camera."""
    manager = getattr(env, "sensor_manager", None)
    assert isinstance(manager, SensorManager)
    found = [manager.get_term(name) for name in manager.active_terms]
    return next(term for term in found if isinstance(term, Camera))


def measure(name: str, added: CameraCfg | None, num_envs: int, rounds: int) -> None:
    """Measure one task and print."""
    task = registry.get_task(name)
    cfg = registry.load_env_cfg(task)
    if added is not None:
        assert isinstance(cfg, ManagerEnvCfg)
        cfg.sensors = make_sensors(cfg.sensors, added)
    context = DistributedContext(num_threads=1)
    env = task.make(cfg, context=context, num_envs=num_envs, seed=0)
    for _ in range(25):
        env.step(torch.zeros_like(env.actions))
    camera = camera_of(env)
    everywhere = torch.ones(num_envs, dtype=torch.bool)
    height, width = camera.cfg.shape
    provide_opengl()
    renderer = mujoco.Renderer(env.sim.model_of(0), height=height, width=width)
    if "rgb" not in camera.cfg.data_types:
        renderer.enable_depth_rendering()
    views = min(8, num_envs)
    datas = [env.sim.data_of(index) for index in range(views)]

    def drawn() -> torch.Tensor:
        camera.reset(everywhere)
        return camera.image()

    def rendered() -> list[np.ndarray]:
        images = []
        for data in datas:
            renderer.update_scene(data, camera=camera.name)
            images.append(renderer.render())
        return images

    ours, theirs = [], []
    rendered(), drawn()
    for _ in range(rounds):
        ours.append(seconds(drawn) / num_envs)
        theirs.append(seconds(rendered) / views)
    mine, other = statistics.median(ours), statistics.median(theirs)
    print(f"{name}, {height} x {width}, {', '.join(camera.cfg.data_types)}:")
    print(f"  envlab: {1 / mine:,.0f} images a CPU second (fastest {1 / min(ours):,.0f})")
    print(f"  mujoco.Renderer: {1 / other:,.0f} (fastest {1 / min(theirs):,.0f})")
    print(f"  ratio of medians: {other / mine:.1f}")


def make_sensors(sensors: object, added: CameraCfg) -> object:
    """Return a task's sensors with one more."""
    own = [] if sensors is None else dataclasses.fields(sensors)  # type: ignore[arg-type]
    named = {**{item.name: getattr(sensors, item.name) for item in own}, "eye": added}
    return dataclasses.make_dataclass("Sensors", named)(**named)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--task", choices=list(TASKS), action="append")
    parser.add_argument("--num_envs", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=15)
    flags = parser.parse_args()
    for name in flags.task or TASKS:
        measure(name, TASKS[name], flags.num_envs, flags.rounds)


if __name__ == "__main__":
    main()
