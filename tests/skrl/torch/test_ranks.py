"""The parts of skrl on PyTorch that are corrected, one by one, on one process."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from gymnasium.spaces import Box

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.errors import ConfigurationError
from envlab.registry import get_task, load_agent_values
from envlab.skrl.cfg import SkrlCfg
from envlab.skrl.checks import check_clipping
from envlab.skrl.env import Spaces, final_values
from envlab.skrl.torch.learner import TorchLearner, make_learner
from envlab.skrl.torch.ranks import PooledScaler, RunningStandardScaler
from tests.skrl.jobs import step_to_a_time_limit
from tests.small_runs import env_of

CARTPOLE = "Isaac-Cartpole-v0"
DISCRETE = "Isaac-Cartpole-Showcase-Box-Discrete-Direct-v0"
PENDULUM = "Isaac-Cart-Double-Pendulum-Direct-v0"
SCALER = "RunningStandardScaler"
ALONE = DistributedContext.single("cpu")
PLAIN = {"policy": {"class": "GaussianMixin"}}
"""A policy of skrl's own, whose actions need no bounds."""


def learner_of(algorithm: str = "ppo", task_id: str = CARTPOLE, **agent: Any) -> TorchLearner:
    """Return a learner on four environments."""
    key = "skrl" if algorithm == "ppo" else f"skrl_{algorithm}"
    values = load_agent_values(get_task(task_id), key) or {}
    cfg = SkrlCfg.of(algorithm).with_task_values(values)
    cfg = merge(cfg, {"agent": agent}, "agent").resolved()
    env = env_of(task_id)
    torch.manual_seed(0)
    return make_learner(env, cfg, ALONE)


def test_the_return_of_an_episode_holds_no_bootstrap():
    step, _ = step_to_a_time_limit(learner_of(time_limit_bootstrap=True))
    assert torch.equal(step.returns[[0, 2]], step.rewards[[0, 2], 0])
    assert not torch.equal(step.returns[[1, 3]], step.rewards[[1, 3], 0])  # agents write into it


def test_a_replay_memory_holds_the_final_observation():
    learner = learner_of("sac")
    step, observations = step_to_a_time_limit(learner)
    recorded = learner.agent.memory.get_tensor_by_name("next_observations")[0]
    assert torch.equal(recorded, step.final_observations)
    assert not torch.equal(recorded[1], step.observations[1])
    assert torch.equal(learner.agent.memory.get_tensor_by_name("observations")[0], observations)


def test_every_agent_gets_its_own_final_observation_and_the_shared_state():
    step, _ = step_to_a_time_limit(learner_of("mappo", PENDULUM))
    final, states = step.final_observations, step.final_states
    assert [tuple(final[name].shape) for name in ("cart", "pendulum")] == [(4, 4), (4, 3)]
    joined = torch.cat([final["cart"], final["pendulum"]], dim=1)
    assert torch.equal(states["cart"], joined)
    assert torch.equal(states["pendulum"], joined)
    assert not torch.equal(final["cart"][1], step.observations["cart"][1])
    total = torch.stack([values.squeeze(1) for values in step.rewards.values()]).sum(dim=0)
    torch.testing.assert_close(step.returns, total)


def test_final_values_are_taken_where_episodes_ended_only():
    obs = {"policy": torch.zeros(3, 2)}
    info = {
        "final_obs": {"policy": torch.ones(3, 2)},
        "_final_obs": torch.tensor([False, True, False]),
    }
    assert final_values(obs, info)["policy"].tolist() == [[0, 0], [1, 1], [0, 0]]
    assert final_values(obs, {})["policy"] is obs["policy"]


def test_random_actions_are_new_in_every_step_and_known_from_the_seed():
    learner = learner_of("dqn", DISCRETE)
    network, inputs = learner.agent.q_network, {"observations": torch.zeros(64, 4)}
    torch.manual_seed(3)
    first, second = (network.random_act(inputs)[0] for _ in range(2))
    torch.manual_seed(3)
    assert torch.equal(network.random_act(inputs)[0], first)
    assert not torch.equal(first, second)
    assert set(first.flatten().tolist()) == {0, 1, 2}
    stock = type(network).random_act  # skrl's own: the same again and again
    assert torch.equal(stock(network, inputs)[0], stock(network, inputs)[0])


def test_several_agents_keep_the_arguments_of_their_scalers():
    kwargs = {"epsilon": 1e-8, "clip_threshold": 2.0}
    learner = learner_of("mappo", PENDULUM, observation_preprocessor_kwargs=kwargs)
    # private: skrl keeps its scalers in it
    scalers = [learner.agent._observation_preprocessor[name] for name in ("cart", "pendulum")]
    assert [scaler.clip_threshold for scaler in scalers] == [2.0, 2.0]
    assert [len(scaler.running_mean) for scaler in scalers] == [4, 3]


def test_several_agents_need_no_scheduler():
    settings = {"learning_rate_scheduler": None, "learning_rate": 1e-3, "mini_batches": 2}
    assert learner_of("ippo", PENDULUM, **settings).learning_rate() == 1e-3


def test_a_scaler_alone_is_skrls():
    for shape in [(64, 3), (8, 8, 3)]:
        values = torch.randn(shape, generator=torch.Generator().manual_seed(0))
        ours = PooledScaler.of(ALONE)(3)
        stock = RunningStandardScaler(3)
        torch.testing.assert_close(ours(values, train=True), stock(values, train=True))


def test_a_scaler_of_two_ranks_is_skrls_on_the_samples_of_both():
    class TwoRanks:
        """Sums the values of this rank and another one; both begin with mean 0."""

        is_distributed = True

        def sum(self, values: torch.Tensor) -> torch.Tensor:
            rows = theirs.double()
            sums = (rows.sum(dim=0), rows.square().sum(dim=0), torch.tensor([7.0]))
            return values + torch.cat(sums)

    mine, theirs = torch.randn(5, 2), torch.randn(7, 2) + 3.0
    pooled = PooledScaler.of(TwoRanks())(2)  # type: ignore[arg-type]
    stock = RunningStandardScaler(2)
    pooled(mine, train=True)
    stock(torch.cat([mine, theirs]), train=True)
    for name, values in stock.named_buffers():
        torch.testing.assert_close(pooled.get_buffer(name), values, rtol=1e-6, atol=1e-6)


def means_of(algorithm: str) -> torch.Tensor:
    """Return the mean actions of an untrained policy for one observation, asked for 100 times."""
    env = env_of(CARTPOLE, num_envs=100)
    agent = make_learner(env, SkrlCfg.of(algorithm).with_task_values({}).resolved(), ALONE).agent
    inputs = {"observations": torch.ones(100, 4), "alpha": 0.5}
    with torch.no_grad():
        _, outputs = agent.policy.act(inputs, role="policy")
        values, _ = agent.value.act(inputs, role="value")
    env.close()
    assert len(values.unique()) == 1  # the critic sees no noise
    return outputs["mean_actions"]


def test_rpo_perturbs_its_mean_actions_which_skrls_networks_alone_do_not():
    means = means_of("rpo")
    assert len(means.unique()) == 100
    assert 0.8 < float(means.max() - means.min()) <= 1.0
    assert len(means_of("ppo").unique()) == 1


def network_of(text: str) -> dict[str, Any]:
    """Return settings of a policy that reads this."""
    return {"network": [{"name": "net", "input": text, "layers": [8]}]}


def test_settings_that_cannot_train_are_one_sentence():
    for algorithm, task, values, message in [
        ("ppo", CARTPOLE, {"agent": {"mini_batches": 65}}, "only 64 samples"),
        ("ppo", CARTPOLE, {"memory": {"memory_size": 8}}, "agent.agent.rollouts = 16"),
        ("ppo", CARTPOLE, {"memory": {"class": "SharedMemory"}}, "only 'RandomMemory'"),
        ("sac", CARTPOLE, {"memory": {"memory_size": -1}}, "longer than a rollout"),
        ("sac", CARTPOLE, {"agent": {"random_timesteps": 5}, "models": PLAIN}, "no bounds"),
        ("ppo", CARTPOLE, {"models": {"policy": {"clip_actions": True}}}, "no bounds to clip to"),
        ("ppo", CARTPOLE, {"models": {"policy": {"clip_mean_actions": True}}}, "Set it to false"),
        ("ppo", CARTPOLE, {"models": {"value": {"clip_actions": True}}}, "gives values"),
        ("mappo", PENDULUM, {"models": {"policy": {"clip_actions": True}}}, "no bounds to clip to"),
        ("sac", DISCRETE, {}, "SAC needs actions of a Box space"),
        ("dqn", CARTPOLE, {}, "DQN needs actions of a Discrete space"),
        ("a2c", DISCRETE, {}, "Use CategoricalMixin"),
        ("amp", CARTPOLE, {}, "collect_reference_motions"),
        (
            "ppo",
            CARTPOLE,
            {"agent": {"state_preprocessor": SCALER}},
            "observations for a critic alone",
        ),
        ("ppo", CARTPOLE, {"models": {"policy": network_of("STATES")}}, "Write OBSERVATIONS"),
        (
            "ppo",
            CARTPOLE,
            {"models": {"policy": network_of("OBS")}},
            "input is 'OBS', but may only",
        ),
    ]:
        cfg = merge(SkrlCfg.of(algorithm).with_task_values({}), values, "agent").resolved()
        env = env_of(task)
        with pytest.raises(ConfigurationError, match=message):
            make_learner(env, cfg, ALONE)
        env.close()


def test_actions_are_clipped_where_there_is_a_bound():
    for high in [1.0, float("inf")]:
        cfg = merge(SkrlCfg(), {"models": {"policy": {"clip_actions": True}}}, "agent")
        spaces = Spaces(Box(-1.0, 1.0, (3,)), None, Box(-1.0, high, (2,)))
        check_clipping(cfg, SimpleNamespace(spaces={"agent": spaces}))  # type: ignore[arg-type]
