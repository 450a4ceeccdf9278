"""Networks of images, and Atari's games, are those that SLM-Lab's specs describe."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from envlab.errors import ConfigurationError
from envlab.skrl.torch.memory import QuickMemory
from envlab_populations.hogwild import atari
from envlab_populations.hogwild.cfg import NetCfg
from envlab_populations.hogwild.environments import with_heir
from envlab_populations.hogwild.networks import Dueling, Layers
from envlab_populations.hogwild.spec import make_spec
from tests.populations.hogwild.test_slm_lab import (
    DQN,
    PPO,
    arc,
    changed,
    learner_of,
    plan_of,
    trained,
)

CONV: dict[str, Any] = {
    "type": "ConvNet",
    "conv_hid_layers": [[3, 4, 2, 0, 1], [2, 3, 1, 1, 1]],
    "fc_hid_layers": [6],
    "normalize": True,
}
SEEN = {"name": "gym:tests.populations.hogwild.pixels:Pixels-v0"}
needs_ale = pytest.mark.skipif(
    not atari.has_ale(), reason="needs ale-py: pip install -e '.[atari]'"
)


def test_a_convolution_sees_rows_columns_and_channels():
    layers = Layers((3, 3, 2), 0, 1, NetCfg(layers=[[1, 2, 1, 0, 1]], pixel_scale=10.0))
    with torch.no_grad():
        # The sum of a square of the first channel minus the second's corner at the top right.
        layers[0].weight.copy_(torch.tensor([[[[1, 1], [1, 1]], [[0, -1], [0, 0]]]]))
        layers[0].bias.zero_()
        layers[2].weight.copy_(torch.tensor([[1.0, 10.0, 100.0, 1000.0]]))
        layers[2].bias.zero_()
    first = torch.arange(9.0).view(3, 3)  # squares of 8, 12, 20 and 24
    second = torch.tensor([[0.0, 1.0, 2.0], [0.0, 3.0, 4.0], [0.0, 0.0, 0.0]])  # 1, 2, 3, 4
    image = torch.stack((first, second), dim=-1).reshape(1, 18)
    assert layers(image).item() == pytest.approx(10 * (7 + 10 * 10 + 17 * 100 + 20 * 1000))


def test_a_spec_of_images_gives_all_layers_and_an_architecture_the_same():
    network = trained(changed(DQN, net=CONV, env=SEEN)).agent.q_network.net
    expected = [nn.Conv2d, nn.Tanh, nn.Conv2d, nn.Tanh, nn.Flatten, nn.Linear, nn.Tanh, nn.Linear]
    assert [type(layer) for layer in network] == expected
    assert network[0].weight.shape == (3, 4, 4, 4)
    assert network[5].weight.shape == (6, 2 * 5 * 5)  # 12 becomes 5, and stays so
    assert network.pixel_scale == 1.0
    assert plan_of(changed(DQN, net=CONV | {"normalize": False})).agent.net.pixel_scale == 255.0
    first = {"LazyConv2d": {"out_channels": 3, "kernel_size": 4, "stride": 2}}
    second = {"LazyConv2d": {"out_channels": 2, "kernel_size": 3, "padding": 1}}
    last = {"LazyLinear": {"out_features": 6}}
    layers = (first, "Tanh", second, "Tanh", "Flatten", last, "Tanh")
    ours, theirs = (
        plan_of(changed(DQN, net=net, env=SEEN)).agent.net.layers
        for net in (CONV, {**arc(*layers), "normalize": True})
    )
    assert ours == theirs


@pytest.mark.parametrize(("name", "net", "env"), [("ActorCritic", CONV, SEEN), ("PPO", {}, {})])
def test_policy_and_value_share_layers_which_are_computed_once(name: str, net, env):
    net = net | {"shared": True, "actor_init_std": 0.01, "clip_grad_val": 0.5}
    spec = changed(PPO, algorithm={"name": name, "training_frequency": 10}, net=net, env=env)
    learner = trained(spec)
    policy, value = learner.agent.policy, learner.agent.value
    assert policy.net.trunk is value.net.shared_trunk[0]
    assert len(list(value.parameters())) == 2  # of its last layer alone
    updates = []
    policy.net.trunk.layers.register_forward_hook(
        lambda *_: updates.append(None) if torch.is_grad_enabled() else None
    )
    before = learner.gradient_steps(10)
    learner.iterate(2, lambda *_: None)
    assert len(updates) == before


def test_weights_are_drawn_with_the_gain_of_the_activation():
    """As in SLM-Lab 4.3's ``init_layers``, which also draws those of the last layers this way."""
    gains = (("relu", 2.0**0.5, True), ("tanh", 5.0 / 3.0, False), ("silu", 1.0, True))
    for activation, gain, is_shared in gains:
        net = CONV | {"hid_layers_activation": activation, "init_fn": "orthogonal_"}
        learner = learner_of(changed(PPO, net=net | {"shared": is_shared}, env=SEEN))
        parts = {*learner.agent.policy.modules(), *learner.agent.value.modules()}
        layers = [part for part in parts if isinstance(part, nn.Linear | nn.Conv2d)]
        assert len(layers) == (5 if is_shared else 8)
        for layer in layers:
            values = torch.linalg.svdvals(layer.weight.detach().flatten(1))
            torch.testing.assert_close(values, torch.full_like(values, gain))
            assert not layer.bias.any()


def test_a_shared_layer_learns_from_the_sum_of_both_losses():
    agent = learner_of(changed(PPO, net={"shared": True})).agent
    policy, value = agent.policy, agent.value
    weight, obs = policy.net.trunk.layers[0].weight, torch.randn(5, 4)

    def gradient(*roles: str) -> torch.Tensor:
        policy.zero_grad()
        inputs = {"observations": obs.clone(), "taken_actions": torch.ones(5, 1)}
        losses = {
            "policy": lambda: policy.act(inputs, role="policy")[1]["log_prob"].sum(),
            "value": lambda: value.act(inputs, role="value")[0].sum(),
        }
        sum(losses[role]() for role in roles).backward()
        return weight.grad.clone()

    both = gradient("policy", "value")
    torch.testing.assert_close(both, gradient("policy") + gradient("value"))


def test_the_loss_of_values_is_scaled():
    algorithm, losses = {"name": "ActorCritic", "training_frequency": 10}, []
    for scale in (1.0, 0.25):
        spec = changed(PPO, algorithm=algorithm | {"val_loss_coef": scale})
        torch.manual_seed(0)
        losses.append(learner_of(spec).iterate(1, lambda *_: None).losses["Loss / Value loss"])
    assert losses[1] == pytest.approx(0.25 * losses[0])


def test_dueling_values_are_the_states_plus_advantages_over_their_mean():
    layer = Dueling(1, 3)
    with torch.no_grad():
        layer.value.weight.fill_(2.0)
        layer.value.bias.fill_(1.0)
        layer.advantages.weight.copy_(torch.tensor([[1.0], [2.0], [6.0]]))
        layer.advantages.bias.zero_()
    # Of 1: a value of 3, and advantages 1, 2 and 6, whose mean is 3.
    assert layer(torch.ones(1, 1)).tolist() == [[1.0, 2.0, 6.0]]
    network = trained(changed(DQN, net={"type": "DuelingMLPNet"})).agent.q_network.net
    assert isinstance(network[-1], Dueling)


def test_a_memory_of_images_keeps_bytes_and_gives_the_same_numbers():
    learner = trained(changed(DQN, net=CONV, env=SEEN))
    memory = learner.agent.memory
    assert memory.tensors["observations"].dtype == torch.uint8
    memory = QuickMemory(memory_size=2, num_envs=3, device="cpu", has_bytes=True)
    space = learner.agent.observation_space
    memory.create_tensor("observations", size=space, dtype=torch.float32)
    images = torch.arange(3 * 576).view(3, 576).remainder(256).float() / 255.0
    memory.add_samples(observations=images)
    torch.manual_seed(0)
    (drawn,) = memory.sample(["observations"], batch_size=8)[0]
    assert torch.equal(drawn, images[memory.rows])


def test_a_memory_that_does_not_fit_is_one_sentence(monkeypatch: pytest.MonkeyPatch):
    def fail(*_: Any) -> None:
        raise MemoryError

    memory = QuickMemory(memory_size=10**6, num_envs=1, device="cpu", has_bytes=True)
    space = learner_of(changed(DQN, env=SEEN)).agent.observation_space
    monkeypatch.setattr(np, "zeros", fail)
    with pytest.raises(ConfigurationError, match="of 1,000,000 images takes 1 GB"):
        memory.create_tensor("observations", size=space, dtype=torch.float32)


def test_n_steps_of_returns_are_a_rollout_of_n_steps():
    algorithm = {"name": "ActorCritic", "lam": None, "num_step_returns": 5}
    algorithm |= {"training_frequency": 8, "time_horizon": None}
    agent = plan_of(changed(PPO, algorithm=algorithm)).agent
    assert (agent.num_steps_per_env, agent.settings["gae_lambda"]) == (5, 1.0)
    agent = plan_of(changed(PPO, algorithm=algorithm | {"lam": 0.5})).agent
    assert agent.num_steps_per_env == 8


def test_old_names_of_games_are_ales():
    for name in ("PongNoFrameskip-v4", "PongDeterministic-v0", "ALE/Pong-v5"):
        spec = make_spec("mine", changed(DQN, env={"name": name}), origin="a test")
        assert with_heir(spec, {}).env["name"] == "ALE/Pong-v5"


@needs_ale
def test_a_game_is_four_small_grey_frames_and_clipped_rewards():
    spec = changed(PPO, net=CONV | {"shared": True}, env={"name": "ALE/Pong-v5", "num_envs": 2})
    plan = plan_of(spec)
    assert plan.agent.reward_bounds == [-1.0, 1.0]
    learner = trained(spec)
    assert learner.agent.observation_space.shape == (84, 84, 4)


@needs_ale
def test_a_life_is_an_episode_and_the_last_one_ends_the_game():
    env = atari.make_game("ALE/Breakout-v5", life_loss_info=True)
    env.reset(seed=0)
    env.action_space.seed(0)
    left = []
    while len(left) < 6:
        observation, _, terminated, _, _ = env.step(env.action_space.sample())
        if terminated:
            left.append(env.unwrapped.ale.lives())  # type: ignore[attr-defined]
            after, _ = env.reset()
            continues = np.array_equal(after, observation)
            assert continues == (left[-1] > 0)
    assert left == [4, 3, 2, 1, 0, 4]
