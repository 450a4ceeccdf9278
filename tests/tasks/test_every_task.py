"""Promises of every registered task, whoever wrote it; a new task is tested here."""

from __future__ import annotations

import logging
import math
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gymnasium
import mujoco
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode

from envlab import registry
from envlab.config import merge, read_yaml, to_dict, write_yaml
from envlab.distributed.context import DistributedContext
from envlab.envs import BatchedEnv, DirectMarlEnv, DiscreteCfg, VectorEnv
from envlab.envs.scene import build_model
from envlab.envs.single_agent import multi_agent_to_single_agent
from envlab.registry import Task
from envlab.rl_games.cfg import RlGamesCfg
from envlab.rsl_rl.cfg import DistillationCfg, RslRlCfg
from envlab.sim import host
from envlab.sim.mujoco_backend import route_mujoco_warnings
from envlab.skrl.cfg import SkrlCfg
from tests.archetypes import ALONE, ARCHETYPES, OWN_CODE, every, features, own_code
from tests.graphs import record_steps
from tests.operations import Operations, Reads
from tests.tasks.rollouts import (
    EPISODE_STEPS,
    NUM_ENVS,
    Together,
    assert_equal,
    by_agent,
    draw_actions,
    is_navigation,
    make_brief,
    of_all_agents,
    part,
    record,
    rows_of,
)

pytestmark = pytest.mark.slow

TASKS = registry.list_tasks()
AGENT_CFGS: dict[str, Any] = {
    "rsl_rl": RslRlCfg,
    "rsl_rl_distillation": DistillationCfg,
    "rl_games": RlGamesCfg,
    **dict.fromkeys(("skrl", "skrl_amp", "skrl_dqn", "skrl_ippo", "skrl_mappo"), SkrlCfg),
}
"""Defaults below a library's agent values; libraries that are not here take plain dicts."""


@pytest.fixture(params=every(), scope="module")
def task(request) -> Task:
    """An archetype, with --all each task; of a module, so that all tests of one run in sequence."""
    return request.param


@pytest.fixture(scope="module")
def played(task) -> tuple[BatchedEnv, list[Any], dict[str, torch.Tensor]]:
    """Return an environment of seed 5, 12 actions, and the record; only reset it."""
    env = make_brief(task, seed=5)
    actions = draw_actions(env, 12)
    return env, actions, record(env, actions)


def test_what_tasks_use_is_had_by_an_archetype_or_tested_alone():
    used = set().union(*map(features, TASKS))
    had = set().union(*(features(registry.get_task(name)) for name in ARCHETYPES))
    assert used - had == ALONE.keys()
    assert all(Path(file).is_file() for file in ALONE.values())
    all_code = set().union(*map(own_code, TASKS))
    golden = (registry.get_task(name) for name in (*ARCHETYPES, *OWN_CODE))
    assert set().union(*map(own_code, golden)) == all_code


def test_every_configuration_returns_from_a_file(tmp_path):
    for task in TASKS:
        cfg = registry.load_env_cfg(task)
        assert merge(registry.load_env_cfg(task), to_dict(cfg), given_keys=True) == cfg, task.id
        if task.id in ARCHETYPES:
            write_yaml(tmp_path / "env.yaml", cfg)
            assert read_yaml(tmp_path / "env.yaml", registry.load_env_cfg(task)) == cfg, task.id


def test_agent_configurations_have_only_keys_that_their_library_knows():
    for task in TASKS:
        for key in task.libraries:
            values = registry.load_agent_values(task, key)
            assert values, (task.id, key)
            if key in AGENT_CFGS:
                cfg = AGENT_CFGS[key]().with_task_values(values)
                assert cfg != AGENT_CFGS[key](), (task.id, key)


def test_tasks_have_a_description_and_an_agent():
    for task in TASKS:
        assert task.description.endswith("."), task.id
        space = getattr(registry.load_env_cfg(task), "action_space", None)
        # Not every library can train on choices.
        assert task.libraries or isinstance(space, DiscreteCfg), task.id


def test_the_critic_of_rsl_rl_observes_the_group_for_critics(task, played):
    groups = played[0].single_observation_space
    if "critic" in groups.spaces and "rsl_rl" in task.libraries:
        cfg = RslRlCfg().with_task_values(registry.load_agent_values(task, "rsl_rl"))
        critic, *others = cfg.obs_groups["critic"]
        assert critic == "critic"
        assert all(len(groups[name].shape) == 3 for name in others)  # images, if any


def test_model_compiles_and_moves_without_a_warning(task, caplog):
    if is_navigation(task):
        return
    messages: list[str] = []
    mujoco.set_mju_user_warning(messages.append)
    try:
        with warnings.catch_warnings(), caplog.at_level(logging.WARNING):
            warnings.simplefilter("error")
            model = build_model(registry.load_env_cfg(task).scene)
            data = mujoco.MjData(model)
            mujoco.mj_step(model, data, 10)
    finally:
        route_mujoco_warnings()
    assert messages == [record.getMessage() for record in caplog.records] == []
    assert sum(warning.number for warning in data.warning) == 0


def test_observations_and_actions_are_in_their_spaces(task, played):
    env, *_ = played
    assert isinstance(env, gymnasium.vector.VectorEnv)
    assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    obs, info = env.reset(seed=3)
    assert info == {}
    assert set(obs) == set(env.single_observation_space.spaces)
    agents = env.possible_agents if isinstance(env, DirectMarlEnv) else [""]
    if isinstance(env, DirectMarlEnv):
        assert list(obs) == agents
    else:
        images = {"depth", "rgb", "labels", "goal_mask"} if is_navigation(task) else set()
        assert (
            {"policy"}
            <= set(obs)
            <= {"policy", "critic", "camera", "depth", "subtask_terms"} | images
        )
    for step in range(3):
        if step:
            obs, *results, _ = env.step(env.action_space.sample())
            dtypes = (torch.float32, torch.bool, torch.bool)
            for values, dtype in zip(map(by_agent, results), dtypes, strict=True):
                assert list(values) == agents
                for value in values.values():
                    assert (value.shape, value.dtype) == ((NUM_ENVS,), dtype)
                    assert torch.isfinite(value).all()
        for name, values in obs.items():
            space = env.single_observation_space[name]
            dtype = torch.uint8 if space.dtype == np.uint8 else torch.float32
            assert (values.shape, values.dtype) == ((NUM_ENVS, *space.shape), dtype)
            assert values.device == env.device
            assert torch.isfinite(values).all()
        arrays = {name: values.numpy() for name, values in obs.items()}
        assert env.observation_space.contains(arrays)


TRACKED = 58 + 9 + 14 * 9 + 6 + 87
SIZES = {
    "Isaac-Cartpole-v0": (1, {"policy": 4}),
    "Isaac-Ant-v0": (8, {"policy": 60}),
    "Isaac-Ant-Direct-v0": (8, {"policy": 36}),
    "Isaac-Humanoid-v0": (21, {"policy": 87}),
    "Isaac-Humanoid-Direct-v0": (21, {"policy": 75}),
    "Isaac-Reach-Franka-v0": (7, {"policy": 32}),
    "Isaac-Reach-Franka-IK-Abs-v0": (7, {"policy": 32}),
    "Isaac-Reach-Franka-IK-Rel-v0": (6, {"policy": 31}),
    "Isaac-Lift-Cube-Franka-v0": (8, {"policy": 36}),
    "Isaac-Open-Drawer-Franka-v0": (8, {"policy": 31}),
    "Isaac-Repose-Cube-Allegro-v0": (16, {"policy": 72}),
    "Isaac-Velocity-Flat-Unitree-Go2-v0": (12, {"policy": 48}),
    "Isaac-Velocity-Rough-Unitree-Go2-v0": (12, {"policy": 235}),
    "Isaac-Velocity-Flat-H1-v0": (19, {"policy": 69}),
    "Isaac-Velocity-Rough-H1-v0": (19, {"policy": 256}),
    "Isaac-Velocity-Flat-G1-v0": (37, {"policy": 123}),
    "Isaac-Velocity-Rough-G1-v0": (37, {"policy": 310}),
    # Of G1: three of the pelvis, twice, and of gravity, three times 29 of the joints, the command;
    # the critic has heights, times and touches of two feet, and their forces.
    "Mjlab-Velocity-Flat-Unitree-G1": (29, {"policy": 9 + 87 + 3, "critic": 99 + 3 * 2 + 6}),
    "Mjlab-Velocity-Rough-Unitree-G1": (29, {"policy": 99 + 187, "critic": 111 + 187}),
    "Mjlab-Velocity-Flat-Unitree-Go1": (12, {"policy": 9 + 36 + 3, "critic": 48 + 3 * 4 + 12}),
    "Mjlab-Velocity-Rough-Unitree-Go1": (12, {"policy": 48 + 187, "critic": 72 + 187}),
    # 58 of the command, 3 + 6 of the anchor, 3 + 3 of the pelvis, three times 29.
    "Mjlab-Tracking-Flat-Unitree-G1": (29, {"policy": 58 + 9 + 6 + 87, "critic": TRACKED}),
    "Mjlab-Tracking-Flat-Unitree-G1-No-State-Estimation": (
        29,
        {"policy": 58 + 6 + 3 + 87, "critic": TRACKED},
    ),
}
"""Numbers of actions and of each group of observations that Isaac Lab's or mjlab's task has."""


def test_spaces_have_isaac_labs_and_mjlabs_sizes(task, played):
    if task.id in SIZES:
        actions, groups = SIZES[task.id]
        assert played[0].single_action_space.shape == (actions,)
        found = {name: values.shape[1] for name, values in played[0].obs_buf.items()}
        assert found == groups


def test_ended_episodes_hand_over_their_last_observation_and_start_anew(played, monkeypatch):
    env, *_ = played
    env.reset(seed=0)
    seen_at_reset = {}
    # private: no hook of users lies between an episode's last observation and its reset.
    reset_masked = env._reset_masked

    def watch(mask: torch.Tensor, count: int):
        for name, values in env._get_observations().items():
            seen_at_reset[name] = values.clone()
        return reset_masked(mask, count)

    monkeypatch.setattr(env, "_reset_masked", watch)  # private: see above
    ended = torch.zeros(NUM_ENVS, dtype=torch.bool)
    for action in draw_actions(env, EPISODE_STEPS):
        obs, _, terminated, truncated, info = env.step(action)
        late = by_agent(truncated)
        for agent, value in by_agent(terminated).items():
            assert not (value & late[agent]).any()
        done = of_all_agents({agent: v | late[agent] for agent, v in by_agent(terminated).items()})
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


def test_an_environment_that_is_not_finite_is_reset_alone(played):
    env, (action, *_), _ = played
    env.reset(seed=4)
    sane_row = record(env, [action])
    env.reset(seed=4)
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


def test_a_seeded_reset_repeats_the_run_and_seeds_matter(played):
    env, actions, first = played
    env.reset(seed=6)
    other = record(env, [])
    # Some tasks draw goals alone, which policies see and states do not have.
    assert any(not torch.equal(values[0], other[name][0]) for name, values in first.items())
    env.reset(seed=5)
    assert_equal(record(env, actions), first)


def test_two_ranks_simulate_the_same_as_one_process(task, monkeypatch):
    whole = make_brief(task, num_envs=2 * NUM_ENVS)
    actions = draw_actions(whole, 12, 2 * NUM_ENVS)
    expected = record(whole, actions)
    starts = [values[0].reshape(2 * NUM_ENVS, -1).float() for values in expected.values()]
    assert torch.cat(starts, dim=1).unique(dim=0).shape[0] == 2 * NUM_ENVS
    monkeypatch.setattr(DistributedContext, "sum", Together(2))

    def half_of(rank: int) -> dict[str, torch.Tensor]:
        env = make_brief(task, rank=rank, world_size=2)
        assert env.env_ids.tolist() == list(range(NUM_ENVS * rank, NUM_ENVS * (rank + 1)))
        return record(env, part(actions, NUM_ENVS * rank, NUM_ENVS * (rank + 1)))

    # Ranks that count failures together wait for one another; others run one at a time.
    counts = "motion" in getattr(getattr(whole, "command_manager", None), "active_terms", ())
    with ThreadPoolExecutor(2 if counts else 1) as threads:
        halves = list(threads.map(half_of, range(2)))
    joined = {name: torch.cat([half[name] for half in halves], dim=1) for name in expected}
    # torch sums a reward's terms in an order that depends on the batch, so its last bit may differ.
    for name in rows_of("reward", expected):
        assert torch.allclose(joined.pop(name), expected.pop(name), rtol=1e-5, atol=1e-7), name
    assert_equal(joined, expected)


def test_a_restored_state_has_the_same_future(task, played):
    restore(task, *played[:2])


@pytest.mark.long
def test_tasks_with_code_of_their_own_restore_their_states():
    for task in map(registry.get_task, OWN_CODE):
        env = make_brief(task, seed=5)
        restore(task, env, draw_actions(env, 12))


def restore(task: Task, env: BatchedEnv, actions: list[Any]) -> None:
    """Compare what follows a state with what follows it in another environment."""
    env.reset(seed=1)
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
    if not isinstance(env, VectorEnv):  # houses, whose motion is computed on the host
        with Operations() as operations:
            record(env, actions[:EPISODE_STEPS])
        assert operations.waits == []
        return
    with Reads() as reads:  # also between graphs, where curricula run
        for action in actions[:EPISODE_STEPS]:
            env.step(action)
    assert reads.found == []
    # Recorded as graphs, env.graph=on, from the sixth step on.
    recording = record_steps(env)
    env.reset(seed=5)
    assert_equal(record(env, actions), expected)
    assert recording.is_made


def test_agents_joined_into_one_act_as_they_do_apart(task, played):
    env, actions, apart = played
    if not isinstance(env, DirectMarlEnv):
        return
    one = multi_agent_to_single_agent(make_brief(task, seed=5))
    joined = [torch.cat([action[agent] for agent in env.possible_agents], 1) for action in actions]
    together = record(one, joined)
    assert torch.equal(together["qpos"], apart["qpos"])
    observed = torch.cat([apart[agent] for agent in env.possible_agents], dim=2)
    assert torch.equal(together["policy"], observed)
    rewards = torch.stack([apart[name] for name in rows_of("reward", apart)])
    assert torch.allclose(together["reward"], rewards.sum(dim=0))
