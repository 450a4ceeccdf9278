"""Settings of SLM-Lab's specs have the effect of its sources, and train."""

from __future__ import annotations

import functools
import itertools
from copy import deepcopy
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
import yaml
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector
from torch import nn
from torch.utils._pytree import tree_leaves

from envlab.distributed.context import DistributedContext
from envlab.state import restore, save
from envlab.training.preparation import prepare
from envlab_populations.hogwild.learner import HogwildLearner, build
from envlab_populations.hogwild.rewards import RewardNormaliser
from envlab_populations.hogwild.session import check_learned, plan_session, trained_values
from envlab_populations.hogwild.sharing import Shared
from envlab_populations.hogwild.spec import make_spec
from envlab_populations.hogwild.translation import Plan, make_plan
from envlab_populations.hogwild.value_clip import clipped_losses

DQN: dict[str, Any] = yaml.safe_load("""
agent:
  algorithm: {name: DQN, action_policy: epsilon_greedy, gamma: 0.9, training_frequency: 4,
    training_start_step: 16, explore_var_spec: {name: no_decay, start_val: 1.0}}
  memory: {name: Replay, batch_size: 8, max_size: 1000}
  net: {hid_layers: [8], hid_layers_activation: tanh, update_type: replace, update_frequency: 8}
env: {name: CartPole-v1, num_envs: 2, max_frame: 100}
meta: {log_frequency: 50}
""")
PPO: dict[str, Any] = yaml.safe_load("""
agent:
  algorithm: {name: PPO, gamma: 0.9, lam: 0.9, time_horizon: 10}
  memory: {name: OnPolicyBatchReplay}
  net: {hid_layers: [8], hid_layers_activation: tanh}
env: {name: CartPole-v1, num_envs: 5, max_frame: 100}
meta: {log_frequency: 50}
""")


def changed(spec: dict[str, Any], **parts: dict[str, Any]) -> dict[str, Any]:
    """Return a spec with other values of ``algorithm``, ``memory``, ``net`` or ``env``."""
    result = deepcopy(spec)
    for part, values in parts.items():
        (result[part] if part in result else result["agent"][part]).update(values)
    return result


def plan_of(spec: dict[str, Any]) -> Plan:
    return make_plan(make_spec("mine", spec, origin="a test"))


def learner_of(spec: dict[str, Any]) -> HogwildLearner:
    plan = plan_session(plan_of(spec), device="cpu")
    context = DistributedContext(device=torch.device("cpu"))
    learner = prepare(plan, context, build).learner
    learner.start(plan.agent_cfg.max_iterations)
    return learner


def trained(spec: dict[str, Any]) -> HogwildLearner:
    """Return a learner after a hundred frames, which have changed all that it trains."""
    learner = learner_of(spec)
    before = trained_values(learner)
    for number in range(1, learner.session_cfg.max_iterations + 1):
        learner.iterate(number, lambda *_: None)
    check_learned(before, trained_values(learner))
    return learner


def restored(spec: dict[str, Any], learner: HogwildLearner) -> HogwildLearner:
    """Return another learner, with what a checkpoint holds of this one."""
    other = learner_of(spec)
    other.load_models({"model": learner.model_state()})
    restore(other, save(learner), torch.device("cpu"))
    return other


def arc(*layers: Any, **graph: Any) -> dict[str, Any]:
    return {
        "type": "TorchArcNet",
        "arc": {
            "modules": {"body": {"Sequential": list(layers)}},
            "graph": {"input": "x", "modules": {"body": ["x"]}, "output": "body"} | graph,
        },
    }


def test_an_architecture_is_torchs_layers_in_their_order():
    first, second = ({"LazyLinear": {"out_features": size}} for size in (6, 3))
    norm = {"LayerNorm": {"normalized_shape": [6]}}
    layers = ({"Flatten": None}, first, norm, {"SiLU": None}, second, "Tanh")
    network = trained(changed(DQN, net=arc(*layers))).agent.q_network.net
    expected = [nn.Linear, nn.LayerNorm, nn.SiLU, nn.Linear, nn.Tanh, nn.Linear]
    assert [type(layer) for layer in network] == expected
    shapes = [tuple(one.weight.shape) for one in network if hasattr(one, "weight")]
    assert shapes == [(6, 4), (6,), (3, 6), (2, 3)]  # CartPole has 4 observations, 2 actions
    network = trained(changed(PPO, net={"layer_norm": True})).agent.policy.net
    assert [type(layer) for layer in network] == [nn.Linear, nn.LayerNorm, nn.Tanh, nn.Linear]


def test_modules_of_a_chain_come_in_the_graphs_order():
    net = arc()
    net["arc"] = {
        "modules": {"last": {"Tanh": None}, "first": {"LazyLinear": {"out_features": 5}}},
        "graph": {"input": "x", "modules": {"last": ["first"], "first": ["x"]}, "output": "last"},
    }
    assert plan_of(changed(PPO, net=net)).agent.net.layers == [5, "tanh"]


@pytest.mark.parametrize("name", ["PPO", "ActorCritic"])
def test_actor_and_critic_learn_at_rates_of_their_own(name: str):
    same = {"name": "RMSprop", "alpha": 0.9, "eps": 0.01}
    net = {"actor_optim_spec": same | {"lr": 0.001}, "critic_optim_spec": same | {"lr": 0.003}}
    algorithm = {"name": name, "training_frequency": 10}
    agent = trained(changed(PPO, algorithm=algorithm, net=net)).agent
    groups = agent.optimizer.param_groups
    for group, model, lr in zip(groups, (agent.policy, agent.value), (0.001, 0.003), strict=True):
        assert [id(one) for one in group["params"]] == [id(one) for one in model.parameters()]
        assert (group["lr"], group["alpha"], group["eps"]) == (lr, 0.9, 0.01)


@pytest.mark.parametrize("name", ["AdamW", "RAdam"])
def test_an_optimizers_settings_are_torchs(name: str):
    given = {"name": name, "lr": 0.01, "betas": [0.5, 0.9], "eps": 1e-4, "weight_decay": 0.1}
    optimizer = trained(changed(DQN, net={"optim_spec": given})).agent.optimizer
    assert type(optimizer) is getattr(torch.optim, name)
    group = optimizer.param_groups[0]
    assert tuple(group["betas"]) == (0.5, 0.9)
    assert (group["lr"], group["eps"], group["weight_decay"]) == (0.01, 1e-4, 0.1)


def test_learning_rates_follow_the_frames_of_a_session():
    for scheduler, second in (
        # Iterations of 50 frames begin after 0, 50 and 100.
        ({"name": "LinearToZero"}, 0.25),
        ({"name": "LinearToZero", "frame": 200}, 0.375),
        ({"name": "LinearToZero", "frame": 50}, 0.0),
        ({"name": "LinearToMin", "frame": 60, "min_factor": 0.1}, 0.5 / 6),
        ({"name": "LinearToMin", "frame": 50, "min_factor": 0.1}, 0.05),
        ({"name": "StepLR", "step_size": 25, "gamma": 0.5}, 0.125),
        ({"name": "MultiStepLR", "milestones": [20, 30, 60], "gamma": 0.2}, 0.02),
    ):
        net = {"lr_scheduler_spec": scheduler, "optim_spec": {"lr": 0.5}}
        learner = learner_of(changed(DQN, net=net))
        found = []
        for number in (1, 2):
            learner.iterate(number, lambda *_: None)
            found.append(learner.learning_rate())
        assert found == pytest.approx([0.5, second]), scheduler


class Scripted(gymnasium.Env[Any, Any]):
    """The given rewards and ends, repeated forever."""

    observation_space = spaces.Box(-1, 1, (1,))
    action_space = spaces.Discrete(2)

    def __init__(self, steps: list[tuple[float, bool, bool]]) -> None:
        self._steps = itertools.cycle(steps)

    def reset(self, **_: Any) -> Any:
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(1, np.float32), *next(self._steps), {}


def test_rewards_are_normalised_as_by_gymnasium():
    steps = [
        [(1.0, False, False), (5.0, False, False), (-2.0, True, False)],
        [(0.5, False, False), (90.0, False, True), (3.0, False, False), (2.0, True, True)],
    ]
    makers = [functools.partial(Scripted, one) for one in steps]
    made = SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
    env = vector.ClipReward(vector.NormalizeReward(made, gamma=0.9), -1.5, 1.5)
    env.reset()
    normaliser = RewardNormaliser(2, 0.9, [-1.5, 1.5], normalises=True)
    for number in range(20):
        own = [one[number % len(one)] for one in steps]
        rewards, terminated, truncated = (
            torch.tensor([one[column] for one in own]).unsqueeze(1) for column in range(3)
        )
        expected = env.step(np.zeros(2, np.int64))[1]
        found = normaliser(rewards, terminated, truncated)
        np.testing.assert_allclose(found.squeeze(1).numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("spec", [DQN, PPO], ids=["DQN", "PPO"])
def test_an_agent_learns_from_normalised_rewards(spec: dict[str, Any]):
    spec = changed(spec, env={"normalize_reward": True, "clip_reward": 0.25})
    learner = trained(spec)
    # CartPole's rewards are 1, and its returns of 10 steps or so deviate by more than 1.
    memory = learner.agent.memory
    newest = memory.get_tensor_by_name("rewards")[memory.memory_index - 1]
    assert newest.tolist() == [[0.25]] * len(newest)
    both = (learner, restored(spec, learner))
    own, theirs = (dict(one.agent.reward_normaliser.named_buffers()) for one in both)
    assert float(own["returns"].abs().sum()) > 0.0
    for name, values in own.items():
        assert torch.equal(values, theirs[name])


def test_rewards_and_observations_are_clipped_at_ten_by_default():
    plan = plan_of(changed(PPO, env={"normalize_reward": True, "normalize_obs": True}))
    assert (plan.agent.normalize_rewards, plan.agent.reward_bounds) == (True, [-10.0, 10.0])
    agent = learner_of(changed(PPO, env={"normalize_obs": True, "clip_reward": [-1, 2]})).agent
    assert agent.checkpoint_modules["observation_preprocessor"].clip_threshold == 10.0
    assert agent.reward_normaliser(torch.tensor([[9.0]]), *[torch.tensor([[False]])] * 2) == 2.0


def linear_decay(start: float, end: Any, first: int, last: int) -> dict[str, Any]:
    """Return a spec's variable, which goes from one value to another."""
    steps = {"start_step": first, "end_step": last}
    return {"name": "linear_decay", "start_val": start, "end_val": end, **steps}


def boltzmann(start: float, end: Any) -> dict[str, Any]:
    policy = {"action_policy": "boltzmann", "action_pdtype": "Categorical"}
    return policy | {"explore_var_spec": linear_decay(start, end, 0, 100)}


@pytest.mark.parametrize("name", ["DQN", "SARSA"])
def test_boltzmann_draws_actions_by_their_values_over_the_temperature(name: str):
    memory = {"name": "OnPolicyBatchReplay"} if name == "SARSA" else {}
    spec = changed(DQN, algorithm={"name": name, **boltzmann(2.0, 0.5)}, memory=memory)
    agent = trained(spec).agent
    last = agent.q_network.net[-1]
    with torch.no_grad():
        last.weight.zero_()
        last.bias.copy_(torch.tensor([0.0, 1.0]))
    torch.manual_seed(0)
    # The share of the second action is 1 / (1 + exp(-1 / temperature)); frames are twice the steps.
    for timestep, share in ((0, 0.6225), (25, 0.6900), (50, 0.8808)):
        actions, _ = agent.act(torch.zeros(20_000, 4), None, timestep=timestep, timesteps=50)
        assert actions.shape == (20_000, 1)
        assert float(actions.float().mean()) == pytest.approx(share, abs=0.012)


def test_boltzmann_with_argmax_takes_the_best_action_always(caplog: pytest.LogCaptureFixture):
    spec = changed(DQN, algorithm=boltzmann(5.0, 1.0) | {"action_pdtype": "Argmax"})
    agent = learner_of(spec).agent
    seen = torch.rand(500, 4)
    best = agent.q_network.net(seen).argmax(1, keepdim=True)
    actions, _ = agent.act(seen, None, timestep=100, timesteps=1000)
    assert torch.equal(actions, best)
    assert "always takes the best action" in caplog.text


def test_clipped_values_move_no_further_than_the_policy():
    """Old values are 1, returns 2: a value of 1.5 counts as 1.2, and 0.9 as it is."""
    algorithm = {"minibatch_size": 25, "training_epoch": 2}
    plain, clipped = (
        changed(PPO, algorithm=algorithm | {"clip_vloss": on}) for on in (False, True)
    )
    agent = trained(clipped).agent
    returns = torch.full((2, 1), 2.0)
    agent.old = [(torch.zeros(2, 1), torch.zeros(2, 1)), (returns, torch.ones(2, 1))]
    found = clipped_losses([agent])(None).mse_loss(returns, torch.tensor([[1.5], [0.9]]))
    assert found.item() == pytest.approx(0.5 * (0.8**2 + 1.1**2) / 2)
    weights = [trained(spec).agent.value.net[0].weight for spec in (plain, clipped)]
    assert not torch.equal(*weights)  # of the same seed: updates take this loss


@pytest.mark.parametrize("name", ["PPO", "ActorCritic", "SoftActorCritic"])
def test_critics_can_have_an_architecture_of_their_own(name: str):
    nets = {"actor_arc": arc({"LazyLinear": {"out_features": 6}}, "Tanh")["arc"]}
    nets["critic_arc"] = arc({"LazyLinear": {"out_features": 9}}, "SiLU")["arc"]
    spec = changed(PPO if name != "SoftActorCritic" else DQN, algorithm={"name": name})
    spec["agent"]["net"] = {"type": "TorchArcNet", **nets}
    models = trained(spec).agent.models
    critic = models["value"] if "value" in models else models["critic_1"]
    assert (models["policy"].net[0].out_features, critic.net[0].out_features) == (6, 9)


def test_vanilla_dqn_bootstraps_from_the_network_itself():
    spec = changed(DQN, algorithm={"name": "VanillaDQN", "training_iter": 3})
    del spec["agent"]["net"]["update_type"], spec["agent"]["net"]["update_frequency"]
    agent = trained(spec).agent
    pairs = zip(agent.q_network.parameters(), agent.target_q_network.parameters(), strict=True)
    assert all(torch.equal(own, target) for own, target in pairs)


@pytest.mark.parametrize("task", ["CartPole-v1", "Pendulum-v1"])
def test_a_random_agent_acts_at_random_and_learns_nothing(task: str):
    spec = changed(DQN, env={"name": task})
    spec["agent"] = {"algorithm": {"name": "Random"}, "memory": {"name": "OnPolicyReplay"}}
    learner = trained(spec)
    iteration = learner.iterate(3, lambda *_: None)
    assert (iteration.losses, iteration.learning_rate) == ({}, 0.0)
    actions = learner.agent.act(None, None, timestep=0, timesteps=1)[0]
    assert len(actions) == 2
    drawn = torch.cat([learner.agent.act(None, None)[0] for _ in range(500)])
    least, most = (0.0, 1.0) if task == "CartPole-v1" else (-2.0, 2.0)
    assert float(drawn.min()) == pytest.approx(least, abs=0.02)
    assert float(drawn.max()) == pytest.approx(most, abs=0.02)


def test_a_checkpoint_holds_copies_of_tensors_that_sessions_keep_changing():
    learner = learner_of(PPO)
    learner.shared = Shared.of(learner.agent, "adam")
    learner.shared.join(learner.agent, synced=False)
    tensors = [leaf for leaf in tree_leaves(learner.model_state()) if torch.is_tensor(leaf)]
    assert tensors
    assert not any(tensor.is_shared() for tensor in tensors)
