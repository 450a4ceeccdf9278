"""Gymnasium's environments behave as envlab's do, wherever they are stepped."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from envlab.config import compose, read_yaml, write_yaml
from envlab.distributed.context import DistributedContext
from envlab.envs.gym_bridge import GymEnv, GymEnvCfg
from envlab.errors import ConfigurationError
from envlab.registry import get_task, load_env_cfg
from tests.envs.refusals import assert_refused
from tests.host.gym_envs import Counting

MODULE = "tests.host.gym_envs"
COUNTING = f"gym:{MODULE}:Counting-v0"
NUM_ENVS = 3


def make(
    task_id: str = COUNTING,
    *overrides: str,
    num_envs: int = NUM_ENVS,
    rank: int = 0,
    world_size: int = 1,
    **kwargs,
) -> GymEnv:
    task = get_task(task_id)
    cfg = compose({"env": load_env_cfg(task)}, list(overrides))["env"]
    context = DistributedContext(rank=rank, world_size=world_size)
    return task.make(cfg, context=context, num_envs=num_envs, **({"seed": 0} | kwargs))


def record(env: GymEnv, actions: torch.Tensor) -> torch.Tensor:
    """Return observations, rewards and flags of steps, ``(steps + 1, num_envs, dim)``."""
    rows = [torch.nn.functional.pad(env.obs_buf["policy"], (0, 3))]
    for action in actions:
        obs, *results, _ = env.step(action)
        rows.append(torch.cat([obs["policy"], *(values[:, None].float() for values in results)], 1))
    return torch.stack(rows)


def rest(steps: int) -> torch.Tensor:
    """Return actions of 0 of Counting."""
    return torch.zeros(steps, NUM_ENVS, 2)


def choices(steps: int, num_envs: int = NUM_ENVS) -> torch.Tensor:
    return torch.randint(0, 2, (steps, num_envs, 1), generator=torch.Generator().manual_seed(1))


@pytest.fixture(params=[0, 2], ids=["here", "in workers"])
def workers(request) -> str:
    return f"env.num_workers={request.param}"


def test_keywords_have_names_types_and_an_effect():
    cfg = load_env_cfg(get_task(COUNTING))
    assert cfg.kwargs == {"ends_at": 3, "breaks_at": 0, "how": ""}
    env = make(COUNTING, "env.kwargs.ends_at=2")
    assert record(env, rest(2))[:, 0, 3].tolist() == [0.0, 0.0, 1.0]


def test_settings_that_make_no_environment_are_refused():
    table = {
        r"Did you mean env.kwargs.ends_at": "env.kwargs.end_at=2",
        r"must be a whole number|integer": "env.kwargs.ends_at=soon",
        r"cannot be made with env.kwargs.colour=red": "+env.kwargs.colour=red",
        r"env\.num_workers": "env.num_workers=-1",
        r"env\.max_episode_steps": "env.max_episode_steps=0",
        r"env\.worker_timeout_s": "env.worker_timeout_s=0",
    }
    assert_refused({words: lambda one=one: make(COUNTING, one) for words, one in table.items()})
    with pytest.raises(ConfigurationError, match=r"only vectors are joined\. Set"):
        make(f"gym:{MODULE}:Picture-v0", "env.num_frames=2")


def test_configuration_returns_from_a_file(tmp_path):
    cfg = load_env_cfg(get_task(COUNTING))
    write_yaml(tmp_path / "env.yaml", cfg)
    assert read_yaml(tmp_path / "env.yaml", cfg) == cfg
    assert read_yaml(tmp_path / "env.yaml", GymEnvCfg) == cfg


def test_an_episode_that_ends_hands_over_its_last_observation_and_starts_anew(workers):
    env = make(COUNTING, workers)
    actions = torch.full((NUM_ENVS, 2), 0.5)
    for count in (1, 2):
        obs, reward, terminated, truncated, info = env.step(actions)
        assert obs["policy"].tolist() == [[count, 0.5]] * NUM_ENVS
        assert reward.tolist() == [count] * NUM_ENVS
        assert not (terminated | truncated).any()
        assert info == {"num_ended": 0, "log": {}}
        assert env.episode_length_buf.tolist() == [count] * NUM_ENVS
    obs, reward, terminated, truncated, info = env.step(actions)
    assert obs["policy"].tolist() == [[0.0, 0.0]] * NUM_ENVS
    assert info["final_obs"]["policy"].tolist() == [[3.0, 0.5]] * NUM_ENVS
    assert reward.tolist() == [3.0] * NUM_ENVS
    assert (terminated & ~truncated & info["_final_obs"]).all()
    assert info["num_ended"] == NUM_ENVS
    assert info["log"] == {
        "Episode_Termination/time_out": 0.0,
        "Episode_Termination/terminated": 1.0,
        "Episode_Info/count": 3.0,
        "Episode_Info/is_success": 1.0,
    }
    assert env.episode_length_buf.tolist() == [0] * NUM_ENVS
    env.close()


def test_a_time_limit_truncates_and_a_failure_at_the_same_step_terminates():
    for limit, is_finite, flags in (
        *((2, "false", [0.0, 1.0]), (3, "false", [1.0, 0.0]), (2, "true", [1.0, 0.0])),
    ):
        horizon = f"env.is_finite_horizon={is_finite}"
        env = make(COUNTING, f"env.max_episode_steps={limit}", horizon)
        assert env.max_episode_length == limit
        assert record(env, rest(limit))[-1, :, 3:].tolist() == [flags] * NUM_ENVS


def test_an_episode_begins_with_frames_of_its_padding():
    for padding, share in (("reset", 1.0), ("zero", 0.0)):
        env = make("gym:CartPole-v1", "env.num_frames=2", f"env.frame_padding={padding}")
        before, first = env.obs_buf["policy"].split(4, dim=1)
        assert first.abs().min() > 0.0
        torch.testing.assert_close(before, share * first)
        env.close()


def test_time_limits_follow_an_episode_length_that_is_set(workers):
    env = make(COUNTING, workers, "env.kwargs.ends_at=50")
    env.episode_length_buf = torch.tensor([9, 0, 8])  # of 10
    steps = record(env, rest(2))
    assert steps[1, :, 4].tolist() == [1.0, 0.0, 0.0]
    assert steps[2, :, 4].tolist() == [0.0, 0.0, 1.0]
    env.close()


def test_numbers_are_clipped_to_the_bounds_of_the_environment():
    env = make()
    bound = np.array([1.0, 2.0], np.float32)
    assert env.single_action_space == spaces.Box(-bound, bound)
    obs, *_ = env.step(torch.tensor([[9.0, 9.0], [0.0, -9.0], [0.0, 1.5]]))
    assert obs["policy"][:, 1].tolist() == [2.0, -2.0, 1.5]
    with pytest.raises(ValueError, match=r"shape \(3, 1\), but must be \(3, 2\)"):
        env.step(torch.zeros(3, 1))


def test_choices_count_from_zero():
    env = make(f"gym:{MODULE}:Choosing-v0")
    assert env.single_action_space == spaces.Discrete(3)
    obs, *_ = env.step(torch.tensor([0, 1, 2]))
    assert obs["policy"][:, 1].tolist() == [5.0, 6.0, 7.0]  # they start at 5 there
    with pytest.raises(ConfigurationError, match="option 3 of choice 0, which has 3"):
        env.step(torch.tensor([0, 1, 3]))
    twice = make(f"gym:{MODULE}:ChoosingTwice-v0")
    assert twice.single_action_space == spaces.MultiDiscrete([2, 4])
    obs, *_ = twice.step(torch.tensor([[0, 1], [1, 2], [0, 3]]))
    assert obs["policy"][:, 1].tolist() == [1.0, 2.0, 3.0]


def test_images_keep_their_shape_with_channels_last(workers):
    env = make(f"gym:{MODULE}:Picture-v0", workers)
    assert env.single_observation_space["policy"].shape == (4, 6, 3)
    obs, *_ = env.step(torch.zeros(NUM_ENVS, 2))
    assert obs["policy"].shape == (NUM_ENVS, 4, 6, 3)
    assert torch.allclose(obs["policy"][2, 3, 5], torch.tensor([0.0, 0.2, 1.0]))
    env.close()


def test_choices_that_are_observed_become_one_hot():
    env = make("gym:FrozenLake-v1", "env.kwargs.is_slippery=false")
    assert env.obs_buf["policy"].tolist() == [[1.0] + [0.0] * 15] * NUM_ENVS
    obs, *_ = env.step(torch.tensor([2, 2, 1]))  # right, right, down
    assert obs["policy"].argmax(dim=1).tolist() == [1, 1, 4]


def test_it_observes_the_same_as_gymnasium_alone():
    env = make("gym:CartPole-v1", num_envs=1)
    alone = gymnasium.make("CartPole-v1")
    alone.reset()
    expected = env.obs_buf["policy"][0].numpy()
    alone.unwrapped.state = expected.astype(np.float64)
    for step in range(40):
        assert env.obs_buf["policy"][0].tolist() == pytest.approx(expected.tolist(), abs=1e-6)
        expected, _, terminated, truncated, _ = alone.step(step % 2)
        *_, info = env.step(torch.tensor([step % 2]))
        assert bool(info["num_ended"]) == (terminated or truncated)
        if terminated or truncated:
            break


def test_a_picture_is_of_the_first_environment_and_even(workers):
    env = make(COUNTING, workers, render_mode="rgb_array")
    env.step(torch.zeros(NUM_ENVS, 2))
    picture = env.render()
    assert np.array_equal(picture, np.ones((6, 8, 3)))
    assert env.step_dt == 1 / 20
    env.close()


@pytest.mark.filterwarnings("ignore:.*render_mode")  # Gymnasium's own word on it
def test_an_environment_without_pictures_is_reported(monkeypatch):
    monkeypatch.setattr(Counting, "metadata", {"render_modes": ["human"]})
    with pytest.raises(ConfigurationError, match=r"render as 'rgb_array', only as human. Leave"):
        make(COUNTING, "env.num_workers=0", render_mode="rgb_array")


def test_results_depend_neither_on_workers_nor_on_ranks():
    actions = choices(60, num_envs=6)
    whole = record(make("gym:CartPole-v1", "env.num_workers=0", num_envs=6, seed=7), actions)
    env = make("gym:CartPole-v1", "env.num_workers=2", num_envs=6, seed=7)
    assert torch.equal(record(env, actions), whole)
    env.close()
    assert whole[1:, :, 5].sum() > 3  # some episodes ended
    assert whole[0].unique(dim=0).shape[0] == 6
    for rank in range(2):
        rows = slice(3 * rank, 3 * rank + 3)
        half = make("gym:CartPole-v1", num_envs=3, seed=7, rank=rank, world_size=2)
        assert torch.equal(record(half, actions[:, rows]), whole[:, rows])


def test_a_restored_state_begins_new_episodes_that_are_not_those_of_the_start():
    env = make("gym:CartPole-v1", seed=5)
    start = env.obs_buf["policy"].clone()
    record(env, choices(15))
    state = env.state()
    restored = [make("gym:CartPole-v1", seed=9) for _ in range(2)]
    for other in restored:
        other.set_state(state)
        assert other.common_step_counter == 15
        assert other.random.base_seed == 5
        assert not torch.equal(other.obs_buf["policy"], start)
    assert torch.equal(*(record(one, choices(15)) for one in restored))
    assert not GymEnv.resumes_exactly


def test_an_environment_that_is_not_finite_ends_its_episode_alone(workers, caplog):
    env = make(COUNTING, workers, "env.kwargs.breaks_at=2", "env.nan_guard.max_bad_share=1.0")
    env.reset()
    env.step(torch.zeros(NUM_ENVS, 2))
    env.reset(options={"reset_mask": torch.tensor([True, False, True])})
    obs, reward, terminated, _, info = env.step(torch.zeros(NUM_ENVS, 2))
    assert terminated.tolist() == [False, True, False]
    assert reward.tolist() == [1.0, 0.0, 1.0]
    assert info["final_obs"]["policy"][1].tolist() == [0.0, 0.0]
    assert obs["policy"][:, 0].tolist() == [1.0, 0.0, 1.0]
    env.check_health()
    assert "1 environment episodes were ended by non-finite values" in caplog.text
    env.close()
