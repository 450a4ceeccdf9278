"""Behaviour cloning: its data, its gradient on one rank and on two, exact resumes, bad files."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from envlab import cli
from envlab.distributed.context import DistributedContext
from envlab.distributed.seeding import seed_everything
from envlab.envs import VectorEnv
from envlab.errors import ConfigurationError
from envlab_imitation.cfg import PolicyCfg
from envlab_imitation.demonstrations import Demonstrations
from envlab_imitation.policy import Policy
from tests.imitation.files import LENGTHS, NUM_STEPS, TASK, learner_of, write_file
from tests.launcher import ROOT, torchrun
from tests.learner_contract import LearnerContract
from tests.small_runs import check_resumes_exactly, train_in
from tests.trained import Pair, checkpoint_of, launch_pair, metrics_of, only_run

pytest.importorskip("h5py", reason="needs h5py: pip install -e '.[demos]'")

ALONE = DistributedContext.single("cpu")
WORKER = Path(__file__).parent / "worker_pair.py"
LIFT = "Isaac-Lift-Cube-Franka-IK-Abs-v0"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_file(tmp_path_factory.mktemp("file") / "demos.hdf5")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, file: Path) -> Pair:
    folder = tmp_path_factory.mktemp("pair")
    return launch_pair(folder, torchrun(2, WORKER, folder, file), ("bc",))


@pytest.fixture(scope="module")
def single_update(file: Path) -> dict[str, Any]:
    seed_everything(1)
    learner = learner_of(file, ALONE, batch_size=16)
    learner.update()
    named = learner.bare_policy.named_parameters()
    return {"gradients": {name: values.grad for name, values in named}}


class TestTwoRanks(LearnerContract):
    STATE = {"bc": ["policy.obs_mean", "policy.action_std", "optimizer", "demonstrations"]}
    MAIN = "bc"
    AVERAGED = ("pooled",)

    def test_each_rank_has_its_share_of_every_batch(self, pair: Pair):
        counts = [end["rows"] for end in pair.ends["bc"]]
        assert [sum(both) for both in zip(*counts, strict=True)] == [16] * 6
        assert counts[0] != counts[1]  # demonstrations 1, 3, 5 against 2, 4

    def test_statistics_and_digest_are_those_of_one_process(self, pair: Pair, file: Path):
        alone = learner_of(file, ALONE).model_state()
        model = pair.ends["bc"][1]["model"]
        assert model["demonstrations"] == alone["demonstrations"]
        for name in ("obs_mean", "obs_std", "action_mean", "action_std"):
            torch.testing.assert_close(model["policy"][name], alone["policy"][name])

    def test_a_rank_without_a_demonstration_is_refused_on_both(self, pair: Pair):
        for end in pair.ends["bc"]:
            assert re.search("1 demonstrations, of which 1 .* each of 2 processes", end["problem"])


def test_an_epoch_has_every_step_once_in_an_order_of_its_own():
    demonstrations = Demonstrations(
        obs={},
        actions=torch.zeros(20, 1),
        row_of=torch.arange(20),
        num_demonstrations=2,
        digest="",
    )
    epochs = [
        torch.cat([demonstrations.batch(3, 4 * epoch + place, 5) for place in range(4)]).tolist()
        for epoch in range(2)
    ]
    assert [sorted(epoch) for epoch in epochs] == [list(range(20))] * 2
    assert epochs[0] != epochs[1]
    assert demonstrations.batch(3, 2, 5).tolist() == epochs[0][10:15]
    assert demonstrations.batch(4, 2, 5).tolist() != epochs[0][10:15]


def test_a_run_resumes_exactly_in_the_middle_of_an_epoch(file: Path, tmp_path: Path):
    words = [
        *(f"--task={TASK}", f"--dataset={file}", "--device=cpu", "--num_envs=2", "--headless"),
        *("agent.gradient_steps=3", "agent.batch_size=10", "agent.rollout_interval=2"),
        *("agent.save_interval=2", "agent.keep_checkpoints=0", "env.episode_length_s=0.5"),
    ]
    assert (NUM_STEPS // 10) * 2 != 2 * 3  # six batches do not end an epoch of four
    resumed = check_resumes_exactly("bc", tmp_path, *words)
    state = checkpoint_of(resumed, 4)["model"]
    assert state["num_updates"] == 12
    records = metrics_of(only_run(tmp_path / "whole"))
    assert [record["frames"] for record in records] == [0, 30, 30, 60]
    assert records[1]["details"]["success"] in (0.0, 0.5, 1.0)
    assert records[3]["learning_rate"] < 0.2 * records[0]["learning_rate"]


@pytest.mark.long
def test_images_are_recorded_cloned_and_played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    task = ["--task=Isaac-Cartpole-RGB-v0", "--device=cpu", "--num_envs=4", "--seed=1"]
    short = "env.episode_length_s=0.5"
    assert (
        cli.main(["train", "rsl_rl", *task, "--max_iterations=1", "agent.num_steps_per_env=4"]) == 0
    )
    record = ["record", "rsl_rl", *task, "--format=hdf5", "--output=seen.hdf5", "--num_episodes=4"]
    assert cli.main([*record, short]) == 0
    learn = ["agent.succeeded_only=false", "agent.gradient_steps=3", "agent.rollout_interval=2"]
    words = ["train", "bc", *task, "--dataset=seen.hdf5", "--max_iterations=2", *learn, short]
    assert cli.main(words) == 0
    (run,) = (tmp_path / "logs/bc").glob("*/*")
    model = checkpoint_of(run, 2)["model"]["policy"]
    assert any(name.startswith("cnns.policy.") for name in model)
    assert metrics_of(run)[1]["frames"] > 0
    play = ["play", "bc", "--task=Isaac-Cartpole-RGB-v0", "--device=cpu", f"--checkpoint={run}"]
    assert cli.main([*play, "--num_episodes=2", "--no_export", short]) == 0


@pytest.mark.long  # by day, with fewer episodes, by the page's commands
def test_a_scripted_hand_is_recorded_cloned_played_and_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "reach.hdf5"
    flags = [f"--task={TASK}", "--device=cpu", "--seed=1"]
    record = ["record", "scripted", *flags, "--format=hdf5", f"--output={path}"]
    assert cli.main([*record, "--num_envs=12", "--num_episodes=12", "--succeeded_only"]) == 0
    words = [*flags, f"--dataset={path}", "--num_envs=16", "--max_iterations=5"]
    assert train_in("bc", tmp_path, *words, "agent.rollout_interval=5") == 0
    run = only_run(tmp_path)
    assert metrics_of(run)[-1]["details"]["success"] >= 0.8
    assert metrics_of(run)[-1]["losses"]["nll"] < metrics_of(run)[0]["losses"]["nll"] - 1.0
    capsys.readouterr()
    assert cli.main(["play", "bc", *flags, f"--checkpoint={run}", "--num_episodes=8"]) == 0
    printed = capsys.readouterr().out
    assert float(re.search(r"Success rate ([\d.]+)", printed)[1]) >= 0.75
    assert (run / "exported/policy.pt").is_file()


@pytest.mark.parametrize("task", [LIFT, "Isaac-Lift-Cube-Franka-v0"])
def test_the_scripted_hand_lifts_every_cube(
    task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "lift.hdf5"
    record = ["record", "scripted", f"--task={task}", "--device=cpu", "--format=hdf5", "--seed=1"]
    episodes = ["--num_envs=6", "--num_episodes=6"]
    assert cli.main([*record, f"--output={path}", *episodes]) == 0
    import h5py

    with h5py.File(path) as file:
        assert [bool(one.attrs["success"]) for one in file["data"].values()] == [True] * 6


@pytest.mark.long
def test_a_policy_sees_where_something_is_in_an_image_beside_a_vector():
    seed_everything(0)
    places = torch.randint(6, 26, (256, 2))
    image = torch.zeros(256, 32, 32, 1, dtype=torch.uint8)
    for row, column in ((-1, 0), (0, -1), (0, 0), (0, 1), (1, 0)):
        image[torch.arange(256), places[:, 0] + row, places[:, 1] + column] = 255
    vector = torch.randn(256, 3)
    actions = torch.cat((places.float(), vector[:, :1]), dim=1)
    obs = {"camera": image, "policy": vector}
    policy = Policy(obs, 3, PolicyCfg(num_modes=1))
    policy.normalise_by(obs, actions, ALONE)
    optimizer = torch.optim.Adam(policy.parameters(), 3e-3)
    for _ in range(200):
        loss = policy(obs, actions).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert (policy.best(obs) - actions).abs().mean() < 1.0  # of places from 6 to 25
    blind = dict(obs, camera=torch.zeros_like(image))
    assert (policy.best(blind) - actions).abs().mean() > 2.0


def test_the_density_is_that_of_a_mixture_of_gaussians():
    from torch import distributions as d

    seed_everything(0)
    obs, actions = {"policy": torch.randn(4, 5)}, 3.0 + torch.randn(4, 2)
    policy = Policy(obs, 2, PolicyCfg(num_modes=3, min_std=0.1))
    policy.normalise_by(obs, actions, ALONE)
    outputs = policy.mlp((obs["policy"] - policy.obs_mean) / policy.obs_std)  # none beyond 10
    means, widths, logits = outputs.split((6, 6, 3), dim=1)
    widths = torch.nn.functional.softplus(widths).view(4, 3, 2) + 0.1
    parts = d.Independent(d.Normal(means.view(4, 3, 2), widths), 1)
    mixture = d.MixtureSameFamily(d.Categorical(logits=logits), parts)
    wanted = -mixture.log_prob((actions - policy.action_mean) / policy.action_std)
    torch.testing.assert_close(policy(obs, actions), wanted)
    best = parts.mean[torch.arange(4), logits.argmax(dim=1)]
    torch.testing.assert_close(
        policy.best(obs), best * actions.std(0, correction=0) + actions.mean(0)
    )


NUM = sum(LENGTHS)
FLAWS = {
    "another task": ({"task": "Isaac-Lift-Cube-Franka-v0"}, "of the task 'Isaac-Lift-Cube-Fra"),
    "another version": ({"task": TASK.replace("v0", "v1")}, f"of the task '{TASK[:-2]}v1', but"),
    "other actions": ({"actions": np.zeros((NUM, 8))}, r"must have an array of \(9, 7\); it has"),
    "other observations": ({"obs__policy": np.zeros((NUM, 31))}, r"one of \(9, 31\)"),
    "no observations": ({"obs__policy": None}, "has no such array"),
    "text": ({"actions": np.full((NUM, 7), b"x")}, "must be numbers"),
    "not finite": ({"actions": np.full((NUM, 7), np.nan)}, "not finite"),
    "no success": ({"success": None}, "does not say whether demo_0 succeeded"),
    "none succeeded": ({"success": np.zeros(5, dtype=bool)}, "5 demonstrations, of which 0 can"),
}


def test_a_file_that_does_not_fit_is_one_sentence(tmp_path: Path):
    for number, (name, (changed, words)) in enumerate(FLAWS.items()):
        path = write_file(tmp_path / f"{number}.hdf5", **changed)
        with pytest.raises(ConfigurationError, match=words):
            learner_of(path, ALONE)
        assert path.is_file(), name
    path = write_file(tmp_path / "some.hdf5", success=np.array([True, False, True, True, True]))
    assert learner_of(path, ALONE).demonstrations.num_demonstrations == 4
    assert learner_of(path, ALONE, succeeded_only=False).demonstrations.num_demonstrations == 5
    with pytest.raises(ConfigurationError, match=r"agent\.num_demonstrations is 5\. Lower it"):
        learner_of(path, ALONE, num_demonstrations=5)
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(ConfigurationError, match="cannot be read as HDF5"):
        learner_of(path, ALONE)


@pytest.mark.slow
def test_the_page_leads_to_a_cloned_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    page = (ROOT / "docs/demonstrations.md").read_text()
    text = page.partition("From an empty folder to a cloned policy:")[2].partition("\n## ")[0]
    lines = re.findall(r"^    envlab (.*)$", text, re.MULTILINE)
    assert 3 <= len(lines) <= 10
    monkeypatch.chdir(tmp_path)

    pictures: list[np.ndarray] = []

    def small(env: VectorEnv) -> np.ndarray | None:  # 250, in full, take 15 s
        if env.render_mode is None:
            return None
        if len(pictures) < 3:
            pictures.append(env.picture(height=36, width=64))
        return pictures[-1]

    monkeypatch.setattr(VectorEnv, "render", small)
    shorter = {
        "record": ["--num_envs=3", "--num_episodes=3"],
        "train": ["--num_envs=2", "--max_iterations=2", "agent.gradient_steps=5"],
        "play": ["--num_episodes=2", "--no_export"],
    }
    for line in lines:
        words = shlex.split(line)
        device = [] if words[0] == "replay" else ["--device=cpu"]
        short = ["--video_length=5"] if words[0] == "play" and "--video" in words else []
        assert cli.main([*words, *shorter.get(words[0], []), *short, *device]) == 0, line
    assert metrics_of(only_run(tmp_path))[-1]["details"].keys() == {"success"}
