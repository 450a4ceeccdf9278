"""Environments of tasks with episodes of a few steps, and records of what they do."""

from __future__ import annotations

import functools
import tempfile
import threading
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from gymnasium import spaces

from envlab import registry
from envlab.distributed.context import DistributedContext
from envlab.envs import BatchedEnv, DirectMarlEnv, VectorEnv
from envlab.registry import Task

NUM_ENVS = 4
EPISODE_STEPS = 5
HOUSES = tempfile.TemporaryDirectory()
"""Where houses to navigate are kept, each made once."""


class Together:
    """Sums over ranks that are threads, in place of ``DistributedContext.sum``."""

    def __init__(self, num_ranks: int) -> None:
        self._barrier = threading.Barrier(num_ranks, timeout=60.0)
        self._values: dict[int, torch.Tensor] = {}

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        self._values[threading.get_ident()] = values.clone()
        self._barrier.wait()
        total = torch.stack(list(self._values.values())).sum(dim=0)
        self._barrier.wait()
        return total


def make(
    task: Task,
    *,
    num_envs: int = NUM_ENVS,
    seed: int = 0,
    rank: int = 0,
    world_size: int = 1,
    **fields: Any,
) -> VectorEnv:
    """Return an environment, with fields of its configuration replaced."""
    cfg = registry.load_env_cfg(task)
    if is_navigation(task):
        pytest.importorskip("warp", reason="needs warp-lang: pip install -e '.[nav]'")
        cfg.houses.num_houses, cfg.houses.cache_dir = 2, HOUSES.name
        cfg.camera.width = cfg.camera.height = 16
    for name, value in fields.items():
        setattr(cfg, name, value)
    context = DistributedContext(rank=rank, world_size=world_size, num_threads=1)
    return task.make(cfg, context=context, num_envs=num_envs, seed=seed)


def make_brief(task: Task, **kwargs: Any) -> VectorEnv:
    """Return an environment whose episodes have ended after a few steps."""
    if is_navigation(task):
        return make(task, max_episode_length=EPISODE_STEPS, **kwargs)
    cfg = registry.load_env_cfg(task)
    return make(task, episode_length_s=EPISODE_STEPS * cfg.step_dt, **kwargs)


def is_navigation(task: Task) -> bool:
    """Return whether a task has houses in place of a simulation."""
    return task.kind == "NavEnv"


def state_of(env: BatchedEnv) -> dict[str, torch.Tensor]:
    """Return the physical state, each ``(num_envs, ...)``."""
    if hasattr(env, "sim"):
        return {"qpos": env.sim.data.qpos, "qvel": env.sim.data.qvel}
    return {"pose": env.pose, "goal": env.goal, "distance": env.distance}


def draw_actions(env: VectorEnv, steps: int, num_envs: int = NUM_ENVS) -> list[Any]:
    """Return inputs of steps: actions in [-1, 1], or options, of all agents."""
    generator = torch.Generator().manual_seed(0)

    def draw(space: spaces.Space) -> Any:
        if isinstance(space, spaces.Dict):
            return {agent: draw(own) for agent, own in space.items()}
        if isinstance(space, spaces.Discrete):
            return torch.randint(int(space.n), (num_envs,), generator=generator)
        if isinstance(space, spaces.MultiDiscrete):
            columns = [torch.randint(int(n), (num_envs,), generator=generator) for n in space.nvec]
            return torch.stack(columns, dim=1)
        return torch.rand(num_envs, space.shape[0], generator=generator) * 2.0 - 1.0

    return [draw(env.single_action_space) for _ in range(steps)]


def part(actions: list[Any], start: int, stop: int) -> list[Any]:
    """Return the actions of environments ``start`` to ``stop - 1``."""
    return [
        {agent: values[start:stop] for agent, values in action.items()}
        if isinstance(action, dict)
        else action[start:stop]
        for action in actions
    ]


def by_agent(values: torch.Tensor | Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the values of each agent; that of a single-agent task has no name."""
    return dict(values) if isinstance(values, Mapping) else {"": values}


def of_all_agents(values: torch.Tensor | Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Return where a condition holds for all agents, bool ``(num_envs,)``."""
    return functools.reduce(torch.logical_and, by_agent(values).values())


def record(env: VectorEnv, actions: list[Any]) -> dict[str, torch.Tensor]:
    """Return states, observations and results, ``(steps + 1, num_envs, ...)``; row 0 is before."""
    nothing = torch.zeros(env.num_envs)
    rows: dict[str, list[torch.Tensor]] = {}

    def note(obs, *results) -> None:
        seen = {**state_of(env), **obs}
        for kind, values in zip(("reward", "terminated", "truncated"), results, strict=True):
            seen |= {f"{kind} {agent}".strip(): v for agent, v in by_agent(values).items()}
        if isinstance(env, DirectMarlEnv) and (states := env.states()) is not None:
            seen["states"] = states
        for name, values in seen.items():
            rows.setdefault(name, []).append(values.clone())

    agents = env.possible_agents if isinstance(env, DirectMarlEnv) else [""]
    observed = {name: env.obs_buf[name] for name in env.single_observation_space}
    note(observed, *(dict.fromkeys(agents, start) for start in (nothing, *[nothing.bool()] * 2)))
    for action in actions:
        note(*env.step(action)[:4])
    return {name: torch.stack(values) for name, values in rows.items()}


def rows_of(kind: str, rows: dict[str, torch.Tensor]) -> list[str]:
    """Return the names of the rows of a kind, one for each agent."""
    return [name for name in rows if name.partition(" ")[0] == kind]


def assert_equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> None:
    assert first.keys() == second.keys()
    for name, values in first.items():
        assert torch.equal(values, second[name]), name
