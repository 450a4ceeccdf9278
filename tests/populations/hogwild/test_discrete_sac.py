"""SAC of discrete actions has the paper's values and losses."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from envlab_populations.hogwild.sharing import Shared
from tests.populations.hogwild.test_prioritized import PRIORITIZED
from tests.populations.hogwild.test_slm_lab import DQN, changed, learner_of, restored, trained

SAC = changed(
    DQN,
    algorithm={"name": "SoftActorCritic"},
    net={"update_type": "polyak", "update_frequency": 1, "clip_grad_val": 0.5},
)


def filled(module: Any, *outputs: float) -> None:
    """Have a network give the same outputs whatever it sees."""
    with torch.no_grad():
        for layer in module.net:
            if hasattr(layer, "weight"):
                layer.weight.zero_()
        module.net[-1].bias.copy_(torch.tensor(outputs))


def test_all_of_it_learns_a_checkpoint_holds_it_and_sessions_share_it():
    learner = trained(SAC)
    names = {"policy", "critic_1", "critic_2", "target_critic_1", "target_critic_2"}
    assert names < learner.agent.checkpoint_modules.keys()
    other = restored(SAC, learner)
    assert other.agent.alpha.item() == learner.agent.alpha.item() != 1.0
    for name in names:
        ours, theirs = (one.agent.models[name].state_dict() for one in (learner, other))
        assert all(torch.equal(ours[key], theirs[key]) for key in ours)
    shared = Shared.of(learner.agent, "adam")
    assert set(shared.parameters) == {"policy_optimizer", "critic_optimizer"}


def test_a_states_value_is_an_expectation_over_actions():
    agent = learner_of(SAC).agent
    filled(agent.policy, 0.0, math.log(3.0))  # probabilities of a quarter and three quarters
    filled(agent.targets[0], 1.0, 2.0)
    filled(agent.targets[1], 3.0, 6.0)
    with torch.no_grad():
        agent.log_entropy_coefficient.fill_(math.log(0.5))
    values = agent.soft_values({"observations": torch.zeros(1, 4)})
    # The critics' means are 2 and 4.
    expected = 0.25 * (2 - 0.5 * math.log(0.25)) + 0.75 * (4 - 0.5 * math.log(0.75))
    assert values.item() == pytest.approx(expected)


def test_the_temperature_rises_where_the_entropy_is_below_its_target():
    for log_odds in (0.0, 5.0):
        agent = learner_of(SAC).agent
        filled(agent.policy, 0.0, log_odds)
        inputs = {"observations": torch.zeros(1, 4)}
        probs = torch.tensor([0.0, log_odds]).softmax(0)
        entropy = float(-(probs * probs.log()).sum())
        values = torch.tensor([[1.0, 2.0]])
        agent.learn_policy(inputs, values)
        found = {tag: values[-1] for tag, values in agent.tracking_data.items()}
        assert found["Policy / Entropy"] == pytest.approx(entropy, abs=1e-6)
        expected = float((probs * (probs.log() - values[0])).sum())
        assert found["Loss / Policy loss"] == pytest.approx(expected, abs=1e-5)
        assert (agent.alpha.item() > 1.0) == (entropy < 0.6 * math.log(2.0))


def test_targets_of_critics_stop_at_a_terminal_state():
    agent = learner_of(SAC).agent
    seen: list[torch.Tensor] = []
    agent.learn_values = lambda inputs, actions, targets: seen.append(targets) or torch.zeros(2, 2)
    agent.soft_values = lambda inputs: torch.tensor([[10.0], [20.0]])
    batch = [torch.zeros(2, 4), None, torch.zeros(2, 1), torch.tensor([[1.0], [2.0]])]
    batch += [torch.zeros(2, 4), None, torch.tensor([[False], [True]])]
    agent.memory.sample = lambda *_, **__: [batch]
    agent.cfg.gradient_steps = 1
    agent.update(timestep=0, timesteps=1)
    assert seen[0].flatten().tolist() == [1.0 + 0.9 * 10.0, 2.0]


def test_it_learns_by_priorities():
    learner = trained(changed(SAC, memory=PRIORITIZED))
    memory = learner.agent.memory
    assert float(memory.tensors_view["priorities"][: len(memory)].median()) < 5.0
