"""Stepping a task with random, zero or scripted actions, for a first look at a new task."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gymnasium import spaces

from envlab.config import compose, merge
from envlab.registry import Task, get_task, load_env_cfg, scripted_policy
from envlab.training.arguments import agent_parser
from envlab.training.viewing import NUM_WATCHED, check_viewing, start_viewing

if TYPE_CHECKING:  # torch is loaded after the arguments have been parsed
    import torch

    from envlab.envs import BatchedEnv
    from envlab.envs.random import RandomStream

NUM_ENVS = 64
NUM_STEPS = 300


def random_main(arguments: Sequence[str]) -> int:
    """Run ``random_agent.py``: actions uniform in their bounds or in [-1, 1], or random choices."""

    def make(env: BatchedEnv, _: Task) -> Callable[[], torch.Tensor]:
        return lambda: draw_actions(env.single_action_space, env.random.stream("random_agent"))

    return _run("random", arguments, make)


def zero_main(arguments: Sequence[str]) -> int:
    """Run ``zero_agent.py``."""
    return _run("zero", arguments, lambda env, _: lambda: env.actions.new_zeros(env.actions.shape))


def scripted_main(arguments: Sequence[str]) -> int:
    """Run ``envlab scripted``: the policy by hand that the task has.

    Raises:
        ConfigurationError: If it has none.
    """
    return _run("scripted", arguments, lambda env, task: scripted_policy(task)(env).act)


def draw_actions(space: spaces.Space, stream: RandomStream) -> torch.Tensor:
    """Return actions of one agent for all environments, ``(num_envs, num_actions)``."""
    if isinstance(space, spaces.Discrete):
        return stream.integers(0, int(space.n)).unsqueeze(1)
    if isinstance(space, spaces.MultiDiscrete):
        import torch

        return torch.stack([stream.integers(0, int(num)) for num in space.nvec], dim=1)
    assert isinstance(space, spaces.Box), space
    if space.is_bounded():
        return stream.ranges(list(zip(space.low.tolist(), space.high.tolist(), strict=True)))
    return stream.uniform(-1.0, 1.0, space.shape[0])


def _run(
    kind: str,
    arguments: Sequence[str],
    make: Callable[[BatchedEnv, Task], Callable[[], torch.Tensor]],
) -> int:
    flags, overrides = agent_parser(kind).parse_with_overrides(arguments)
    task = get_task(flags.task)
    if kind == "scripted":
        scripted_policy(task)
    num_envs = flags.num_envs or (NUM_ENVS if flags.viz is None else NUM_WATCHED)
    from envlab.distributed.context import DistributedContext
    from envlab.distributed.program import configure_logging
    from envlab.envs import DirectMarlEnv, multi_agent_to_single_agent

    configure_logging(verbose=flags.verbose)
    cfg = compose({"env": load_env_cfg(task)}, overrides)["env"]
    cfg = merge(cfg, {"scene": {"num_envs": num_envs}}, "env")
    env: BatchedEnv = task.make(
        cfg, context=DistributedContext.single(flags.device), seed=flags.seed
    )
    print(f"{task.id}: {num_envs} environments on {env.device}")
    check_viewing(flags, env)
    print(f"Observations: {env.single_observation_space}")
    print(f"Actions: {env.single_action_space}")
    if isinstance(env, DirectMarlEnv):
        env = multi_agent_to_single_agent(env)
    act = make(env, task)
    viewer = start_viewing(flags, env, title=f"{task.id}, {kind} actions", is_played=True)
    limit = flags.num_steps or (NUM_STEPS if viewer is None else math.inf)
    episodes, total, steps = 0, 0.0, 0
    start = time.perf_counter()
    while steps < limit and (viewer is None or viewer.is_open):
        _, reward, terminated, truncated, _ = env.step(act())
        episodes += int((terminated | truncated).sum())
        total += float(reward.mean())
        steps += 1
        if viewer is not None:
            viewer.after_step()
            if viewer.wants_reset():
                env.reset()
    seconds = time.perf_counter() - start
    print(
        f"{steps} steps in {seconds:.2f} s ({num_envs * steps / seconds:,.0f} "
        f"environment steps per second), {episodes} episodes ended, "
        f"mean reward {total / steps:.4f} per step"
    )
    if viewer is not None:
        viewer.close()
    env.close()
    return 0
