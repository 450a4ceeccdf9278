"""rsl_rl 1's runner over the installed rsl_rl."""

from __future__ import annotations

import copy
import itertools
import math

import pytest
import rsl_rl.runners
import torch
from rsl_rl.runners.on_policy_runner import OnPolicyRunner

from envlab.errors import CheckpointError, ConfigurationError, SimulationError
from envlab_isaacgym.rsl_rl_1 import RslRl1Runner, offer_rsl_rl_1


class Env:
    """rsl_rl 1's interface; the reward is highest for actions of 0.5."""

    num_envs, num_actions, num_obs, max_episode_length = 16, 2, 3, 20
    device = "cpu"

    def __init__(self, num_privileged_obs: int | None = None) -> None:
        self.num_privileged_obs = num_privileged_obs
        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.long)
        self.seed = torch.Generator().manual_seed(1)

    def get_observations(self) -> torch.Tensor:
        return torch.randn(self.num_envs, self.num_obs, generator=self.seed)

    def get_privileged_observations(self) -> torch.Tensor | None:
        if self.num_privileged_obs is None:
            return None
        return torch.ones(self.num_envs, self.num_privileged_obs)

    def reset(self):
        return self.get_observations(), self.get_privileged_observations()

    def step(self, actions: torch.Tensor):
        self.episode_length_buf += 1
        dones = self.episode_length_buf >= self.max_episode_length
        self.episode_length_buf[dones] = 0
        rewards = -(actions - 0.5).square().sum(dim=1)
        infos = {"time_outs": dones, "episode": {"rew_all": rewards.mean()}}
        return self.get_observations(), self.get_privileged_observations(), rewards, dones, infos


CFG = {
    "runner": {
        "policy_class_name": "ActorCritic",
        "algorithm_class_name": "PPO",
        "num_steps_per_env": 8,
        "save_interval": 50,
    },
    "policy": {"actor_hidden_dims": [8, 4], "critic_hidden_dims": [8, 3], "init_noise_std": 0.5},
    "algorithm": {"learning_rate": 1e-2, "schedule": "fixed", "num_mini_batches": 2},
}


def runner(tmp_path, kind: str = "ActorCritic", privileged: int | None = None) -> RslRl1Runner:
    cfg = copy.deepcopy(CFG)
    cfg["runner"]["policy_class_name"] = kind
    return RslRl1Runner(Env(privileged), cfg, str(tmp_path), "cpu")


def test_it_learns_and_writes_checkpoints_of_rsl_rl_1(tmp_path, capsys):
    torch.manual_seed(1)
    trained = runner(tmp_path, privileged=5)
    trained.learn(30, init_at_random_ep_len=True)
    means = trained.get_inference_policy("cpu")(torch.zeros(4, 3))
    torch.testing.assert_close(means, torch.full((4, 2), 0.5), atol=0.25, rtol=0)
    state = torch.load(tmp_path / "model_30.pt", weights_only=True)
    assert state["iter"] == 30
    expected: dict[str, tuple[int, ...]] = {"std": (2,)}
    for name, *sizes in (("actor", 3, 8, 4, 2), ("critic", 5, 8, 3, 1)):
        for layer, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
            expected[f"{name}.{2 * layer}.weight"] = (outputs, inputs)
            expected[f"{name}.{2 * layer}.bias"] = (outputs,)
    shapes = {name: tuple(value.shape) for name, value in state["model_state_dict"].items()}
    assert shapes == expected


def test_time_outs_that_an_environment_leaves_standing_count_once(tmp_path, capsys):
    """legged_gym's stand until another episode ends: most of the time, with few environments."""
    paid: list[torch.Tensor] = []

    class Standing(Env):
        def step(self, actions: torch.Tensor):
            obs, privileged, rewards, dones, infos = super().step(actions)
            paid.append(rewards)
            return obs, privileged, rewards, dones, infos | {"time_outs": torch.ones_like(dones)}

    made = RslRl1Runner(Standing(), copy.deepcopy(CFG), str(tmp_path), "cpu")
    made.learn(1)  # in whose 8 steps no episode ends
    torch.testing.assert_close(made.alg.storage.rewards[..., 0], torch.stack(paid))


@pytest.mark.parametrize("kind", ["ActorCritic", "ActorCriticRecurrent"])
def test_training_resumes_from_a_checkpoint(tmp_path, kind, capsys):
    first = runner(tmp_path, kind)
    first.learn(2)
    second = runner(tmp_path, kind)
    second.load(str(tmp_path / "model_2.pt"))
    assert second.current_learning_iteration == 2
    states = [one.alg.optimizer.state_dict()["state"] for one in (first, second)]
    assert states[0].keys() == states[1].keys()
    for number, moments in states[0].items():
        torch.testing.assert_close(states[1][number]["exp_avg"], moments["exp_avg"])
    for name, value in first.alg.actor_critic.state_dict().items():
        torch.testing.assert_close(second.alg.actor_critic.state_dict()[name], value)
    if kind == "ActorCriticRecurrent":
        assert "memory_a.rnn.weight_ih_l0" in first.alg.actor_critic.state_dict()


def test_weights_that_are_no_numbers_are_one_sentence(tmp_path, capsys):
    made = runner(tmp_path)
    made.alg.learning_rate = math.inf
    for group in made.alg.optimizer.param_groups:
        group["lr"] = math.inf
    with pytest.raises(SimulationError, match="iteration 0 weights were not finite"):
        made.learn(2)


def test_other_files_and_policies_are_one_sentence(tmp_path, capsys):
    made = runner(tmp_path)
    torch.save({"model_state_dict": {}}, tmp_path / "other.pt")
    with pytest.raises(CheckpointError, match="not a checkpoint of this network"):
        made.load(str(tmp_path / "other.pt"))
    with pytest.raises(ConfigurationError, match="the policy 'Transformer'"):
        runner(tmp_path, "Transformer")


def test_runner_is_chosen_by_its_configuration(tmp_path, monkeypatch, capsys):
    installed = OnPolicyRunner  # rsl_rl.runners may have been offered another by an earlier test
    monkeypatch.setattr(rsl_rl.runners, "OnPolicyRunner", installed)
    offer_rsl_rl_1()
    chosen = rsl_rl.runners.OnPolicyRunner
    made = chosen(Env(), copy.deepcopy(CFG), log_dir=None, device="cpu")
    assert isinstance(made, RslRl1Runner)
    monkeypatch.setattr(rsl_rl.runners, "OnPolicyRunner", installed)
    offer_rsl_rl_1(always=True)
    with pytest.raises(ConfigurationError, match="--rsl-rl-1 was given"):
        rsl_rl.runners.OnPolicyRunner(Env(), {"algorithm": {}}, None, "cpu")
