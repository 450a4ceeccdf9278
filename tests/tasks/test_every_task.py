"""Promises of every registered task, whoever wrote it; a new task is tested here."""

from __future__ import annotations

import functools
import logging
import math
import tempfile
import threading
import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import mujoco
import numpy as np
import pytest
import torch
from gymnasium import spaces

from envlab import registry
from envlab.config import read_yaml, write_yaml
from envlab.distributed.context import DistributedContext
from envlab.envs import (
    BatchedEnv,
    DirectMarlEnv,
    DirectMarlEnvCfg,
    DiscreteCfg,
    VectorEnv,
    multi_agent_to_single_agent,
)
from envlab.envs.scene import load_model
from envlab.registry import Task
from envlab.rl_games.cfg import RlGamesCfg
from envlab.rsl_rl.cfg import DistillationCfg, RslRlCfg
from envlab.sim import host
from envlab.sim.mujoco_backend import route_mujoco_warnings
from envlab.skrl.cfg import SkrlCfg
from tests.graphs import record_steps
from tests.operations import Operations

pytestmark = pytest.mark.slow

NUM_ENVS = 4
EPISODE_STEPS = 5
HOUSES = tempfile.TemporaryDirectory()
"""Where houses to navigate are kept, each made once."""
TASKS = registry.list_tasks()
MULTI_AGENT_TASKS = [
    task for task in TASKS if isinstance(registry.load_env_cfg(task), DirectMarlEnvCfg)
]
AGENT_CFGS: dict[str, Any] = {
    "rsl_rl": RslRlCfg,
    "rsl_rl_distillation": DistillationCfg,
    "rl_games": RlGamesCfg,
    **dict.fromkeys(("skrl", "skrl_amp", "skrl_dqn", "skrl_ippo", "skrl_mappo"), SkrlCfg),
}
"""Defaults below a library's agent values; libraries that are not here take plain dicts."""
AGENTS = [
    pytest.param(task, key, id=f"{task.id}-{key}") for task in TASKS for key in task.libraries
]


def _param(task: Task) -> Any:
    """Variants to play differ from their task in a few settings, so their turn is in --all."""
    marks = [pytest.mark.long] if "-Play" in task.id else []
    return pytest.param(task, marks=marks, id=task.id)


@pytest.fixture(params=map(_param, TASKS), scope="module")
def task(request) -> Task:
    """A task; a module's fixture, so that all tests of one task run in sequence."""
    return request.param


@pytest.fixture(scope="module")
def played(task) -> tuple[BatchedEnv, list[Any], dict[str, torch.Tensor]]:
    return play_briefly(task)


def play_briefly(task: Task) -> tuple[BatchedEnv, list[Any], dict[str, torch.Tensor]]:
    """Return an environment of seed 5, 12 actions, and the record; only reset it."""
    env = make_brief(task, seed=5)
    actions = draw_actions(env, 12)
    return env, actions, record(env, actions)


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


# Configurations -----------------------------------------------------------------------------------


def test_configuration_returns_from_a_file(task, tmp_path):
    cfg = registry.load_env_cfg(task)
    write_yaml(tmp_path / "env.yaml", cfg)
    assert read_yaml(tmp_path / "env.yaml", type(cfg)) == cfg
    assert read_yaml(tmp_path / "env.yaml", registry.load_env_cfg(task)) == cfg


@pytest.mark.parametrize(("task", "key"), AGENTS)
def test_agent_configuration_has_only_keys_that_the_library_knows(task, key):
    values = registry.load_agent_values(task, key)
    assert values
    if key in AGENT_CFGS:
        cfg = AGENT_CFGS[key]().with_task_values(values)
        assert cfg != AGENT_CFGS[key]()


def test_the_critic_of_rsl_rl_observes_the_group_for_critics(task, played):
    groups = played[0].single_observation_space
    if "critic" in groups.spaces and "rsl_rl" in task.libraries:
        cfg = RslRlCfg().with_task_values(registry.load_agent_values(task, "rsl_rl"))
        assert cfg.obs_groups["critic"] == ["critic"]


def test_task_has_a_description_and_an_agent(task):
    assert task.description.endswith(".")
    has_choices = isinstance(
        getattr(registry.load_env_cfg(task), "action_space", None), DiscreteCfg
    )
    assert task.libraries or has_choices  # which not every library can train on


@pytest.mark.parametrize("task", [task for task in TASKS if not is_navigation(task)])
def test_model_compiles_and_moves_without_a_warning(task, caplog):
    messages: list[str] = []
    mujoco.set_mju_user_warning(messages.append)
    try:
        with warnings.catch_warnings(), caplog.at_level(logging.WARNING):
            warnings.simplefilter("error")
            model = load_model(registry.load_env_cfg(task).scene.model)
            data = mujoco.MjData(model)
            mujoco.mj_step(model, data, 10)
    finally:
        route_mujoco_warnings()
    assert messages == [record.getMessage() for record in caplog.records] == []
    assert sum(warning.number for warning in data.warning) == 0


# Spaces and types ---------------------------------------------------------------------------------


def test_observations_and_actions_are_in_their_spaces(task):
    env = make(task)
    obs, info = env.reset(seed=3)
    assert info == {}
    assert set(obs) == set(env.single_observation_space.spaces)
    is_multi_agent = isinstance(env, DirectMarlEnv)
    if is_multi_agent:
        assert list(obs) == env.possible_agents
    else:
        images = {"depth", "rgb", "labels", "goal_mask"} if is_navigation(task) else set()
        assert {"policy"} <= set(obs) <= {"policy", "critic", "depth", "subtask_terms"} | images
    for step in range(3):
        if step:
            obs, *results, _ = env.step(env.action_space.sample())
            dtypes = (torch.float32, torch.bool, torch.bool)
            for values, dtype in zip(map(by_agent, results), dtypes, strict=True):
                assert list(values) == (env.possible_agents if is_multi_agent else [""])
                for value in values.values():
                    assert value.shape == (NUM_ENVS,)
                    assert value.dtype == dtype
                    assert torch.isfinite(value).all()
        for name, values in obs.items():
            assert values.shape == (NUM_ENVS, *env.single_observation_space[name].shape)
            is_bytes = env.single_observation_space[name].dtype == np.uint8
            assert values.dtype == (torch.uint8 if is_bytes else torch.float32)
            assert values.device == env.device
            assert torch.isfinite(values).all()
        assert env.observation_space.contains(
            {name: values.numpy() for name, values in obs.items()}
        )


# Autoreset ----------------------------------------------------------------------------------------


def test_ended_episodes_hand_over_their_last_observation_and_start_anew(task):
    env = make_brief(task)
    seen_at_reset = {}
    reset_masked = env._reset_masked

    def watch(mask: torch.Tensor, count: int):
        seen_at_reset.update(
            {name: values.clone() for name, values in env._get_observations().items()}
        )
        return reset_masked(mask, count)

    env._reset_masked = watch
    ended = torch.zeros(NUM_ENVS, dtype=torch.bool)
    for action in draw_actions(env, EPISODE_STEPS):
        obs, _, terminated, truncated, info = env.step(action)
        for agent, value in by_agent(terminated).items():
            assert not (value & by_agent(truncated)[agent]).any()
        done = of_all_agents(
            {agent: v | by_agent(truncated)[agent] for agent, v in by_agent(terminated).items()}
        )
        ended |= done
        assert ("final_obs" in info) == bool(info["num_ended"]) == bool(done.any())
        if not info["num_ended"]:
            continue
        assert torch.equal(info["_final_obs"], done)
        assert info["num_ended"] == done.sum()
        assert (env.episode_length_buf[done] == 0).all()
        assert all(math.isfinite(float(value)) for value in info["log"].values())
        has_state = isinstance(env, DirectMarlEnv) and env.state_space is not None
        assert info["final_obs"].keys() == obs.keys() | ({"state"} if has_state else set())
        for name, values in seen_at_reset.items():
            assert torch.equal(info["final_obs"][name][done], values[done])
        differs = [(info["final_obs"][name] != obs[name]).flatten(1).any(dim=1) for name in obs]
        assert torch.stack(differs).any(dim=0)[done].all()
    assert ended.all()


def test_an_environment_that_is_not_finite_is_reset_alone(task):
    env, sane = make(task), make(task)
    (action,) = draw_actions(env, 1)
    sane_row = record(sane, [action])
    sick, others = 1, [0, 2, 3]
    mask = torch.zeros(NUM_ENVS, dtype=torch.bool)
    mask[sick] = True
    if isinstance(env, VectorEnv):
        env.sim.reset(mask, torch.full_like(env.sim.data.qpos, torch.nan))
    else:
        env.pose[sick] = torch.nan
    row = record(env, [action])
    assert all(row[name][1, sick] for name in rows_of("terminated", row))
    assert all(row[name][1, sick] == 0.0 for name in rows_of("reward", row))
    for name, values in row.items():
        assert torch.isfinite(values[1]).all(), name
        assert torch.equal(values[1, others], sane_row[name][1, others]), name


# Randomness ---------------------------------------------------------------------------------------


def test_runs_are_bit_identical_and_seeds_matter(task, played):
    _, actions, first = played
    assert_equal(first, record(make_brief(task, seed=5), actions))
    other = record(make_brief(task, seed=6), [])
    # Some tasks draw goals alone, which policies see and states do not have.
    assert any(not torch.equal(values[0], other[name][0]) for name, values in first.items())


def test_a_seeded_reset_repeats_the_run(played):
    env, actions, first = played
    env.reset(seed=5)
    again = record(env, actions)
    for name, values in first.items():
        assert torch.equal(values, again[name]), name


def test_environments_start_differently_on_and_across_ranks(task):
    ranks = [make(task, rank=rank, world_size=2) for rank in range(2)]
    starts = [(*state_of(env).values(), *env.obs_buf.values()) for env in ranks]
    states = torch.cat(
        [torch.cat([v.reshape(NUM_ENVS, -1).float() for v in start], dim=1) for start in starts]
    )
    assert states.unique(dim=0).shape[0] == 2 * NUM_ENVS
    assert torch.cat([env.env_ids for env in ranks]).tolist() == list(range(2 * NUM_ENVS))


class Together:
    """Sums over ranks that are threads; it stands in for ``DistributedContext.sum``."""

    def __init__(self, num_ranks: int) -> None:
        self._barrier = threading.Barrier(num_ranks, timeout=60.0)
        self._values: dict[int, torch.Tensor] = {}

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        self._values[threading.get_ident()] = values.clone()
        self._barrier.wait()
        total = torch.stack(list(self._values.values())).sum(dim=0)
        self._barrier.wait()
        return total


def test_two_ranks_simulate_the_same_as_one_process(task, monkeypatch):
    whole = make_brief(task, num_envs=2 * NUM_ENVS)
    actions = draw_actions(whole, 12, 2 * NUM_ENVS)
    expected = record(whole, actions)
    monkeypatch.setattr(DistributedContext, "sum", Together(2))

    def half_of(rank: int) -> dict[str, torch.Tensor]:
        env = make_brief(task, rank=rank, world_size=2)
        return record(env, part(actions, NUM_ENVS * rank, NUM_ENVS * (rank + 1)))

    # Ranks that count failures together wait for one another; others run one at a time.
    counts = (
        "motion" in getattr(whole, "command_manager", SimpleNamespace(active_terms=())).active_terms
    )
    with ThreadPoolExecutor(2 if counts else 1) as threads:
        halves = list(threads.map(half_of, range(2)))
    joined = {name: torch.cat([half[name] for half in halves], dim=1) for name in expected}
    # torch sums a reward's terms in an order that depends on the batch, so its last bit may differ.
    for name in rows_of("reward", expected):
        assert torch.allclose(joined.pop(name), expected.pop(name), rtol=1e-5, atol=1e-7), name
    assert_equal(joined, expected)


def test_a_restored_state_has_the_same_future(task):
    env = make_brief(task, seed=1)
    actions = draw_actions(env, 12)
    record(env, actions[:7])
    state = env.state()
    expected = record(env, actions)
    restored = make_brief(task, seed=2)
    restored.set_state(state)
    assert_equal(record(restored, actions), expected)


def test_the_branches_of_a_gpu_equal_those_of_a_cpu(task, played, monkeypatch):
    """They run on a CPU's tensors here; a GPU's own kernels may round in another way."""
    _, actions, expected = played
    monkeypatch.setattr(host, "HOST", set())
    env = make_brief(task, seed=5)
    assert_equal(record(env, actions), expected)
    with Operations() as operations:
        record(env, actions[:EPISODE_STEPS])
    assert operations.waits == []
    if not isinstance(env, VectorEnv):
        return
    # Recorded as graphs, env.graph=on, from the sixth step on.
    record_steps(env)
    env.reset(seed=5)
    assert_equal(record(env, actions), expected)
    assert env._recording.is_made


# Several agents -----------------------------------------------------------------------------------


@pytest.mark.parametrize("task", MULTI_AGENT_TASKS, ids=lambda task: task.id)
def test_agents_joined_into_one_act_as_they_do_apart(task):
    env, one = make_brief(task), multi_agent_to_single_agent(make_brief(task))
    actions = draw_actions(env, 12)
    apart = record(env, actions)
    joined = [torch.cat([action[agent] for agent in env.possible_agents], 1) for action in actions]
    together = record(one, joined)
    assert torch.equal(together["qpos"], apart["qpos"])
    observed = torch.cat([apart[agent] for agent in env.possible_agents], dim=2)
    assert torch.equal(together["policy"], observed)
    rewards = torch.stack([apart[name] for name in rows_of("reward", apart)])
    assert torch.allclose(together["reward"], rewards.sum(dim=0))
