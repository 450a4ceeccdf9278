"""Promises of both kinds of environments to RL libraries, shown on both Cartpole tasks."""

from __future__ import annotations

import gc
import logging
import os
import re
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from envlab import registry
from envlab.envs import VectorEnv
from envlab.envs.terms import observation
from envlab.errors import ConfigurationError, SimulationError
from tests.envs.sliders import group, make_env, push, rank, terms
from tests.tasks import making

NUM_ENVS = 4
EPISODE_STEPS = 6


@pytest.fixture(params=["Isaac-Cartpole-v0", "Isaac-Cartpole-Direct-v0"])
def task_id(request) -> str:
    return request.param


def make(
    task_id: str, *, seed: int = 0, steps: int = EPISODE_STEPS, num_threads: int = 1, **fields: Any
) -> VectorEnv:
    """Return a Cartpole whose episodes last ``steps`` steps."""
    task = registry.get_task(task_id)
    cfg = registry.load_env_cfg(task)
    cfg.scene.num_envs, cfg.sim.num_threads = NUM_ENVS, num_threads
    # The direct task's episodes are a step shorter than its time limit, as in Isaac Lab.
    cfg.episode_length_s = (steps + ("Direct" in task_id)) * cfg.step_dt
    for name, value in fields.items():
        assert hasattr(cfg, name)
        setattr(cfg, name, value)
    return task.make(cfg, context=rank(0, 1), seed=seed)


@pytest.fixture
def env() -> VectorEnv:
    return make("Isaac-Cartpole-v0")


def drive(seed: int = 0):
    """Yield random actions, forever."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield torch.rand(NUM_ENVS, 1, generator=generator) * 2.0 - 1.0


def record(env: VectorEnv, steps: int, seed: int = 0) -> list[torch.Tensor]:
    """Return all that ``steps`` steps of random actions give."""
    actions = drive(seed)
    seen = []
    for _ in range(steps):
        obs, *results, info = env.step(next(actions))
        seen += [obs["policy"], *results]
        seen += [info["final_obs"]["policy"]] if "final_obs" in info else []
    return seen


def assert_identical(first: list[torch.Tensor], second: list[torch.Tensor]) -> None:
    assert len(first) == len(second)
    for mine, other in zip(first, second, strict=True):
        assert torch.equal(mine, other)


def test_calls_that_make_no_sense_are_refused(env):
    short = {"reset_mask": [True, False, True]}
    misspelt = {"num_env": 4, "device": "cpu"}
    calls = {
        r"actions have shape \(4,\), .* must be \(4, 1\)": lambda: env.step(torch.zeros(4)),
        r"actions have shape \(1, 4\)": lambda: env.step(torch.zeros(1, NUM_ENVS)),
        r"reset_mask has shape \(3,\), but must be \(4,\)": lambda: env.reset(options=short),
        "give one base seed": lambda: env.reset(seed=[1, 2, 3, 4]),
        "base seed": lambda: env.reset(seed=[None]),
        "one base seed": lambda: env.reset(seed=[]),
        r"env\.scene\.num_envs is 0": lambda: making.make("Isaac-Cartpole-v0", num_envs=0),
        r"env\.episode_length_s is 0.0, but must": lambda: make_env(1, episode_length_s=0.0),
        "needs a configuration": VectorEnv,
        "configuration of an environment is dict, but must be a dataclass": (
            lambda: gymnasium.make("Isaac-Cartpole-v0", cfg={"decimation": 2})
        ),
        r"no argument 'num_env'\. Did you mean num_envs": (
            lambda: gymnasium.make("Isaac-Cartpole-v0", **misspelt)
        ),
    }
    for words, call in calls.items():
        with pytest.raises((ConfigurationError, ValueError), match=words):
            call()


@pytest.mark.parametrize("is_finite", [False, True])
def test_a_time_limit_truncates_or_at_a_finite_horizon_terminates(task_id, is_finite):
    env = make(task_id, is_finite_horizon=is_finite)
    for step in range(1, EPISODE_STEPS + 1):
        *_, terminated, truncated, info = env.step(torch.zeros(NUM_ENVS, 1))
        assert terminated.tolist() == [is_finite and step == EPISODE_STEPS] * NUM_ENVS
        assert truncated.tolist() == [not is_finite and step == EPISODE_STEPS] * NUM_ENVS
    assert info["num_ended"] == NUM_ENVS
    assert (env.episode_length_buf == 0).all()


def test_numpy_actions_act_like_tensors():
    first, second = make("Isaac-Cartpole-v0"), make("Isaac-Cartpole-v0")
    actions = first.action_space.sample().clip(-1.0, 1.0)
    obs, seen = first.step(torch.from_numpy(actions))[0], second.step(actions)[0]
    assert torch.equal(obs["policy"], seen["policy"])


def test_actions_of_a_network_bring_no_graph_along(env):
    policy = torch.nn.Linear(env.obs_buf["policy"].shape[1], 1)
    for _ in range(2):
        obs, reward, *_ = env.step(policy(env.obs_buf["policy"]))
    assert not obs["policy"].requires_grad
    assert not reward.requires_grad


def test_results_of_a_step_are_not_overwritten_by_the_next(env):
    obs, *results, _ = env.step(torch.ones(NUM_ENVS, 1))
    returned = [obs["policy"], *results]
    kept = [values.clone() for values in returned]
    record(env, EPISODE_STEPS)
    assert_identical(returned, kept)


def test_close_ends_the_physics_threads_at_once():
    """Without the garbage collector: a sweep must not gather the threads of its past runs."""
    before = num_threads()
    gc.disable()
    try:
        for _ in range(5):
            env = make("Isaac-Cartpole-v0", num_threads=3)
            env.step(torch.zeros(NUM_ENVS, 1))
            assert num_threads() > before
            for _ in range(2):  # as often as one likes
                env.close()
                assert num_threads() == before
    finally:
        gc.enable()


def num_threads() -> int:
    return len(os.listdir("/proc/self/task"))


def test_only_ended_environments_are_reset(task_id):
    env, endless = make(task_id), make(task_id, steps=10**6)
    env.episode_length_buf = torch.tensor([0, EPISODE_STEPS - 1] * 2)
    action = next(drive())
    obs, _, _, truncated, info = env.step(action)
    expected, *_ = endless.step(action)
    assert truncated.tolist() == info["_final_obs"].tolist() == [False, True, False, True]
    assert torch.equal(obs["policy"][[0, 2]], expected["policy"][[0, 2]])
    assert (obs["policy"][[1, 3]] != expected["policy"][[1, 3]]).any(dim=1).all()
    assert env.episode_length_buf.tolist() == [1, 0, 1, 0]
    assert info["num_ended"] == 2


def test_gymnasiums_episode_statistics_agree_with_the_rewards(env):
    class AsNumpy(gymnasium.vector.VectorWrapper):
        """Gymnasium's wrappers compute in NumPy."""

        def step(self, actions) -> tuple:
            obs, *arrays, info = self.env.step(actions)
            return obs, *(array.numpy() for array in arrays), info

    env = RecordEpisodeStatistics(AsNumpy(env))
    env.reset(seed=3)
    total = np.zeros(NUM_ENVS)
    for _ in range(EPISODE_STEPS):
        _, reward, *_, info = env.step(torch.zeros(NUM_ENVS, 1))
        total += reward
    assert info["episode"]["l"].tolist() == [EPISODE_STEPS] * NUM_ENVS
    assert info["episode"]["r"] == pytest.approx(total)


def test_a_seed_at_the_reset_restarts_the_streams(env):
    fresh = make("Isaac-Cartpole-v0", seed=7)
    start, run = fresh.obs_buf["policy"].clone(), record(fresh, 8)
    for seed in (7, np.int64(7), [7], [7] * NUM_ENVS):
        env.reset(seed=seed)
        assert torch.equal(env.obs_buf["policy"], start)
        assert_identical(record(env, 8), run)


def test_a_state_survives_a_file_that_holds_no_code(env, tmp_path):
    record(env, 3)
    torch.save(env.state(), tmp_path / "state.pt")
    future = record(env, 9)
    other = make("Isaac-Cartpole-v0", seed=2)
    other.set_state(torch.load(tmp_path / "state.pt", weights_only=True))
    assert_identical(record(other, 9), future)


def test_a_broken_observation_still_ends_its_episode_after_a_resume():
    first, other = make_fragile(), make_fragile()
    for _ in range(3):
        push(first, 0.0, 0.0, 0.0)
    other.set_state(first.state())
    assert push(other, 0.0, 0.0, 0.0)[2].tolist() == [False, True, False]


def break_physics(env: VectorEnv, *indices: int) -> None:
    """Make the positions of some environments NaN."""
    mask = torch.zeros(env.num_envs, dtype=torch.bool)
    mask[list(indices)] = True
    env.sim.reset(mask, torch.full_like(env.sim.data.qpos, torch.nan))


@pytest.mark.parametrize("cause", ["position", "action"])
def test_a_non_finite_environment_is_reset_and_the_others_continue(task_id, cause, caplog):
    env, sane = make(task_id, steps=1000), make(task_id, steps=1000)
    others = [0, 1, 3]
    action = next(drive())
    expected, expected_reward, *_ = sane.step(action)
    if cause == "position":
        break_physics(env, 2)
    else:
        action[2] = torch.nan
    obs, reward, terminated, truncated, info = env.step(action)
    assert terminated.tolist() == [False, False, True, False]
    assert not truncated.any()
    assert reward[2] == 0.0
    assert env.episode_length_buf.tolist() == [1, 1, 0, 1]
    for values in (obs["policy"], info["final_obs"]["policy"], reward, *info["log"].values()):
        assert torch.isfinite(torch.as_tensor(values)).all()
    assert torch.equal(obs["policy"][others], expected["policy"][others])
    assert torch.equal(reward[others], expected_reward[others])
    for _ in range(9):  # it is healthy again
        assert not env.step(torch.zeros(NUM_ENVS, 1))[2].any()
    with caplog.at_level(logging.WARNING):
        env.check_health()
        env.check_health()
    assert [r.getMessage() for r in caplog.records if "non-finite" in r.getMessage()] == [
        "1 environment episodes were ended by non-finite values in the last 10 steps."
    ]


def make_fragile() -> VectorEnv:
    """Return three environments, of which the second observes infinity after its third step."""

    def fragile(env) -> torch.Tensor:
        broken = (env.episode_length_buf == 3) & (env.env_ids == 1)
        return torch.where(broken, torch.inf, 5.0).unsqueeze(1)

    return make_env(3, observations=terms(policy=group(value=observation(fragile))))


def test_an_observation_that_is_not_finite_is_zero_and_ends_the_episode_a_step_later():
    env = make_fragile()
    rows = []
    for _ in range(5):
        obs, _, terminated, *_ = push(env, 0.0, 0.0, 0.0)
        rows.append((obs["policy"][:, 0].tolist(), terminated.tolist()))
    fine = ([5.0, 5.0, 5.0], [False, False, False])
    broken = ([5.0, 0.0, 5.0], [False, False, False])
    ended = ([5.0, 5.0, 5.0], [False, True, False])
    assert rows == [fine, fine, broken, ended, fine]


def test_environments_that_cannot_fit_are_refused_before_they_are_made(monkeypatch):
    monkeypatch.setattr("envlab.envs.checks.free_memory", lambda: 9 << 30)
    monkeypatch.setattr("envlab.envs.vector_env.create_simulation", None)  # which allocates
    for num_envs in (20_000_000, 10**12):
        with pytest.raises(ConfigurationError, match=r"of memory, but 9\.0 GiB are free here"):
            make_env(num_envs)


def test_too_many_at_once_stop_the_run_and_leave_the_states(env, tmp_path):
    record(env, 2)
    env.log_dir = tmp_path
    break_physics(env, 1, 3)
    action = next(drive())
    with pytest.raises(SimulationError, match=r"2 of 4 environments.*max_bad_share=0\.05") as error:
        env.step(action)
    (path,) = tmp_path.iterdir()
    assert re.fullmatch(r"nan_state_rank0_step3_\w+\.pt", path.name)
    assert str(path) in str(error.value)
    saved = torch.load(path, weights_only=True)
    assert torch.equal(saved["actions"], action)
    assert saved["bad"].tolist() == [False, True, False, True]
    assert saved["qpos"].isnan().tolist() == [[False] * 2, [True] * 2] * 2
    assert saved["step"] == 3


def test_states_do_not_follow_a_link_that_waits_in_the_temporary_folder(env, tmp_path, monkeypatch):
    victim, shared = tmp_path / "victim", tmp_path / "tmp"
    victim.write_text("precious")
    shared.mkdir()
    (shared / "nan_state_rank0_step1.pt").symlink_to(victim)  # the name it had, which is no secret
    monkeypatch.setattr("tempfile.tempdir", str(shared))
    break_physics(env, 1, 3)
    with pytest.raises(SimulationError) as error:
        env.step(next(drive()))
    assert victim.read_text() == "precious"
    (path,) = (path for path in shared.iterdir() if not path.is_symlink())
    assert str(path) in str(error.value)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_health_check_stops_a_run_that_fails_all_the_time(env, tmp_path):
    """One of four environments in each of ten steps is a quarter, more than the share of 0.05."""
    env.log_dir = tmp_path
    for step in range(10):
        break_physics(env, step % NUM_ENVS)
        env.step(torch.zeros(NUM_ENVS, 1))
    with pytest.raises(SimulationError, match=r"10 of 4 environments .* within 10 steps"):
        env.check_health()
    assert len(list(tmp_path.iterdir())) == 1


def test_failures_before_a_restored_state_are_not_held_against_it(env):
    state = env.state()
    break_physics(env, 0)
    env.step(torch.zeros(NUM_ENVS, 1))
    env.set_state(state)
    env.check_health()


def test_the_first_overflow_is_a_warning_with_advice_and_the_second_an_error(
    env, caplog, monkeypatch
):
    full = torch.tensor([True, False, True, False])
    monkeypatch.setattr(env.sim, "overflow", lambda: full)
    env.check_health()
    (message,) = [r.getMessage() for r in caplog.records]
    assert "2 environments ran out of contact memory" in message
    assert env.sim.overflow_advice() in message
    with pytest.raises(SimulationError, match="For the second time, 2 environments ran out"):
        env.check_health()
    lenient = make("Isaac-Cartpole-v0", sim=replace(env.cfg.sim, allow_overflow=True))
    monkeypatch.setattr(lenient.sim, "overflow", lambda: full)
    for _ in range(2):
        lenient.check_health()


def test_what_terms_share_is_computed_once_until_the_state_or_its_version_changes():
    env, calls = making.make("Isaac-Cartpole-v0", num_envs=2), []

    def share(version: int = 0) -> int:
        return env.once("key", lambda: calls.append(0) or len(calls), version)

    assert [share(), share(), share(1), share(1)] == [1, 1, 2, 2]
    env.step(torch.zeros_like(env.actions))
    assert [share(1), share(1)] == [3, 3]
