"""REINFORCE, SARSA, self-imitation and whole episodes follow their papers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.distributions import Categorical

from envlab_populations.hogwild.cfg import NetCfg
from envlab_populations.hogwild.episodes import EpisodeMemory
from envlab_populations.hogwild.networks import Recurrent
from envlab_populations.hogwild.reinforce import standardised
from envlab_populations.hogwild.returns import discounted_returns, n_step_advantages
from tests.populations.hogwild.test_slm_lab import (
    PPO,
    changed,
    learner_of,
    plan_of,
    restored,
    trained,
)
from tests.trained import bound_of

EPISODES = {"memory": {"name": "OnPolicyReplay"}, "env": {"num_envs": 1, "max_frame": 200}}
REINFORCE = changed(PPO, algorithm={"name": "Reinforce", "training_frequency": 20})
SIL: dict[str, Any] = {"name": "SIL", "training_frequency": 20, "training_iter": 2}
SIL |= {"training_batch_iter": 3, "sil_policy_loss_coef": 2.0, "sil_val_loss_coef": 0.5}
ALWAYS = {"explore_var_spec": {"name": "no_decay", "start_val": 1.0}}
SARSA = changed(PPO, algorithm={"name": "SARSA", "training_frequency": 4, **ALWAYS})


def column(*values: float) -> torch.Tensor:
    return torch.tensor(values).view(-1, 1, 1)


def test_returns_are_discounted_to_the_end_of_an_episode():
    ended = torch.tensor([False, True, False, False]).view(-1, 1, 1)
    returns = discounted_returns(column(1, 2, 4, 8), ended, 0.5)
    assert returns.flatten().tolist() == [2.0, 2.0, 8.0, 8.0]


def test_returns_of_two_steps_end_with_a_value():
    compute = n_step_advantages(2)(lambda **_: (torch.zeros(1), torch.zeros(1)))
    steps = {"rewards": column(1, 2, 4), "values": column(10, 20, 40), "discount_factor": 0.5}
    steps |= {"last_values": torch.tensor([[80.0]]), "truncated": column(0, 0, 0).bool()}
    for ends, expected in (((0, 0, 0), [12.0, 24.0, 44.0]), ((0, 1, 0), [2.0, 2.0, 44.0])):
        returns, advantages = compute(**steps, terminated=column(*ends).bool())
        assert returns.flatten().tolist() == expected
        plain = returns - column(10, 20, 40)
        torch.testing.assert_close(advantages, (plain - plain.mean()) / plain.std())


def test_reinforces_gradient_is_that_of_the_paper_with_standardised_returns():
    learner = trained(REINFORCE)
    agent, memory = learner.agent, learner.agent.memory
    agent.cfg.entropy_loss_scale, agent.cfg.grad_norm_clip = 0.25, 0.0
    steps = {name: memory.get_tensor_by_name(name).clone() for name in memory.tensors}
    logits = agent.policy.net(steps["observations"].flatten(0, 1))
    chosen = Categorical(logits=logits)
    ended = steps["terminated"] | steps["truncated"]
    returns = discounted_returns(steps["rewards"], ended, 0.9).flatten()
    advantages = (returns - returns.mean()) / (returns.std() + 1e-8)
    log_probs = chosen.log_prob(steps["actions"].flatten())
    loss = -(log_probs * advantages).mean() - 0.25 * chosen.entropy().mean()
    expected = torch.autograd.grad(loss, list(agent.policy.parameters()))
    seen: list[torch.Tensor] = []
    agent.optimizer.register_step_pre_hook(
        lambda *_: seen.extend(one.grad.clone() for one in agent.policy.parameters())
    )
    agent.update(timestep=0, timesteps=1)
    torch.testing.assert_close(tuple(seen), expected)
    assert "value" not in agent.models
    assert standardised(torch.tensor([3.0])).tolist() == [3.0]


def test_an_episodes_steps_are_a_rollout_of_any_length():
    memory = EpisodeMemory(memory_size=9, num_envs=1, device="cpu")
    for number in range(5):
        memory.add_samples(rewards=torch.tensor([[float(number)]]), states=None)
    assert memory.get_tensor_by_name("rewards").flatten().tolist() == [0, 1, 2, 3, 4]
    memory.set_tensor_by_name("returns", memory.get_tensor_by_name("rewards") * 10)
    first, second = memory.sample(["rewards", "returns", "states"], batch_size=5, mini_batches=2)
    drawn = torch.cat((first[0], second[0]))
    assert sorted(drawn.flatten().tolist()) == [0, 1, 2, 3, 4]
    assert torch.equal(torch.cat((first[1], second[1])), drawn * 10)
    assert first[2] is None
    memory.clear()
    assert len(memory) == 0


@pytest.mark.parametrize("name", ["ActorCritic", "PPO", "Reinforce", "SIL"])
def test_an_agent_learns_whenever_so_many_episodes_have_ended(name: str):
    algorithm = {"name": name, "training_frequency": 2, "training_iter": 1}
    learner = trained(changed(PPO, algorithm=algorithm, **EPISODES))
    agent = learner.agent
    assert learner.session_cfg.num_episodes == 2
    steps, before = {"PPO": 4, "SIL": 2}.get(name, 1), learner.gradient_steps(200)
    assert before >= 2 * steps
    while learner.gradient_steps(200) == before:  # to the end of an episode
        learner.iterate(10, lambda *_: None)
    assert learner.gradient_steps(200) % steps == 0
    assert agent.num_ended < 2


def test_an_episode_of_one_step_waits_for_the_next_and_n_step_returns_are_read():
    algorithm = {"name": "ActorCritic", "lam": None, "num_step_returns": 3}
    spec = changed(PPO, algorithm=algorithm, **EPISODES)
    settings = plan_of(spec).agent
    assert (settings.num_episodes, settings.num_step_returns) == (1, 3)
    trained(spec)
    learner = learner_of(spec)
    agent = learner.agent
    agent.memory.add_samples(rewards=torch.zeros(1, 1))
    agent.num_ended = 10
    agent.post_interaction(timestep=0, timesteps=1)
    assert (len(agent.memory), learner.gradient_steps(1)) == (1, 0)


def test_sarsas_target_is_the_value_of_the_action_that_was_taken_next():
    learner = trained(SARSA)
    assert learner.gradient_steps(100) == 25  # once from each rollout of four steps
    agent = learner.agent
    memory = agent.memory
    assert memory.tensors["rewards"].shape == (4, 5, 1)
    table = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])

    def values_of(observations: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        return table.gather(1, actions[:, 0].long()).unsqueeze(1) + observations[:, :, :1] * 100

    agent.values_of = values_of
    steps = {
        "observations": torch.zeros(4, 1, 4),
        "next_observations": torch.ones(4, 1, 4),  # values of next states are 100 larger
        "actions": torch.tensor([0, 1, 1, 0]).view(4, 1, 1),
        "rewards": column(10, 20, 30, 40),
        "terminated": torch.tensor([False, False, True, False]).view(4, 1, 1),
        "truncated": torch.tensor([False, True, False, False]).view(4, 1, 1),
    }
    memory.tensors.clear()
    memory.tensors.update(steps)
    seen: list[torch.Tensor] = []
    agent.loss = lambda *pair: seen.extend(pair) or pair[0].sum().requires_grad_()  # type: ignore[func-returns-value]
    agent.update(timestep=0, timesteps=1)
    # Step 0: 10 + 0.9 (100 + 2). Step 1 was cut off, step 2 is terminal, step 3 is the last.
    assert seen[0].tolist() == [1.0, 6.0]
    assert seen[1].tolist() == pytest.approx([10 + 0.9 * 102, 30.0])


@pytest.mark.parametrize("name", ["SIL", "PPOSIL"])
def test_imitation_learns_from_returns_better_than_their_value(name: str):
    algorithm = SIL | {"name": name, "training_epoch": 1}
    learner = trained(changed(PPO, algorithm=algorithm, memory={"max_size": 50}))
    agent = learner.agent
    assert learner.gradient_steps(20) == 2 * (1 + 2 * 3)
    assert 0 < len(agent.imitated) <= 50
    obs, actions = torch.randn(3, 4), torch.tensor([[0.0], [1.0], [1.0]])
    inputs = {"observations": obs}
    with torch.no_grad():
        values = agent.value.act(inputs, role="value")[0]
        log_probs = Categorical(logits=agent.policy.net(obs)).log_prob(actions.flatten())
    better = torch.tensor([[1.0], [-2.0], [3.0]])
    agent.tracking_data.clear()
    agent.imitate(obs, actions, values + better)
    found = {tag: values[-1] for tag, values in agent.tracking_data.items()}
    expected = float(-(log_probs[0] * 1.0 + log_probs[2] * 3.0) / 3.0)
    assert found["Loss / Imitation loss (policy)"] == pytest.approx(expected, rel=1e-4)
    assert found["Loss / Imitation loss (value)"] == pytest.approx(0.5 * (1 + 9) / 3, rel=1e-4)


@pytest.mark.parametrize("scale", [1.0, 0.1])
def test_episodes_are_imitated_by_their_returns(scale: float):
    """Of scaled rewards, as the values that they are compared with."""
    env = {"num_envs": 1} if scale == 1.0 else {"num_envs": 1, "reward_scale": scale}
    spec = changed(PPO, algorithm=SIL, env=env)
    learner = learner_of(spec)
    agent = learner.agent
    for number, reward in enumerate((1.0, 2.0, 4.0)):
        agent.act(torch.zeros(1, 4), None, timestep=0, timesteps=1)
        seen = {"observations": torch.full((1, 4), float(number)), "states": None}
        seen |= {"next_observations": torch.zeros(1, 4), "next_states": None}
        seen |= {"actions": torch.tensor([[1]]), "rewards": torch.tensor([[reward]]), "infos": {}}
        ends = {"terminated": torch.tensor([[number == 2]]), "truncated": torch.tensor([[False]])}
        agent.record_transition(**seen, **ends, timestep=number, timesteps=1)
    returns = agent.imitated.tensors_view["returns"][:3].flatten().tolist()
    wanted = [scale * one for one in (1 + 0.9 * 2 + 0.81 * 4, 2 + 0.9 * 4, 4.0)]
    assert returns == pytest.approx(wanted)
    assert agent.imitated.tensors_view["observations"][:3, 0].tolist() == [0.0, 1.0, 2.0]
    other = restored(spec, learner).agent.imitated
    assert other.tensors_view["returns"][0].item() == pytest.approx(returns[0])


def test_a_recurrent_network_is_layers_and_then_cells_that_see_the_features_several_times():
    cells: dict[Any, Any] = {"gru": nn.GRUCell, "rnn": nn.RNNCell, "lstm": nn.LSTMCell}
    for cell, single in cells.items():
        layer = Recurrent(3, NetCfg(recurrent=cell, recurrent_size=5, sequence_length=4))
        one = single(3, 5)
        one.load_state_dict({key[:-3]: value for key, value in layer.cells.state_dict().items()})
        x, state = torch.randn(2, 3), None
        for _ in range(4):
            state = one(x, state)
        torch.testing.assert_close(layer(x), state[0] if cell == "lstm" else state)
    net = {"type": "RecurrentNet", "fc_hid_layers": [6], "rnn_hidden_size": 7, "seq_len": 3}
    network = trained(changed(PPO, net=net)).agent.policy.net
    kinds = [type(layer).__name__ for layer in network]
    assert kinds == ["Linear", "Tanh", "Recurrent", "Linear"]
    assert network[-1].weight.shape == (2, 7)
    assert network[2].sequence_length == 3


@pytest.mark.parametrize("library", ["hogwild", "evolution"])
def test_actions_are_counted_where_an_algorithm_needs_a_bound(library: str):
    words = (library, "--task=Isaac-Cartpole-v0")
    assert bound_of(*words, "--algorithm=ppo") is None
    bound = bound_of(*words, "--algorithm=sac")
    assert bound is not None
    assert (bound.half_width, bound.setting) == (1.0, "-1 to 1 for SAC")
