"""envlab's environments in the form that LeRobot's evaluation needs, and in its own loop."""

from __future__ import annotations

import functools
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import torch

from envlab.envs.wrappers.lerobot import LeRobotVectorEnvWrapper
from envlab.errors import ConfigurationError
from envlab.registry import get_task, load_env_cfg
from envlab.sim.opengl import provide_opengl

EPISODE_STEPS = 6


def make(task: str = "Isaac-Cartpole-v0", num_envs: int = 3, **kwargs) -> LeRobotVectorEnvWrapper:
    cfg = load_env_cfg(get_task(task))
    cfg.episode_length_s = EPISODE_STEPS * cfg.step_dt
    env = gymnasium.make(task, cfg=cfg, num_envs=num_envs, device="cpu").unwrapped
    return LeRobotVectorEnvWrapper(env, task=task, task_description="balance", **kwargs)


def test_a_rollout_is_numpy_in_lerobots_keys():
    env = make()
    obs, info = env.reset(seed=[7, 8, 9], options={"lerobot_new_rollout": True})
    assert (list(obs), info) == (["agent_pos"], {})
    assert env.observation_space.contains(obs)
    assert env.call("_max_episode_steps") == (EPISODE_STEPS,) * 3
    assert env.get_attr("task_description") == ("balance",) * 3
    assert env.call("task") == ("Isaac-Cartpole-v0",) * 3
    assert env.metadata["render_fps"] == 60
    for step in range(1, EPISODE_STEPS + 1):
        obs, reward, terminated, truncated, _ = env.step(np.zeros((3, 1), dtype=np.float32))
        assert [type(v) for v in (reward, terminated, truncated)] == [np.ndarray] * 3
        assert reward.shape == (3,)
        assert truncated.tolist() == [step == EPISODE_STEPS] * 3
    with pytest.raises(AttributeError):  # which LeRobot expects, and does without
        env.call("camera_names")
    env.close()


def test_seeds_bring_a_rollout_back():
    env = make()
    first, again, other = (env.reset(seed=s)[0]["agent_pos"] for s in ([3, 4, 5], [3, 4, 5], [4]))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert len(np.unique(first, axis=0)) == 3


def test_each_environment_has_its_own_picture():
    try:
        provide_opengl()
    except ConfigurationError as error:
        pytest.skip(f"no picture can be drawn here: {error}")
    env = make(obs_type="pixels_agent_pos", height=48, width=64)
    obs, _ = env.reset(seed=2)
    assert obs["pixels"].shape == (3, 48, 64, 3)
    assert env.observation_space.contains(obs)
    assert len({picture.tobytes() for picture in obs["pixels"]}) == 3
    assert np.array_equal(np.stack(env.call("render")), obs["pixels"])
    assert list(make(obs_type="pixels", height=48, width=64).reset()[0]) == ["pixels"]
    env.close()


def test_unsupported_observations_are_one_sentence():
    with pytest.raises(ConfigurationError, match="obs_type is 'image', but must be one of state"):
        make(obs_type="image")
    with pytest.raises(ConfigurationError, match=r"which is not a vector.*obs_type=pixels"):
        make("Isaac-Cartpole-Depth-Camera-Direct-v0")
    task = get_task("gym:CartPole-v1")
    cartpole = task.make(load_env_cfg(task), num_envs=1)
    with pytest.raises(ConfigurationError, match="GymEnv draws no pictures of each"):
        LeRobotVectorEnvWrapper(cartpole, obs_type="pixels")


class TestLeRobotItself:
    """Its registration, features and evaluation loop: ``lerobot_env_envlab`` under ``source/``."""

    @pytest.fixture(autouse=True)
    def _installed(self):
        pytest.importorskip("lerobot", reason="needs lerobot: see docs/lerobot.md")

    def test_its_evaluation_runs_a_task_by_its_type(self):
        from lerobot.envs.factory import make_env, make_env_config
        from lerobot.envs.utils import env_to_policy_features
        from lerobot.scripts.lerobot_eval import rollout

        import lerobot_env_envlab  # noqa: F401

        overrides = [f"env.episode_length_s={EPISODE_STEPS / 60}"]
        cfg = make_env_config("envlab", task="Isaac-Cartpole-v0", overrides=overrides)
        features = env_to_policy_features(cfg)
        assert {name: one.shape for name, one in features.items()} == {
            "action": (1,),
            "observation.state": (4,),
        }
        env = make_env(cfg, n_envs=3)["envlab"][0]
        same = {"preprocessor": lambda batch: batch, "postprocessor": lambda action: action}
        settings = {"seeds": [1, 2, 3], "return_observations": True} | same
        result = rollout(env, Still(), *cfg.get_env_processors(), **settings)
        assert result["action"].shape == (3, EPISODE_STEPS, 1)
        assert result["done"][:, -1].all()
        assert not result["done"][:, :-1].any()
        assert result["observation"]["observation.state"].shape == (3, EPISODE_STEPS + 1, 4)
        assert (result["reward"] != 0).all()

    def test_a_file_of_its_hub_makes_environments(self):
        # private: what its command line calls of a hub's file
        from lerobot.envs.utils import _call_make_env, _normalize_hub_result

        from lerobot_env_envlab import make_env

        module = SimpleNamespace(make_env=functools.partial(make_env, task="Isaac-Cartpole-v0"))
        envs = _normalize_hub_result(_call_make_env(module, 2, False, None))
        assert envs["envlab"][0].num_envs == 2


class Still(torch.nn.Module):
    """A policy that asks for nothing."""

    def reset(self) -> None:
        """Begin an episode."""

    def select_action(self, batch: dict) -> torch.Tensor:
        return torch.zeros(len(batch["observation.state"]), 1)
