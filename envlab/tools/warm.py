"""``envlab warm``: compile a task's Warp kernels into the cache, ahead of its first run."""

from __future__ import annotations

import time
from collections.abc import Sequence

from envlab.config import check_grammar, compose, merge
from envlab.errors import SimulationError
from envlab.registry import get_task, load_env_cfg
from envlab.rl.command.arguments import ArgumentParser


def main(arguments: Sequence[str]) -> int:
    """Compile, print how long it took, and return 0.

    Raises:
        SimulationError: If Warp is not installed.
    """
    parser = ArgumentParser(
        prog="envlab warm",
        description="Compile a task's Warp kernels into Warp's cache (WARP_CACHE_PATH).",
    )
    parser.add_argument("--task", required=True, metavar="ID", help="task id")
    parser.add_argument("--device", metavar="DEVICE", help="cuda if there is one, else cpu")
    flags, overrides = parser.parse_with_overrides(arguments)
    check_grammar(overrides)
    task = get_task(flags.task)
    if task.kind == "gymnasium":
        raise SimulationError(f"{task.id} has no kernels to compile. Train it as it is.")
    from envlab.distributed.context import DistributedContext  # loads torch

    cfg = compose({"env": load_env_cfg(task)}, overrides)["env"]
    device = DistributedContext.single(flags.device).device
    if task.kind == "NavEnv":
        start = time.perf_counter()
        houses = {"num_houses": 1, "first_house": 0, "cache_dir": None}
        cfg = merge(cfg, {"houses": houses, "scene": {"num_envs": 1}}, "env")
        task.make(cfg, context=DistributedContext.single(flags.device), seed=0).close()
        seconds = time.perf_counter() - start
        print(f"The kernels of {task.id} are ready on {device} ({seconds:.1f} s).")
        return 0
    try:
        from envlab.sim.warp_backend import warm_kernel_cache
    except ModuleNotFoundError as error:
        raise SimulationError(
            f"Warming needs the package {error.name!r}, which is not installed. "
            "Install it with: pip install -c constraints.txt -e '.[warp]'"
        ) from error
    from envlab.envs.scene import build_model

    seconds = warm_kernel_cache(cfg.sim, build_model(cfg.scene), device)
    print(f"The kernels of {task.id} are ready on {device} ({seconds:.1f} s).")
    return 0
