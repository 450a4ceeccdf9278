"""Agents that learn at a program's command: results, inheritance and files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from tensordict import TensorDict
from torch.nn import functional

from envlab.errors import CheckpointError
from envlab_populations.agilerl.agent import CQN, DQN, PPO, TD3
from envlab_populations.agilerl.memory import ReplayBuffer, Transition
from envlab_populations.agilerl.rollouts import collect_rollouts
from envlab_populations.agilerl.selection import Mutations, RSNorm, TournamentSelection
from envlab_populations.agilerl.settings import HyperparameterConfig, RLParameter
from envlab_populations.agilerl.training import train_off_policy, train_offline, train_on_policy
from tests.refusals import check_refusals

OBS, CHOICES = spaces.Box(-1.0, 1.0, (3,), np.float32), spaces.Discrete(2)
REALS = spaces.Box(-2.0, 2.0, (2,), np.float32)
NET = {"latent_dim": 16, "encoder_config": {"hidden_size": [16]}}


class Bandit:
    """Four environments in which the second choice is worth 1; episodes have eight steps."""

    num_envs = 4

    def __init__(self) -> None:
        self.time, self.actions = 0, []

    def reset(self) -> tuple[np.ndarray, dict[str, Any]]:
        return np.full((4, 3), 0.5, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[Any, ...]:
        self.time += 1
        self.actions.append(np.array(action))
        is_over = np.full(4, self.time % 8 == 0)
        worth = (action if action.ndim == 1 else action[:, 0]).astype(float)
        return self.reset()[0], worth, is_over, np.zeros(4, bool), {}


def made(kind: Any, **numbers: Any) -> Any:
    actions = REALS if kind is TD3 else CHOICES
    return kind(OBS, actions, net_config=NET, num_envs=4, **numbers)


def batch(actions: Any = CHOICES) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    draw = lambda *shape: torch.rand(*shape, generator=generator)  # noqa: E731
    action = torch.randint(2, (32, 1), generator=generator)
    return {
        "obs": draw(32, 3),
        "action": action if actions is CHOICES else draw(32, 2),
        "reward": draw(32, 1),
        "next_obs": draw(32, 3),
        "done": draw(32, 1) < 0.3,
    }


@pytest.mark.parametrize(("kind", "double"), [(DQN, False), (DQN, True), (CQN, True)])
def test_a_gradient_step_is_on_the_batch_that_the_program_hands_over(kind: Any, double: bool):
    agent, given = made(kind, double=double, gamma=0.9), batch()
    with torch.no_grad():
        for parameter in agent.agent.target_q_network.parameters():
            parameter.mul_(0.7)
        q, target = agent.agent.q_network.net, agent.agent.target_q_network.net
        judge = q if double else target
        best = judge(given["next_obs"]).argmax(1, keepdim=True)
        wanted = given["reward"] + 0.9 * ~given["done"] * target(given["next_obs"]).gather(1, best)
        values = q(given["obs"])
        loss = functional.mse_loss(values.gather(1, given["action"]), wanted)
        if kind is CQN:
            loss = values.logsumexp(1).mean() - values.mean() + 0.5 * loss
    assert agent.learn(given) == pytest.approx(float(loss), rel=1e-5)
    assert agent.learn(tuple(given.values())) < float(loss)


def test_td3_learns_its_policy_every_other_time():
    agent, given = made(TD3, policy_freq=2, lr_actor=1e-2), batch(REALS)
    before = agent.agent.policy.net.output.weight.clone()
    policy_loss, _ = agent.learn(given)
    assert policy_loss is None
    assert torch.equal(agent.agent.policy.net.output.weight, before)
    policy_loss, _ = agent.learn(given)
    assert policy_loss is not None
    assert not torch.equal(agent.agent.policy.net.output.weight, before)
    noisy, plain = agent.get_action(given["obs"]), agent.get_action(given["obs"], training=False)
    assert noisy.shape == plain.shape == (32, 2)
    assert not np.array_equal(noisy, plain)
    assert np.abs(noisy).max() <= 2.0


def test_illegal_choices_are_never_made():
    agent = made(DQN)
    obs, mask = np.random.default_rng(0).random((500, 3)), np.tile([0, 1], (500, 1))
    agent.agent.q_network.net.output.bias.data.copy_(torch.tensor([9.0, 0.0]))
    assert set(agent.get_action(obs)) == {0}
    assert set(agent.get_action(obs, 1.0)) == {0, 1}
    for epsilon in (0.0, 1.0):
        assert set(agent.get_action(obs, epsilon, action_mask=mask)) == {1}


def test_ppo_learns_which_choice_is_better():
    agent, env, last = made(PPO, lr=1e-2, learn_step=64, batch_size=32), Bandit(), {}
    for _ in range(15):
        scores, obs, done, running, info = collect_rollouts(agent, env, **last)
        last = {"last_obs": obs, "last_done": done, "last_scores": running, "last_info": info}
        assert len(agent.rollout_buffer) == 16
        assert len(scores) == 8
        agent.learn()
    assert len(collect_rollouts(agent, env, None, obs, done, running, info)[0]) == 8
    agent.learn()
    actions, log_prob, entropy, value = agent.get_action(np.full((200, 3), 0.5))
    assert actions.mean() > 0.9
    assert log_prob.shape == entropy.shape == value.shape == (200,)
    assert agent.test(Bandit(), loop=1) == 8.0
    # An end is a state without a future: after the eighth step comes nothing.
    assert agent.agent.memory.tensors["terminated"][:, 0, 0].nonzero().flatten().tolist() == [7, 15]


def test_lists_by_step_are_taken_with_ends_where_they_belong():
    """Before 2.9, a program noted whether the state *before* a step began an episode."""
    agent = made(PPO, batch_size=4)
    ends, rows = [False, True, False], [np.ones(4)] * 3
    obs = [np.full((4, 3), 0.1 * i) for i in range(3)]
    lists = (obs, [np.zeros(4, int)] * 3, rows, rows, [np.full(4, e) for e in ends], rows, obs[0])
    for last, wanted in (((), ends), ((np.full(4, True),), [True, False, True])):
        agent.take_lists((*lists, *last))
        assert [bool(step["done"][0]) for step in agent.rollout_buffer.steps] == wanted
    assert np.isfinite(agent.learn(lists))


def test_images_are_turned_and_bytes_scaled():
    space = spaces.Box(0, 255, (3, 12, 10), np.uint8)
    config = {"encoder_config": {"channel_size": [16], "kernel_size": [3], "stride_size": [2]}}
    agent = DQN(space, CHOICES, net_config=config)
    image = np.random.default_rng(0).integers(0, 256, (2, 3, 12, 10), dtype=np.uint8)
    seen = agent.seeing(image, torch.device("cpu")).reshape(2, 12, 10, 3)
    assert seen[1, 5, 4, 2] == pytest.approx(image[1, 2, 5, 4] / 255)
    assert agent.get_action(image[0]).shape == (1,)


def test_children_share_no_tensor_and_numbers_stay_between_their_bounds():
    bounds = {"lr": RLParameter(min=9e-4, max=1.1e-3), "ent_coef": RLParameter(min=0.1, max=1)}
    config = HyperparameterConfig(**bounds)
    pop = PPO.population(3, OBS, CHOICES, net_config=NET, hp_config=config, lr=1e-3, ent_coef=0.5)
    for place, agent in enumerate(pop):
        agent.fitness.append(float(place))
    best, children, places = TournamentSelection(2, True, 3, rand_seed=0).select(pop)
    assert (best.index, [child.index for child in children]) == (2, [2, 3, 4])
    assert len(places) == 3
    Mutations(no_mutation=0, architecture=0, parameters=0, rl_hp=1, rand_seed=0).mutation(children)
    for child in children:
        assert 9e-4 <= child.lr <= 1.1e-3
        assert child.lr == child.agent.optimizer.param_groups[0]["lr"]
        assert child.agent.cfg.entropy_loss_scale == pytest.approx(child.ent_coef)
    assert any(child.ent_coef != 0.5 for child in children)
    assert (best.ent_coef, best.mut) == (0.5, "none")  # a program saves it after mutating
    children[0].agent.policy.net.output.weight.data.zero_()
    assert pop[2].agent.policy.net.output.weight.any()


def test_a_program_may_spare_the_elite():
    odds = {"architecture": 0.1, "parameters": 0, "rl_hp": 0, "rand_seed": 0, "mutate_elite": False}
    for kept, first, changes in ((0.9, True, [True, True]), (0, False, [False, True])):
        pop = DQN.population(2, OBS, CHOICES, net_config=NET)
        mutated = Mutations(no_mutation=kept, **odds).mutation(pop, pre_training_mut=first)
        assert [agent.mut != "none" for agent in mutated] == changes  # before training, all do


def test_an_agent_is_read_from_its_file(tmp_path: Path):
    agent = RSNorm(made(TD3, lr_actor=3e-4))
    agent.learn(batch(REALS))
    agent.steps += 7
    agent.save_checkpoint(tmp_path / "deep/one.pt")
    read = TD3.load(tmp_path / "deep/one.pt")
    obs = np.random.default_rng(1).random((5, 3))
    acted = [one.get_action(obs, training=False) for one in (read, agent)]
    assert np.array_equal(*acted)
    assert (read.steps, read.lr_actor, read.observation_space) == (7, 3e-4, OBS)
    assert read.agent.checkpoint_modules["observation_preprocessor"].current_count > 1
    with pytest.raises(CheckpointError, match=r"holds a TD3, not a DQN. Load it by TD3.load"):
        DQN.load(tmp_path / "deep/one.pt")
    (tmp_path / "two.pt").write_bytes(b"no")
    with pytest.raises(CheckpointError, match="holds no agent"):
        TD3.load(tmp_path / "two.pt")


def test_the_loops_train_measure_and_evolve(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    same = {"max_steps": 64, "evo_steps": 32, "eval_steps": 8, "mutation": Mutations(rand_seed=0)}
    same |= {"selection_strategy": TournamentSelection(2, True, 2, rand_seed=0), "init_hp": {}}
    for kind, actions in ((DQN, CHOICES), (TD3, REALS)):
        numbers = {"batch_size": 8, "learn_step": 2, "num_envs": 4}
        pop = kind.population(2, OBS, actions, net_config=NET, **numbers)
        memory, elite = ReplayBuffer(max_size=50), tmp_path / f"{kind.__name__}.pt"
        keeps = {"save_elite": True, "elite_path": str(elite), "wb": False}
        pop, fitness = train_off_policy(Bandit(), "Bandit", "", pop, memory, **same, **keeps)
        assert [int(agent.steps) for agent in pop] == [64, 64]
        assert (len(fitness), len(fitness[0]), memory.counter) == (2, 2, 128)
        kind.load(elite)
    # Two gradient steps after each step of four environments, once there are eight transitions.
    pop = DQN.population(2, OBS, CHOICES, net_config=NET, batch_size=8, learn_step=2)
    memory = ReplayBuffer(max_size=50)
    pop, _ = train_off_policy(Bandit(), "", "", pop, memory, max_steps=32, evo_steps=32)
    states = [agent.member.learner.model_state()["agent"]["counters"] for agent in pop]
    assert [state["_update_counter"] for state in states] == [14, 16]
    pop = PPO.population(2, OBS, CHOICES, net_config=NET, learn_step=16, num_envs=4)
    pop, fitness = train_on_policy(Bandit(), "Bandit", "PPO", pop, **same)
    assert [int(agent.steps) for agent in pop] == [64, 64]
    steps = np.tile(np.arange(40)[:, None] / 64, (1, 3))
    data = {"observations": steps, "actions": np.zeros(40, int)}
    data |= {"rewards": np.ones(40), "terminals": np.zeros(40)}
    memory = ReplayBuffer(max_size=50)
    pop = CQN.population(2, OBS, CHOICES, net_config=NET, batch_size=8)
    same |= {"max_steps": 8, "evo_steps": 4}
    pop, _ = train_offline(Bandit(), "Bandit", data, "CQN", pop, memory, **same)
    assert (memory.counter, [int(agent.steps) for agent in pop]) == (39, [8, 8])
    rows = memory.sample(100)
    assert (rows["next_obs"] - rows["obs"] == 1 / 64).all()


def test_unsuitable_arguments_are_one_sentence():
    check_refusals(
        lambda act: act(),
        [
            (lambda: DQN(spaces.Dict({"a": OBS}), CHOICES), "Observations are Dict"),
            (lambda: DQN((3,), 2, False), "dimensions of AgileRL 0.1 go to initialPopulation"),
            (lambda: DQN(OBS, REALS), "the task's actions are Box"),
            (lambda: PPO(OBS, CHOICES, recurrent=True), "members have no recurrent networks"),
            (lambda: made(DQN).get_action(np.zeros((2, 5))), r"shape \(2, 5\), but the agent was"),
            (lambda: made(PPO).learn(), "Collect a rollout before"),
            (lambda: made(PPO).get_action(np.zeros(3), action_mask=[1, 0]), "which PPO here does"),
            (lambda: ReplayBuffer(max_size=4).sample(2), "is empty"),
            (lambda: ReplayBuffer(max_size=4).add({"obs": 1}), "lacks action; it has obs"),
            (lambda: ReplayBuffer(), "must be a number of transitions"),
            (lambda: train_off_policy(None, "", "", [made(DQN)], None, n_step=True), "n_step=True"),
            (lambda: train_off_policy(None, "", "", [made(PPO)], None), "Train it by train_on_pol"),
        ],
    )


def test_a_memory_keeps_the_newest_and_copies_its_input():
    memory, obs = ReplayBuffer(action_dim=2, memory_size=4, field_names=[]), np.zeros((3, 2))
    for value in (1.0, 2.0):
        obs[:] = value
        memory.add(Transition(obs, np.arange(3), np.ones(3), obs, np.zeros(3, bool)))
    obs[:] = 9.0
    memory.save2memory(np.full(2, 3.0), 1, 0.5, np.full(2, 4.0), True)
    assert (len(memory), memory.size, memory.counter) == (4, 4, 7)
    rows = memory.sample(400)
    assert set(rows["obs"].flatten().tolist()) == {2.0, 3.0}
    last = rows["obs"][:, 0] == 3.0
    assert set(rows["next_obs"][last].flatten().tolist()) == {4.0}
    assert rows["done"][last].all()
    assert not rows["done"][~last].any()
    assert (rows["action"].dtype, rows["reward"].dtype) == (torch.int64, torch.float32)


def test_a_tensor_dictionary_is_a_transition():
    memory = ReplayBuffer(max_size=4)
    parts = {name: torch.ones(2, 3) for name in ("obs", "next_obs")}
    parts |= {"action": torch.zeros(2), "reward": torch.ones(2), "done": torch.zeros(2)}
    memory.add(TensorDict(parts, batch_size=[2]))
    assert (memory.size, memory.sample(8)["obs"].sum()) == (2, 24.0)


def test_steps_are_a_number_and_a_list():
    agent = SimpleNamespace(steps=made(DQN).steps)
    agent.steps += 5
    agent.steps[-1] += 2
    agent.steps.append(agent.steps[-1])
    assert (int(agent.steps), f"{agent.steps}", [agent.steps]) == (7, "7", [7])
    assert np.less([agent.steps, agent.steps], 8).all()
    assert not np.less([agent.steps], 7).any()
