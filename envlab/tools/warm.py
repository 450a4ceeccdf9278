"""``envlab warm``: compile a task's Warp kernels ahead of its first run, measure its contacts."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

from envlab.config import compose, merge
from envlab.errors import ConfigurationError, SimulationError
from envlab.registry import get_task, load_env_cfg
from envlab.run.pretrained import SELECTOR, policies
from envlab.task import Task
from envlab.training.arguments import TrainingParser, play_parser

NUM_ENVS, NUM_STEPS = 64, 200
"""Size of a measurement."""


def main(arguments: Sequence[str]) -> int:
    """Compile, print the time that it took, and return 0.

    Raises:
        SimulationError: If Warp is not installed.
    """
    parser = TrainingParser(
        prog="envlab warm",
        description="Compile a task's Warp kernels into Warp's cache (WARP_CACHE_PATH).",
    )
    parser.add_argument("--task", required=True, metavar="ID", help="task id")
    parser.add_argument("--device", metavar="DEVICE", help="cuda if there is one, else cpu")
    parser.add_argument(
        "--measure",
        action="store_true",
        help="also run random actions and the pretrained policies, and say how much room contacts "
        "and constraints need",
    )
    flags, overrides = parser.parse_with_overrides(arguments)
    task = get_task(flags.task)
    if task.kind == "gymnasium":
        raise SimulationError(f"{task.id} has no kernels to compile. Train it as it is.")
    from envlab.distributed.context import DistributedContext  # they load torch
    from envlab.distributed.program import configure_logging

    configure_logging()  # compilation tells its progress
    cfg = compose({"env": load_env_cfg(task)}, overrides)["env"]
    device = DistributedContext.single(flags.device).device
    if flags.measure and task.kind not in ("manager", "direct"):
        raise ConfigurationError(f"{task.id} has no contacts to measure. Leave --measure out.")
    smallest = getattr(cfg, "SMALLEST", None)
    if smallest is not None:  # its own kernels, which are compiled when it is made
        start = time.perf_counter()
        cfg = merge(cfg, {**smallest, "scene": {"num_envs": 1}}, "env")
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
    from envlab.envs.managers.event import with_event_fields
    from envlab.envs.managers.sensor import add_sensors
    from envlab.envs.scene import build_model

    sim = with_event_fields(cfg.sim, getattr(cfg, "events", None))
    edit = functools.partial(add_sensors, getattr(cfg, "sensors", None))
    seconds = warm_kernel_cache(sim, build_model(cfg.scene, sim, edit), device)
    print(f"The kernels of {task.id} are ready on {device} ({seconds:.1f} s).")
    if flags.measure:
        _measure(task, [str(override.input_line) for override in overrides], str(device))
    return 0


def _measure(task: Task, words: Sequence[str], device: str) -> None:
    """Print the room that contacts and constraints need, by policy, and the settings."""
    from envlab.distributed.context import DistributedContext
    from envlab.libraries import get_library
    from envlab.tools.agents import draw_actions
    from envlab.training.play import open_policy

    overrides = [*words, "env.sim.backend=mujoco_warp"]
    cfg = compose({"env": load_env_cfg(task)}, overrides)["env"]
    cfg = merge(cfg, {"scene": {"num_envs": NUM_ENVS}}, "env")
    env = task.make(cfg, context=DistributedContext.single(device), seed=0)
    stream = env.random.stream("random_agent")
    needs = [_peak("random", env, lambda _: draw_actions(env.single_action_space, stream))]
    for policy in policies({task.id, task.trained_id}):
        library = get_library(policy.manifest["library"])
        words = [f"--task={task.id}", f"--checkpoint={SELECTOR}", f"--device={device}"]
        flags, rest = play_parser(library).parse_with_overrides([*words, *overrides])
        opened = open_policy(library, flags, rest, NUM_ENVS)
        needs.append(_peak(library.name, opened.env, opened.player.act))
    for name, most in zip(("contacts", "constraints"), zip(*needs, strict=True), strict=True):
        print(f"Set env.sim.num_{name}_max={2 * max(most)}, twice the most that was used.")


def _peak(name: str, env: Any, act: Callable[[Any], Any]) -> tuple[int, int]:
    """Return the most contacts and constraint rows of an environment, and close it."""
    obs, _ = env.reset()
    contacts, rows = 0, 0
    for _ in range(NUM_STEPS):
        obs = env.step(act(obs))[0]
        used = env.sim.contact_memory()
        contacts, rows = max(contacts, used[0]), max(rows, used[1])
    env.check_health()
    env.close()
    print(f"{name}: {contacts} contacts and {rows} constraint rows in {NUM_STEPS} steps.")
    return contacts, rows
