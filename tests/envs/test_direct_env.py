"""Direct environments: the methods' order, noise on actions and observations, declared sizes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from envlab.config import compose, read_yaml, write_yaml
from envlab.envs import (
    ConstantNoiseCfg,
    DirectEnv,
    DirectEnvCfg,
    DiscreteCfg,
    NoiseModelWithAdditiveBiasCfg,
    SceneCfg,
    SimulationCfg,
    UniformNoiseCfg,
)
from envlab.errors import ConfigurationError
from tests.envs.refusals import assert_refused
from tests.envs.sliders import CTRL_PUSH, DT, MODEL, PUSH, rank


@dataclass(kw_only=True)
class PushCfg(DirectEnvCfg):
    gain: float = 1.0


class PushEnv(DirectEnv):
    """Push a slider; it records the calls of its methods."""

    cfg: PushCfg
    calls: list[str]

    def _setup(self) -> None:
        self.calls = []

    def _pre_physics_step(self, actions: torch.Tensor) -> None:
        self.calls.append("actions")
        self.force = actions * self.cfg.gain

    def _apply_action(self) -> None:
        self.calls.append("apply")
        self.sim.ctrl[:, CTRL_PUSH] = self.force[:, 0]

    def _get_observations(self) -> dict[str, torch.Tensor]:
        self.calls.append("observations")
        observations = {"policy": self.sim.data.qvel[:, [PUSH]]}
        if self.cfg.state_space:
            observations["critic"] = self.sim.data.qpos[:, [PUSH]]
        return observations

    def _get_rewards(self) -> torch.Tensor:
        self.calls.append("rewards")
        return self.sim.data.qvel[:, PUSH].clone()

    def _get_dones(self) -> tuple[torch.Tensor, torch.Tensor]:
        self.calls.append("dones")
        time_out = self.episode_length_buf >= self.max_episode_length
        return torch.zeros_like(time_out), time_out

    def _reset_envs(self, mask: torch.Tensor, count: torch.Tensor) -> dict[str, torch.Tensor]:
        self.calls.append("reset")
        return {"ended": mask.sum() / count}


class PictureEnv(PushEnv):
    """The same, observing its slider as an image of 2 x 3 pixels of one colour."""

    def _get_observations(self) -> dict[str, torch.Tensor]:
        value = self.sim.data.qvel[:, PUSH].view(-1, 1, 1, 1)
        return {"policy": value.expand(-1, 2, 3, 1)}


def make(num_envs: int = 2, cls: type[PushEnv] = PushEnv, **fields) -> PushEnv:
    scene = SceneCfg(num_envs=num_envs, model=MODEL)
    cfg = PushCfg(episode_length_s=1.0, sim=SimulationCfg(dt=DT), scene=scene, **fields)
    return cls(cfg, context=rank(0, 1), seed=0)


def choose(num_options: int | list[int], **fields) -> PushEnv:
    return make(action_space=DiscreteCfg(num_options=num_options), **fields)


def picture(**fields) -> PushEnv:
    return make(cls=PictureEnv, **fields)


def test_a_step_calls_each_method_once_in_order():
    env = make(decimation=3)
    env.calls.clear()
    env.step(torch.zeros(2, 1))
    assert env.calls == ["actions", "apply", "dones", "rewards", "observations"]
    env.episode_length_buf[:] = 3  # of ceil(1.0 / 0.3) = 4
    env.calls.clear()
    *_, info = env.step(torch.zeros(2, 1))
    assert env.calls == [
        *("actions", "apply", "dones", "rewards"),
        *("observations", "reset", "observations"),  # the final ones, and those of the new episode
    ]
    assert info["log"]["ended"] == 1.0


def test_action_noise_comes_before_the_task():
    env = make(gain=2.0, action_noise_model=ConstantNoiseCfg(bias=0.5))
    env.step(torch.tensor([[1.0], [-1.0]]))
    assert env.sim.ctrl[:, CTRL_PUSH].tolist() == [3.0, -1.0]
    assert env.actions.tolist() == [[1.0], [-1.0]]


def test_observation_noise_is_the_policys_alone():
    env = make(4, state_space=1, observation_noise_model=UniformNoiseCfg(n_min=0.5, n_max=1.5))
    obs, *_ = env.step(torch.zeros(4, 1))
    assert obs["critic"].tolist() == [[0.0]] * 4
    assert ((obs["policy"] >= 0.5) & (obs["policy"] < 1.5)).all()
    assert obs["policy"].unique().numel() == 4


def test_a_bias_is_an_episodes_own():
    still, drawn = ConstantNoiseCfg(bias=1.0), UniformNoiseCfg(n_min=0.0, operation="abs")
    noise = NoiseModelWithAdditiveBiasCfg(noise_cfg=still, bias_noise_cfg=drawn)
    env = make(4, action_noise_model=noise, observation_noise_model=noise)

    def noisy() -> torch.Tensor:
        obs = env.step(torch.zeros(4, 1))[0]["policy"] - env._get_observations()["policy"]
        return torch.cat((env.sim.ctrl[:, CTRL_PUSH].view(4, 1), obs), dim=1) - 1.0

    first = noisy()
    assert ((first > 0.0) & (first < 1.0)).all()
    assert first.unique().numel() == first.numel()
    assert torch.allclose(noisy(), first, atol=1e-6)  # of the same episode
    env.reset(options={"reset_mask": torch.tensor([True, False, False, True])})
    second = noisy()
    assert torch.allclose(second[1:3], first[1:3], atol=1e-6)
    assert ((second[[0, 3]] - first[[0, 3]]).abs() > 1e-4).all()


def test_what_makes_no_sense_is_refused():
    steps = [
        (3, [0, 0, 0], r"actions have shape .* must be \(2, 1\)"),
        ([3, 2], [0, 0], r"must be \(2, 2\)"),
        (3, [[0.0], [0.0]], r"actions are torch.float32.* as torch.int64"),
        (3, [[False], [False]], "actions are torch.bool"),
        ([3, 2], [[0, 0], [0, 2]], "Environment 1 is given option 2 of choice 1, which has 2"),
        ([3, 2], [[0, 0], [-1, 0]], "Environment 1 is given option -1 of choice 0, which has 3"),
    ]
    for num_options, actions, words in steps:
        with pytest.raises((ConfigurationError, ValueError), match=words):
            choose(num_options).step(torch.tensor(actions))
    noisy = {"action_space": DiscreteCfg(), "action_noise_model": ConstantNoiseCfg()}
    configurations = {
        r"action_space is \{3\}.* write DiscreteCfg\(num_options=3\)": {"action_space": {3}},
        "num_options is 0, but every choice": {"action_space": DiscreteCfg(num_options=0)},
        "has 0 actions": {"action_space": DiscreteCfg(num_options=[])},
        "choices take no noise": noisy,
        r"observes 'policy' of shape \(1,\).*\s*declares 5": {"observation_space": 5},
        r"'critic' of shape \(1,\).*\s*declares 2": {"state_space": 2},
    }
    assert_refused({words: lambda one=one: make(**one) for words, one in configurations.items()})
    for space in (6, [3, 2, 1]):
        with pytest.raises(ConfigurationError, match=r"shape \(2, 3, 1\), but its config"):
            picture(observation_space=space)


def test_spaces_travel_through_files_and_command_lines(tmp_path):
    for num_options in (3, [3, 2]):
        cfg = PushCfg(action_space=DiscreteCfg(num_options=num_options))
        write_yaml(tmp_path / "env.yaml", cfg)
        assert read_yaml(tmp_path / "env.yaml", PushCfg) == cfg
        wider = compose({"env": cfg}, ["env.action_space.num_options=[5,4]"])["env"]
        assert wider.action_space == DiscreteCfg(num_options=[5, 4])
    assert compose({"env": cfg}, ["env.action_space=2"])["env"].action_space == 2
    for text, space in (("[2,3,1]", [2, 3, 1]), ("null", None)):
        cfg = compose({"env": PushCfg()}, [f"env.observation_space={text}"])["env"]
        assert cfg.observation_space == space
        write_yaml(tmp_path / "env.yaml", cfg)
        assert read_yaml(tmp_path / "env.yaml", PushCfg) == cfg


def test_one_choice_comes_with_or_without_its_column():
    env = choose(3)
    for actions in ([2, 1], [[2], [1]]):
        env.step(torch.zeros(2, dtype=torch.int64))
        env.step(np.array(actions, dtype=np.int32) if actions == [2, 1] else torch.tensor(actions))
        assert env.actions.tolist() == [[2], [1]]
        assert env.force.tolist() == [[2.0], [1.0]]


def test_an_image_is_declared_by_its_shape_or_not_at_all_and_its_noise_differs_by_pixel():
    noise = UniformNoiseCfg(n_min=0.5, n_max=1.5)
    for space in ([2, 3, 1], None):
        env = picture(observation_space=space, observation_noise_model=noise)
        assert env.single_observation_space["policy"].shape == (2, 3, 1)
        obs, *_ = env.step(torch.zeros(2, 1))
        assert obs["policy"].shape == (2, 2, 3, 1)
        assert obs["policy"].unique().numel() == 12
