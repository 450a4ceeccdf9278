"""A population on two real ranks, and on one: equal where it must be, and exactly resumable."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

import envlab
from envlab.cli import play
from envlab.run.checkpoints import of_leader
from envlab.run.packing import pack
from envlab.training.launch import train
from tests.launcher import run, torchrun
from tests.learner_contract import digests, timeless_digests
from tests.populations.evolution.worker_pair import DISCRETE, SMALL, first_gradient
from tests.run.test_directory import timeless
from tests.trained import checkpoint_of, gradient_error, on_one_thread, only_run

HERE = Path(__file__).parent
ALONE = [word for word in SMALL if word != "--distributed"]
DQN = [
    *(DISCRETE, "--algorithm=dqn"),
    *("agent.population.generation_iterations=2", "agent.save_interval=1"),
]


@dataclass
class Pair:
    """Results of two ranks, and the folder of their runs."""

    folder: Path
    ranks: list[dict[str, Any]]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp("evolution")
    code, output = run(torchrun(2, HERE / "worker_pair.py", folder), folder)
    assert code == 0, output
    return Pair(folder, [torch.load(folder / f"rank{rank}.pt") for rank in range(2)])


def train_in(folder: Path, *arguments: str) -> int:
    """Train a population in this process and in a folder; return the exit code."""
    folder.mkdir(exist_ok=True)
    with contextlib.chdir(folder):
        return train("evolution", [*ALONE, *arguments])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run directory of two generations and a half on one process."""
    folder = tmp_path_factory.mktemp("whole")
    assert train_in(folder, *DQN, "--max_iterations=5") == 0
    return only_run(folder)


def resume(run: Path, iteration: int) -> list[str]:
    return ["--resume", f"--checkpoint={run}/checkpoints/model_{iteration}.pt"]


def test_ranks_hold_the_same_population_after_each_kind_of_mutation(pair: Pair):
    first, second = (rank["dqn"] for rank in pair.ranks)
    assert first["digests"] == second["digests"]
    texts = [" ".join(generation[1:]) for generation in first["mutations"]]
    wanted = ("units", "parameters", "elu", "lr", "none")
    for text, word in zip(texts, wanted, strict=True):
        assert word in text or (word in ("units", "lr", "elu") and "none" not in text)
    # AgileRL's rank 0 pickles the population into a folder that the others must see.
    ours = {"rank0.pt", "rank1.pt", "apart"}
    assert {path.name for path in pair.folder.iterdir() if path.suffix != ".txt"} == ours


def test_skrls_agents_outlive_a_tournament_on_two_ranks(pair: Pair):
    """AgileRL 2.58 loses the attributes of wrapped objects, and 2.9 hangs."""
    for algorithm in ("ppo", "sac"):
        first, second = (rank[algorithm] for rank in pair.ranks)
        assert first["digests"] == second["digests"]
        assert first["mutations"] == second["mutations"] != [["none"] * 4]


def test_crews_are_the_same_on_two_ranks_that_see_different_states(pair: Pair):
    first, second = (rank["maddpg"] for rank in pair.ranks)
    assert first["digests"] == second["digests"]
    assert min(first["updates"]) > 0
    assert first["saw"] != second["saw"]


def test_fitness_is_the_mean_over_all_ranks_episodes_and_frames_are_theirs(pair: Pair):
    """AgileRL's fitness is the measurement of rank 0 alone."""
    first, second = (rank["dqn"] for rank in pair.ranks)
    reported = [one["fitness"] for each in first["generations"] for one in each["members"]]
    for fitness, mine, other in zip(reported, first["played"], second["played"], strict=True):
        assert mine != other, "both ranks played the same episodes"
        assert fitness == pytest.approx(sum([*mine, *other]) / 4, rel=1e-6)
    generations = first["generations"]
    assert [one["frames"] for one in generations] == [2 * 8 * 8 * n for n in range(1, 6)]
    assert {one["frames"] for one in generations[0]["members"]} == {2 * 8 * 8 // 4}


def test_each_rank_draws_from_its_own_memory_and_a_gathered_one_holds_all_steps(pair: Pair):
    """Accelerate's dispatcher gives both ranks the memory of rank 0."""
    for number, rank in enumerate(pair.ranks):
        assert rank["sampled"]["own"].tolist() == [number] * 6
        assert set(rank["sampled"]["prepared"].tolist()) == {0.0}
        assert rank["gathered"]["rewards"].tolist() == pytest.approx([0.1, 0.2, 1.1, 1.2])
        assert rank["gathered"]["actions"].tolist() == [0, 7, 1, 7]


def test_two_ranks_take_the_gradient_of_one_with_the_same_batch(pair: Pair):
    alone = on_one_thread(first_gradient)
    for rank in pair.ranks:
        assert gradient_error(alone, rank["gradient"]) < 1e-5


def test_members_apart_resume_within_a_generation_bit_by_bit(pair: Pair):
    whole, resumed = (only_run(pair.folder / "apart" / name) for name in ("whole", "resumed"))
    first, second = checkpoint_of(whole, 5), checkpoint_of(resumed, 5)
    assert timeless_digests(first) == timeless_digests(second)
    assert timeless(resumed) == timeless(whole)[3:]
    generations = first["model"]["population"]["generations"]
    assert [one["generation"] for one in generations] == [1, 2, 3]  # the third is a short one
    trained = [sorted(rank["learner"]["members"]) for rank in first["ranks"]]
    assert trained == [[0, 1], [2, 3]]


def test_a_population_resumes_within_a_generation_bit_by_bit(whole: Path, tmp_path: Path):
    replay = checkpoint_of(whole, 5)["ranks"][0]["learner"]["nursery.memory"]
    assert replay["tensors"]["observations"].shape == (5 * 8 * 4, 2, 4)  # of all members
    assert train_in(tmp_path, *DQN, *resume(whole, 3), "--max_iterations=5") == 0
    again = only_run(tmp_path)
    assert timeless_digests(checkpoint_of(again, 5)) == timeless_digests(checkpoint_of(whole, 5))
    assert (again / "lineage.json").read_text() == (whole / "lineage.json").read_text()


def test_lineage_records_the_parents_of_members(whole: Path):
    first, second, last = json.loads((whole / "lineage.json").read_text())
    assert [member["index"] for member in first["members"]] == [0, 1, 2, 3]
    assert {member["parent"] for member in first["members"]} == {None}
    assert {member["index"] for member in second["members"]} == {first["elite"], 4, 5, 6}
    children = [member for member in second["members"] if member["copied"]]
    assert len(children) == 3
    assert {member["parent"] for member in children} <= {0, 1, 2, 3}
    assert (first["frames"], second["frames"]) == (2 * 8 * 8, 4 * 8 * 8)
    for record in (first, last):
        scores = {member["index"]: member["fitness"] for member in record["members"]}
        assert scores[record["elite"]] == max(scores.values())
    # The last generation is short: it is measured, so that its fittest plays, and has no children.
    assert (last["generation"], last["frames"]) == (3, 5 * 8 * 8)
    ended = checkpoint_of(whole, 5)["model"]["population"]
    assert ended["members"][ended["leader"]]["index"] == last["elite"]
    assert [one["index"] for one in ended["members"]] == [one["index"] for one in last["members"]]


def test_a_longer_resume_completes_the_short_generation_of_as_many(whole, tmp_path, capsys):
    words = [*resume(whole, 5), "--max_iterations=9", "--population_size=2"]
    assert train_in(tmp_path, *DQN, *words) == 2
    assert "of a population of 4, but --population_size is 2" in capsys.readouterr().err
    assert train_in(tmp_path, *DQN, *resume(whole, 5), "--max_iterations=6") == 0
    lineage = json.loads((only_run(tmp_path) / "lineage.json").read_text())
    assert [record["generation"] for record in lineage] == [1, 2, 3]
    assert lineage[-1]["frames"] == 6 * 8 * 8


@pytest.mark.parametrize("mutates", [False, True])
def test_the_fittest_stays_unchanged_unless_configured_otherwise(tmp_path: Path, mutates: bool):
    """AgileRL also mutates the elite."""
    words = ["agent.mutations.no_mutation=0", f"agent.mutations.mutate_elite={mutates}"]
    assert train_in(tmp_path, *DQN, *words, "--max_iterations=2") == 0
    before, after = (checkpoint_of(only_run(tmp_path), n)["model"]["population"] for n in (1, 2))
    elite = after["generations"][-1]["elite"]
    (stayed,) = [one for one in after["members"] if one["index"] == elite]
    assert (stayed["mutation"] == "none") != mutates
    played = after["kept"] or after["members"][after["leader"]]
    assert (played["index"], played["mutation"]) == (elite, "none")
    assert (after["kept"] is not None) == mutates
    assert {one["mutation"] for one in before["members"]} == {"none"}
    assert "none" not in {one["mutation"] for one in after["members"] if one["copied"]}


def test_without_elitism_all_are_children_and_the_fittest_plays_as_it_was(tmp_path: Path):
    words = ["agent.population.elitism=false", "agent.population.tournament_size=4"]
    assert train_in(tmp_path, *DQN, *words, "--max_iterations=2") == 0
    checkpoint = checkpoint_of(only_run(tmp_path), 2)
    after, played = checkpoint["model"], of_leader(checkpoint)
    state, elite = after["population"], after["population"]["generations"][-1]["elite"]
    assert sorted(one["index"] for one in state["members"] if one["copied"]) == [4, 5, 6, 7]
    assert (state["leader"], state["kept"]["index"]) == (-1, elite)
    assert set(after["networks"]) == {0, 1, 2, 3, -1}
    assert digests(played["model"]) == digests(after["networks"][-1])
    assert digests(played["model"]) != digests(after["networks"][0])
    words = [DISCRETE, "--algorithm=dqn", "--device=cpu", "--num_envs=2", "--no_export"]
    path = f"--checkpoint={only_run(tmp_path) / 'checkpoints/latest.pt'}"
    assert play("evolution", [*words, path, "env.episode_length_s=0.5"]) == 0
    assert (
        train_in(tmp_path / "more", *DQN, *resume(only_run(tmp_path), 2), "--max_iterations=3") == 0
    )


def test_another_strategy_chooses_who_gives_way(tmp_path: Path):
    words = ["agent.population.strategy=truncation", "agent.mutations.no_mutation=0"]
    assert train_in(tmp_path, *DQN, *words, "--max_iterations=2") == 0
    (record,) = json.loads((only_run(tmp_path) / "lineage.json").read_text())
    scores = {member["index"]: member["fitness"] for member in record["members"]}
    members = checkpoint_of(only_run(tmp_path), 2)["model"]["population"]["members"]
    (gone,) = set(scores) - {member["index"] for member in members}
    (child,) = [member for member in members if member["copied"]]
    assert (members.index(child), child["index"]) == (gone, 4)
    assert child["parent"] == record["elite"]
    assert scores[gone] == min(scores.values())
    assert scores[record["elite"]] == max(scores.values())


@pytest.mark.long
def test_the_fittest_plays_and_is_exported(whole: Path, capsys: pytest.CaptureFixture[str]):
    words = [DISCRETE, "--algorithm=dqn", "--device=cpu", "--num_envs=2"]
    path = f"--checkpoint={whole / 'checkpoints/latest.pt'}"
    assert play("evolution", [*words, path, "env.episode_length_s=0.5"]) == 0
    assert "Mean return" in capsys.readouterr().out
    policy = torch.jit.load(str(whole / "exported/policy.pt"))
    assert policy(torch.zeros(3, 4)).shape == (3, 1)


def test_a_population_is_published_as_its_fittest(whole: Path, tmp_path: Path):
    pack(whole, "latest", tmp_path, "checkpoints/model_5.pt")
    last, found = checkpoint_of(whole, 5), checkpoint_of(tmp_path, 5)
    assert "population" not in found["model"]
    state = last["model"]["population"]
    assert found["member"]["index"] == state["members"][state["leader"]]["index"]
    policy = envlab.load_policy(tmp_path, num_envs=2, device="cpu")
    assert policy(policy.env.reset(seed=3)[0]).shape == (2, 1)


def test_training_ends_when_a_member_is_fit_enough(tmp_path: Path):
    words = ["agent.population.target_fitness=-1000", "--max_iterations=9"]
    assert train_in(tmp_path, *DQN, *words) == 0
    checkpoint = torch.load(only_run(tmp_path) / "checkpoints/latest.pt", weights_only=True)
    assert checkpoint["iteration"] == 2


@pytest.mark.long
def test_each_member_makes_as_many_updates_as_one_agent_with_its_environments(tmp_path: Path):
    """Each of four makes four in a step of eight environments, one agent one in a step of two."""
    steady = [DISCRETE, "--algorithm=dqn", "agent.mutations.rl_hp=0"]
    lone = ["--population_size=1", "--num_envs=2", "agent.population.tournament_size=1"]
    for words, count, steps in (([], 2, [(2 * 8 - 2) * 4] * 4), (lone, 8, [8 * 8 - 2])):
        folder = tmp_path / str(count)
        assert train_in(folder, *steady, *words, f"--max_iterations={count}") == 0
        members = checkpoint_of(only_run(folder), count)["model"]["networks"].values()
        optimizers = [member["agent"]["modules"]["agent"]["optimizer"] for member in members]
        assert [int(one["state"][0]["step"]) for one in optimizers] == steps
