"""Several agents learn as in Lowe et al. (2017) and Ackermann et al. (2019)."""

from __future__ import annotations

import contextlib
import shutil
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

import envlab_populations.crew  # noqa: F401, it registers PettingZoo-v0
from envlab.cli import play
from envlab.training.launch import train
from envlab_populations.population.member import Member
from tests.bait import BAIT, bait
from tests.learner_contract import digests
from tests.populations.evolution.populations import nursery
from tests.trained import checkpoint_of, only_run

__all__ = ["bait"]

MEETING = "tests.populations.evolution.meeting"
TASK = ["--task=gym:envlab_populations.crew:PettingZoo-v0", f"env.kwargs.environment={MEETING}"]
SMALL = [
    *("--headless", "--device=cpu", "--num_envs=8", "--population_size=2", "env.num_workers=0"),
    *("agent.agent.batch_size=64", "agent.population.eval_episodes=2", "agent.save_interval=1"),
]
GAMMA = 0.5


def member_of(algorithm: str, **settings: Any) -> Any:
    torch.manual_seed(0)
    values = {"agent": {"discount_factor": GAMMA, "grad_norm_clip": 0.0, **settings}}
    return Member.first(nursery(algorithm, values=values), 0)


def constant(critic: Any, values: list[float]) -> None:
    """Have each agent's critic give the same value for everything."""
    for net, value in zip(critic.net, values, strict=True):
        torch.nn.init.zeros_(net.output.weight)
        torch.nn.init.constant_(net.output.bias, value)


def batch(rows: int = 6) -> list[Any]:
    """Return random experiences of a crew of two, in which the agents earn 3 and -1."""
    generator = torch.Generator().manual_seed(5)
    obs, following = (torch.randn(rows, 5, generator=generator) for _ in range(2))
    following[:, 0], following[:, 1] = 3.0, -1.0
    actions = torch.rand(rows, 2, generator=generator) * 4.0 - 2.0
    total = torch.full((rows, 1), 2.0)
    return [obs, None, actions, total, following, None, torch.zeros(rows, 1, dtype=torch.bool)]


def test_each_critic_learns_from_its_own_agents_reward():
    """Critics say 1 and 2: targets are 3 + 0.5 * 1 and -1 + 0.5 * 2, or 3 and -1 at an end."""
    for is_end, expected in ((False, 6.25 + 4.0), (True, 4.0 + 9.0)):
        agent = member_of("maddpg").learner.agent
        for critic in (agent.critic, agent.target_critic):
            constant(critic, [1.0, 2.0])
        experiences = batch()
        experiences[-1][:] = is_end
        agent.learn(experiences)
        assert float(agent.tracking_data["Loss / Critic loss"][-1]) == pytest.approx(expected)


def test_the_smaller_of_two_critics_counts():
    """Targets are 3 + 0.5 * 1 and -1 + 0.5 * -4; critics say (1, 2) and (5, -4)."""
    agent = member_of("matd3").learner.agent
    for name, values in (("critic_1", [1.0, 2.0]), ("critic_2", [5.0, -4.0])):
        constant(getattr(agent, name), values)
        constant(getattr(agent, f"target_{name}"), values)
    agent.learn(batch())
    first, second = (1 - 3.5) ** 2 + (2 + 3) ** 2, (5 - 3.5) ** 2 + (-4 + 3) ** 2
    assert float(agent.tracking_data["Loss / Critic loss"][-1]) == pytest.approx(first + second)


def test_an_actor_follows_its_critic_given_the_others_actual_actions():
    """Algorithm 1 of Lowe et al., agent by agent, against the gradient that is taken here."""
    agent = member_of(
        "maddpg", critic_learning_rate=1e-30
    ).learner.agent  # the critic stays as it is
    experiences = batch()
    obs, _, actions, *_ = experiences
    seen, unit, total = {0: obs[:, 2:3], 1: obs[:, 3:5]}, actions / 2.0, 0.0
    for own, net in enumerate(agent.policy.net):
        done = [net(seen[own]).tanh() if i == own else unit[:, i : i + 1] for i in range(2)]
        total = total - agent.critic.net[own](obs[:, 2:], torch.cat(done, 1)).mean()
    expected = torch.autograd.grad(total, list(agent.policy.parameters()))
    agent.learn(experiences)
    found = [p.grad for p in agent.policy.parameters()]
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_matd3s_policy_learns_in_every_second_step_and_targets_with_it():
    agent = member_of("matd3").learner.agent
    watched = [*agent.policy.parameters(), *agent.target_critic_2.parameters()]
    first = [p.detach().clone() for p in watched]
    agent.learn(batch())
    assert all(torch.equal(a, b) for a, b in zip(first, watched, strict=True))
    agent.learn(batch())
    assert not any(torch.equal(a, b) for a, b in zip(first, watched, strict=True))


def test_an_actor_sees_only_its_agents_observation():
    policy = member_of("maddpg").learner.agent.policy
    rows = (torch.zeros(5, 5), torch.eye(5))  # in each, another number is changed
    before, after = (policy.compute({"observations": obs})[0] for obs in rows)
    neither, speaker, listener = [False, False], [True, False], [False, True]
    # Two numbers of what was earned, one of the speaker, and two of the listener.
    assert (before != after).tolist() == [neither, neither, speaker, listener, listener]


def test_rows_hold_each_agents_reward_and_an_agent_that_left_earns_nothing():
    env = gymnasium.make("PettingZoo-v0", environment=MEETING, options={"leaves_first": True})
    row, _ = env.reset(seed=3)
    place = float(row[2])
    assert row.tolist() == pytest.approx([0.0, 0.0, place, place, 0.5])
    row, reward, terminated, truncated, _ = env.step(np.array([1.0, 0.0], np.float32))
    earned = [-((1.0 - place) ** 2), -(place**2)]
    assert row[:2].tolist() == pytest.approx(earned)
    assert reward == pytest.approx(sum(earned))
    assert (terminated, truncated) == (False, False)
    row, reward, *_ = env.step(np.array([1.0, 0.0], np.float32))
    assert row.tolist() == pytest.approx([0.0, -(place**2), 0.0, place, 0.5])
    for _ in range(3):
        row, reward, terminated, truncated, info = env.step(np.array([1.0, 0.0], np.float32))
    assert (terminated, truncated) == (False, True)
    assert info["return_right"] == pytest.approx(-5 * place**2)
    assert info["return_left"] == pytest.approx(earned[0])


def train_in(folder: Path, *words: str) -> int:
    folder.mkdir(exist_ok=True)
    with contextlib.chdir(folder):
        return train("evolution", [*TASK, *SMALL, *words])


WORDS = [
    *("--algorithm=MATD3", "agent.population.generation_iterations=2"),
    *("agent.agent.learning_rate=0.003", "agent.agent.learning_starts=8"),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run directory of two generations."""
    folder = tmp_path_factory.mktemp("crew")
    assert train_in(folder, *WORDS, "--max_iterations=4") == 0
    return only_run(folder)


@pytest.mark.long
def test_a_population_of_crews_learns(run: Path):
    """An episode's best return is 0; two that stay at 0 get -3.3 on average, chance -16.7."""
    members = checkpoint_of(run, 4)["model"]["population"]["generations"][-1]["members"]
    assert max(one["fitness"] for one in members) > -1.0


@pytest.mark.long
def test_a_population_of_crews_resumes_where_it_was(run: Path, tmp_path: Path):
    """Networks, moments, memory and lineage, before the sixth iteration as after the fourth."""
    again = ["--resume", f"--checkpoint={run}/checkpoints/model_4.pt", "--max_iterations=6"]
    assert train_in(tmp_path, *WORDS, "agent.agent.learning_starts=9999", *again) == 0
    before, after = checkpoint_of(run, 4), checkpoint_of(only_run(tmp_path), 5)
    for one in (before, after):
        del one["model"]["population"]["frames"]
    assert digests(before["model"]) == digests(after["model"])
    rows = [one["ranks"][0]["learner"]["nursery.memory"]["index"] for one in (before, after)]
    assert rows[1] == rows[0] + 64 * 2, "both members write the steps of another iteration"


def test_an_environment_of_pettingzoos_takes_numbers_where_it_has_choices():
    pytest.importorskip("mpe2", reason="needs mpe2: pip install -e '.[pettingzoo]'")
    env = gymnasium.make("PettingZoo-v0", environment="pettingzoo.mpe.simple_speaker_listener_v4")
    space = env.observation_space
    assert space.observed == {"speaker_0": 3, "listener_0": 11}
    assert space.acted == {"speaker_0": 3, "listener_0": 5}
    row, _ = env.reset(seed=1)
    assert row.shape == (2 + 3 + 11,)
    for step in range(1, 26):
        row, reward, terminated, truncated, info = env.step(env.action_space.sample())
        assert row[:2].sum() == pytest.approx(reward, rel=1e-5)
        assert (terminated, truncated) == (False, step == 25)
    assert set(info) == {"return_speaker_0", "return_listener_0"}


def test_a_runs_file_names_no_strangers_module(run: Path, bait: None, capsys):
    stranger = shutil.copytree(run, "stranger")
    file = Path(stranger, "params/env.yaml")
    file.write_text(file.read_text().replace(MEETING, BAIT))
    words = [TASK[0], "--algorithm=MATD3", "--load_run=stranger", "--num_envs=2"]
    assert play("evolution", words) == 2
    assert f"names code of {BAIT}, which no task" in capsys.readouterr().err
    assert BAIT not in sys.modules
    play("evolution", [*words, f"--trust={BAIT}"])
    assert BAIT in sys.modules
