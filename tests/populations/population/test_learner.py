"""A population on one process and on two real ranks is the same, and resumes exactly."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import envlab
from envlab.cli import main, play
from envlab.distributed.context import DistributedContext
from envlab.errors import ConfigurationError
from envlab.rsl_rl.play import RslRlPlayer
from envlab.run.packing import pack
from envlab.training.launch import train
from envlab_populations.descent import read as read_lineage
from envlab_populations.population.seats import MemberEnvs
from tests.launcher import TRAIN, run, torchrun
from tests.learner_contract import digests
from tests.run.test_directory import timeless
from tests.trained import TASK, checkpoint_of, manifest_of, metrics_of, only_run

SMALL = [
    *(TASK, "--headless", "--device=cpu", "--num_envs=8", "env.episode_length_s=0.2"),
    *("agent.algorithm.schedule=fixed", "agent.num_steps_per_env=8", "agent.save_interval=1"),
    *("agent.keep_checkpoints=0", "agent.audit_interval=1", "population.interval=2"),
    *("agent.actor.obs_normalization=true", "agent.critic.obs_normalization=true"),
    "population.exploit=0.5",
]
POPULATION = ["--population_size=4", "population.ranges.agent.algorithm.learning_rate=[1e-4,1e-2]"]


def train_in(folder: Path, *arguments: str) -> int:
    """Train in this process and in a folder; return the exit code."""
    folder.mkdir(exist_ok=True)
    with contextlib.chdir(folder), pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")  # as many as a rank has
        return train("rsl_rl", [*SMALL, *arguments])


def members_of(checkpoint: Mapping[str, Any]) -> dict[int, Any]:
    """Return all members of a checkpoint, whatever rank had them, without wall times."""
    members = {}
    for part in checkpoint["ranks"]:
        episodes = iter(part["episodes"]["parts"].values())
        for index, one in part["learner"]["members"].items():
            del one["metrics"]["wall_s"]
            parts = {"env": part["env"]["by_index"][index], "episodes": next(episodes)}
            members[index] = {**one, **parts}
    return dict(sorted(members.items()))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run directory of two intervals and a half on one process."""
    folder = tmp_path_factory.mktemp("whole")
    assert train_in(folder, *POPULATION, "--max_iterations=5") == 0
    return only_run(folder)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same on two ranks."""
    folder = tmp_path_factory.mktemp("pair")
    words = [*SMALL, *POPULATION, "--distributed", "--max_iterations=5"]
    code, output = run(torchrun(2, TRAIN, *words), folder)
    assert code == 0, output
    return only_run(folder)


@pytest.mark.slow
def test_two_ranks_train_the_population_of_one_process(whole: Path, pair: Path):
    """Members are copied between ranks, and nothing else of a rank reaches another."""
    alone, shared = (checkpoint_of(one, 5) for one in (whole, pair))
    assert digests(members_of(alone)) == digests(members_of(shared))
    assert (whole / "lineage.json").read_text() == (pair / "lineage.json").read_text()
    copies = [
        (one["index"] // 2, one["parent"] // 2)
        for one in json.loads((pair / "lineage.json").read_text())[-1]["members"]
        if one["copied"]
    ]
    assert any(target != source for target, source in copies), "no copy went to another rank"
    assert shared["frames"] == 5 * 4 * 8 * 8


def test_a_population_resumes_within_an_interval_bit_by_bit(whole: Path, tmp_path: Path):
    path = whole / "checkpoints/model_3.pt"
    assert train_in(tmp_path, "--resume", f"--checkpoint={path}", "--max_iterations=5") == 0
    again = only_run(tmp_path)
    ends = [checkpoint_of(one, 5) for one in (again, whole)]
    first, second = ([digests(members_of(one)), digests(one["model"])] for one in ends)
    assert first == second
    assert (again / "lineage.json").read_text() == (whole / "lineage.json").read_text()
    for name in ("00", "03"):
        assert timeless(again / "members" / name) == timeless(whole / "members" / name)[3:]


def test_another_number_of_ranks_continues_with_the_same_members(
    pair: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = pair / "checkpoints/model_5.pt"
    assert train_in(tmp_path, "--resume", f"--checkpoint={path}", "--max_iterations=6") == 0
    assert "environments and generators start fresh" in capsys.readouterr().err
    before, after = checkpoint_of(pair, 5), checkpoint_of(only_run(tmp_path), 6)
    generations = [one["model"]["population"]["generations"] for one in (before, after)]
    assert generations[1][:2] == generations[0]
    frames = [one["metrics"]["frames"] for one in members_of(after).values()]
    assert frames == [6 * 8 * 8] * 4
    (record,) = metrics_of(only_run(tmp_path))
    assert record["frames"] == 6 * 4 * 8 * 8


def test_members_have_folders_that_are_read_as_runs_are(whole: Path, capsys):
    folders = sorted((whole / "members").iterdir())
    assert [folder.name for folder in folders] == ["00", "01", "02", "03"]
    assert [record["frames"] for record in metrics_of(folders[2])] == [64, 128, 192, 256, 320]
    assert list(folders[2].glob("events.out.tfevents.*"))
    assert main(["compare", str(whole / "members"), "--by=member", "--no_plot"]) == 0
    output = capsys.readouterr().out
    assert "member=3" in output
    assert "status" not in output  # only reported for unfinished runs


def test_lineage_has_the_copies_of_better_members(whole: Path):
    assert len(read_lineage(whole)) == 2
    first, second = json.loads((whole / "lineage.json").read_text())
    assert {one["parent"] for one in first["members"]} == {None}
    copied = [one for one in second["members"] if one["copied"]]
    assert len(copied) == 2
    for one in copied:
        parent = first["members"][one["parent"]]
        ratio = one["hyperparameters"]["learning_rate"] / parent["hyperparameters"]["learning_rate"]
        assert round(ratio, 6) in (0.8, 1.2)
        worse = first["members"][one["index"]]
        assert worse["fitness"] < parent["fitness"]


def test_the_leader_plays(whole: Path, monkeypatch: pytest.MonkeyPatch):
    played: list[Any] = []
    stock = RslRlPlayer.__init__

    def noted(player: Any, session: Any, env: Any, context: Any, values: Any) -> None:
        played.append(values["model"])
        stock(player, session, env, context, values)

    monkeypatch.setattr(RslRlPlayer, "__init__", noted)
    words = [TASK, "--device=cpu", "--num_envs=2", f"--load_run={whole}", "--checkpoint=latest"]
    assert play("rsl_rl", [*words, "--no_export"]) == 0
    last = checkpoint_of(whole, 5)
    leader = members_of(last)[last["model"]["population"]["leader"]]
    assert digests(played[0]) == digests(leader["model"])


def test_a_population_is_published_as_its_leader(whole: Path, tmp_path: Path):
    pack(whole, "latest", tmp_path, "checkpoints/model_5.pt")
    last = checkpoint_of(whole, 5)
    leader = digests(members_of(last)[last["model"]["population"]["leader"]]["model"])
    found = digests(checkpoint_of(tmp_path, 5)["model"])
    networks = {name: one for name, one in leader.items() if "optimizer" not in name}
    assert networks
    assert {name: found[name] for name in networks} == networks
    policy = envlab.load_policy(tmp_path, num_envs=2, device="cpu")
    assert policy(policy.env.reset(seed=3)[0]).shape == (2, 1)


def test_the_best_checkpoint_is_that_of_the_best_leader(whole: Path):
    returns = [record["details"]["leader_return"] for record in metrics_of(whole)]
    best = max(range(5), key=lambda place: (returns[place], place)) + 1
    bests = [checkpoint_of(whole, n)["metrics"]["best_return"] for n in range(1, 6)]
    assert bests[-1] == max(returns)
    assert (whole / "checkpoints/best.pt").samefile(whole / f"checkpoints/model_{best}.pt")
    assert manifest_of(whole)["global_num_envs"] == 32


def test_another_population_is_refused_on_resume(whole: Path, tmp_path: Path, capsys):
    path = f"--checkpoint={whole / 'checkpoints/latest.pt'}"
    for word, message in (
        ("--population_size=2", "of a population of 4, but --population_size is 2"),
        (
            "+population.ranges.agent.algorithm.gamma=[0.9,0.99]",
            "members differ in agent.algorithm.learning_rate, but",
        ),
    ):
        assert train_in(tmp_path, "--resume", path, "--max_iterations=9", word) == 2
        assert message in capsys.readouterr().err, word
    assert not list(tmp_path.glob("logs/*"))


def test_members_that_ranks_cannot_share_are_refused():
    context = DistributedContext(rank=0, world_size=2)
    with pytest.raises(ConfigurationError, match=r"cannot share equally.* such as 4"):
        MemberEnvs(3, context, lambda _: None)


@pytest.mark.long
def test_a_dry_run_counts_all_members(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert train_in(tmp_path, *POPULATION, "--max_iterations=5", "--dry_run") == 0
    plan = capsys.readouterr().out
    assert "# params/population.yaml" in plan
    assert re.search(r"members +4, of which each process trains 4", plan)
    assert "256 frames" in plan
    assert not list(tmp_path.glob("logs/*"))
