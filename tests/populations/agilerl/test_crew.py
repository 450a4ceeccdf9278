"""MADDPG and MATD3 under a program's control: dictionaries by agent without, rows within."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from envlab_populations.agilerl.crew import MADDPG, MATD3
from envlab_populations.agilerl.generations import Population, run_selection_and_mutation
from envlab_populations.agilerl.memory import ReplayBuffer, Transition
from envlab_populations.agilerl.parallel import (
    AsyncPettingZooVecEnv,
    PettingZooVectorizationParallelWrapper,
)
from envlab_populations.agilerl.selection import Mutations, TournamentSelection, create_population
from envlab_populations.agilerl.training import train_multi_agent_off_policy
from tests.populations.evolution.meeting import Choosing, Meeting
from tests.refusals import check_refusals

SMALL = {"encoder_config": {"hidden_size": [32]}}


def environments(count: int = 4) -> AsyncPettingZooVecEnv:
    return AsyncPettingZooVecEnv([Meeting] * count)


def spaces_of(env: Any) -> list[list[Any]]:
    """Return the spaces of observations and those of actions, in the agents' order."""
    kinds = (env.single_observation_space, env.single_action_space)
    return [[space(name) for name in env.agents] for space in kinds]


def crew(kind: Any = MADDPG, **numbers: Any) -> Any:
    env = environments(1)
    named = {"agent_ids": env.agents, "net_config": SMALL, "batch_size": 32, **numbers}
    return kind(*spaces_of(env), **named)


def filled(env: Any, steps: int = 60) -> ReplayBuffer:
    """Return a memory of random actions and their rewards."""
    memory, rng = ReplayBuffer(max_size=400), np.random.default_rng(3)
    obs, _ = env.reset(seed=1)
    for _ in range(steps):
        action = {name: rng.uniform(-2.0, 2.0, (env.num_envs, 1)) for name in env.agents}
        following, reward, ended, _, _ = env.step(action)
        memory.add(Transition(obs, action, reward, following, ended, batch_size=[env.num_envs]))
        obs = following
    return memory


def shapes_of(parts: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(part.shape) for name, part in parts.items()}


def test_actions_are_by_agent_for_several_environments_and_for_one():
    agent, env = crew(), environments()
    actions, _ = agent.get_action(env.reset()[0])
    assert shapes_of(actions) == {"left": (4, 1), "right": (4, 1)}
    one, _ = Meeting().reset(seed=1)
    assert shapes_of(agent.getAction(one, 0.0)) == {"left": (1,), "right": (1,)}
    assert agent.agent_ids == ["left", "right"]


def test_copies_of_an_environment_and_names_are_those_of_versions_1_and_2_2():
    env, agent = PettingZooVectorizationParallelWrapper(Meeting(), n_envs=3), crew()
    assert [env.observation_space(name).shape for name in env.agents] == [(1,), (2,)]
    states, _ = env.reset(seed=1)
    actions, discrete = agent.get_action(states=states, training=True, infos={})
    assert not agent.discrete_actions
    rewards = env.step(actions)[1]["left"]  # by the place that each copy has shown
    expected = -((actions["left"][:, 0] - states["left"][:, 0]) ** 2)
    np.testing.assert_allclose(rewards, expected, rtol=1e-5)
    assert discrete.keys() == actions.keys()


def test_a_memory_gives_back_each_agents_own():
    batch = filled(environments()).sample(300)
    assert shapes_of(batch["obs"]) == {"left": (300, 1), "right": (300, 2)}
    place, acted = (batch[name]["left"][:, 0] for name in ("obs", "action"))
    torch.testing.assert_close(batch["reward"]["left"][:, 0], -((acted - place) ** 2))
    assert set(batch["obs"]["right"][:, 1].tolist()) == {0.5}


def test_a_crew_learns_each_agents_goal_from_batches():
    agent, env = crew(MATD3, lr_actor=3e-3, lr_critic=1e-2, gamma=0.0), environments()
    memory = filled(env)
    before = agent.test(Meeting(), loop=20)
    for _ in range(300):
        losses = agent.learn(memory.sample(64))
    assert set(losses) == {"left", "right"}
    assert agent.test(env, loop=5) > max(-1.0, before)


def test_a_crew_is_written_and_read(tmp_path: Path):
    agent = crew(MATD3)
    agent.save_checkpoint(tmp_path / "crew.pt")
    read = MATD3.load(tmp_path / "crew.pt")
    obs, _ = environments().reset(seed=2)
    for one in (agent, read):
        one.set_training_mode(False)
    for name, actions in agent.get_action(obs)[0].items():
        np.testing.assert_array_equal(actions, read.get_action(obs)[0][name])
    assert read.agent_ids == agent.agent_ids


def test_a_loop_trains_crews_and_evolves_them():
    env = environments()
    hp = {"BATCH_SIZE": 16, "LEARN_STEP": 4, "AGENT_IDS": env.agents, "POLICY_FREQ": 2}
    pop = create_population("MATD3", *spaces_of(env), SMALL, hp, population_size=2, num_envs=4)
    mutations = Mutations(architecture=1.0, no_mutation=0, parameters=0, rl_hp=0, rand_seed=1)
    named = {"max_steps": 120, "evo_steps": 60, "verbose": False, "mutation": mutations}
    pop, fitness = train_multi_agent_off_policy(
        env, "", "", pop, ReplayBuffer(500), tournament=TournamentSelection(2, True, 2), **named
    )
    assert len(fitness) == 2
    assert all(agent.steps == 120 for agent in pop)
    states = [agent.member.learner.model_state()["agent"]["counters"] for agent in pop]
    assert all(state["_update_counter"] > 0 for state in states)
    assert len({str(agent.member.genes.architecture) for agent in pop}) == 2


def test_a_program_keeps_its_population(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    population = Population([crew(index=0), crew(index=1)])
    for agent in population.agents:
        agent.finalize_training_step(50)
        agent.add_scores([1.0])
        agent.test(Meeting(), loop=1)
    population.report_metrics(clear=True)
    assert capsys.readouterr().out.count("steps 50") == 2
    assert (population.all_below(50), population.all_below(51)) == (False, True)
    following = run_selection_and_mutation(
        TournamentSelection(2, True, 2),
        population=population.agents,
        mutation=Mutations(rand_seed=1),
        save_elite=True,
        elite_path=tmp_path / "elite",
    )
    population.update(following)
    assert population.size == 2
    assert (tmp_path / "elite.pt").exists()


def dimensions(**hp: Any) -> Any:
    """Make crews as programs of 0.1 do."""
    bounds = {"MAX_ACTION": [[2.0], [2.0]], "MIN_ACTION": [[-2.0], [-2.0]]}
    given = bounds | {"AGENT_IDS": ["left", "right"], "DISCRETE_ACTIONS": False} | hp
    return create_population(
        "MADDPG", [(1,), (2,)], [1, 1], False, {"h_size": [32]}, given, population_size=2
    )


def test_dimensions_of_older_programs_become_a_crew():
    first, second = dimensions()
    assert first.crew.observed == {"left": 1, "right": 2}
    assert first.crew.acted == {"left": 1, "right": 1}
    assert (first.index, second.index) == (0, 1)


def left_early() -> None:
    filled(AsyncPettingZooVecEnv([lambda: Meeting(leaves_first=True)]))


def test_unsuitable_arguments_are_one_sentence():
    choosing = AsyncPettingZooVecEnv([Choosing])
    check_refusals(
        lambda act: act(),
        [
            (lambda: dimensions(DISCRETE_ACTIONS=True), "see and act by numbers"),
            (lambda: dimensions(AGENT_IDS=["left"]), "there are 2 observation spaces"),
            (lambda: MADDPG(4, 2), "takes observation_spaces and action_spaces"),
            (lambda: MADDPG(*[[spaces.Discrete(3)]] * 2), "acts by Discrete"),
            (lambda: crew().get_action({"left": np.zeros(1)}), "have no right, but left"),
            (lambda: AsyncPettingZooVecEnv([Meeting()]), "takes a list of functions"),
            (left_early, "has left its environment before the others"),
            (lambda: MADDPG(*spaces_of(choosing)), "continuous_actions=True"),
            (lambda: train_multi_agent_off_policy(None, "", "", [None], None), "trains MADDPG and"),
        ],
    )
