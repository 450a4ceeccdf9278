"""Trials of real sessions: their files, how they resume, and how they end when one dies."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from envlab.cli import main
from envlab.config import load_yaml
from envlab.errors import ConfigurationError
from envlab.run.records import METRICS
from envlab.training.launch import train
from envlab_populations.hogwild.learner import GRADIENT_STEPS
from envlab_populations.hogwild.session import check_learned
from tests.launcher import ROOT, Launch, run
from tests.learner_contract import timeless_digests
from tests.run.test_directory import timeless
from tests.trained import checkpoint_of, manifest_of, metrics_of, metrics_so_far, only_run

pytestmark = pytest.mark.slow
DEADLINE_S = 240.0
"""Each session imports all it needs separately, on machines with other work."""
SCRIPT = ROOT / "scripts/run_lab.py"
SPEC: dict[str, Any] = yaml.safe_load("""
agent:
  algorithm: {name: SoftActorCritic, training_frequency: 8, training_iter: 1,
    training_start_step: 64}
  memory: {name: Replay, batch_size: 16, max_size: 2000}
  net: {hid_layers: [16], optim_spec: {name: GlobalAdam, lr: 1.0e-3}}
env: {name: Isaac-Cartpole-v0, num_envs: 8, max_frame: 8000}
meta: {distributed: shared, max_session: 2, log_frequency: 400}
""")


def lab(folder: Path, mode: str, *flags: str) -> list[str | Path]:
    """Return the command that runs the spec of these tests."""
    (folder / "spec.json").write_text(json.dumps({"small": SPEC}))
    return [sys.executable, SCRIPT, "spec.json", "small", mode, *flags]


def left_in_shared_memory(directory: Path) -> list[str]:
    """Return segments that torch made for a trial; those of others on this machine are theirs."""
    pids = {manifest_of(path.parent)["pid"] for path in directory.rglob("run.json")}
    names = [name.split("_") for name in os.listdir("/dev/shm") if name.startswith("torch_")]
    return ["_".join(words) for words in names if words[1] in map(str, pids)]


@dataclass
class FinishedTrial:
    """A trial of two sessions that share parameters."""

    folder: Path
    output: str

    @property
    def directory(self) -> Path:
        return only_run(self.folder)

    @property
    def sessions(self) -> list[Path]:
        return [self.directory / "sessions" / str(number) for number in range(2)]


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> FinishedTrial:
    folder = tmp_path_factory.mktemp("trial")
    code, output = run(lab(folder, "train"), folder, DEADLINE_S)
    assert code == 0, output
    return FinishedTrial(folder, output)


@dataclass
class KilledTrial:
    """The same trial, killed before it wrote its last records, and resumed.

    Then session 1 was killed.
    """

    directory: Path
    code: int
    output: str
    pid: int
    left: dict[int, int | None]


@pytest.fixture(scope="module")
def killed(trial: FinishedTrial, tmp_path_factory: pytest.TempPathFactory) -> KilledTrial:
    folder = tmp_path_factory.mktemp("killed") / "copy"
    shutil.copytree(trial.folder, folder, symlinks=True)
    directory = only_run(folder)
    sessions = [directory / "sessions" / str(number) for number in range(2)]
    lines = (directory / METRICS).read_text().splitlines(keepends=True)
    (directory / METRICS).write_text("".join(lines[:-3]) + lines[-3][:40])
    launch = Launch(lab(folder, "train@latest", "-s", "env.max_frame=1e7"), folder)
    try:
        for session in sessions:
            launch.wait_until(lambda one=session: len(metrics_so_far(one)) > 12, DEADLINE_S)
        launch.wait_until(lambda: len(metrics_so_far(directory)) > 11, DEADLINE_S)
        pid = manifest_of(sessions[1])["pid"]
        os.kill(pid, signal.SIGKILL)
        code, left = launch.wait(DEADLINE_S), launch.left()
    finally:
        launch.close()
    return KilledTrial(directory, code, launch.output, pid, left)


def critic_steps(session: Path) -> float:
    """Return the steps that the shared optimizer of the critics has taken."""
    checkpoint = torch.load(session / "checkpoints" / "latest.pt", weights_only=True)
    state = checkpoint["model"]["modules"]["agent"]["critic_optimizer"]["state"]
    return float(state[0]["step"])


def test_frames_are_counted_over_sessions_which_differ_and_step_one_optimizer(trial: FinishedTrial):
    manifest, records = manifest_of(trial.directory), metrics_of(trial.directory)
    assert manifest["status"] == "finished"
    assert (manifest["sessions"], manifest["max_frame"]) == (2, 8000)
    assert manifest["reproducible"] is False
    assert [record["frames"] for record in records] == [800 * one for one in range(1, 11)]
    for session in trial.sessions:
        own = [record["frames"] for record in metrics_of(session)]
        assert own == [400 * one for one in range(1, 11)]
    for record, first, second in zip(records, *map(metrics_of, trial.sessions), strict=True):
        assert record["wall_s"] == max(first["wall_s"], second["wall_s"])
        assert record["fps"] == first["fps"] + second["fps"]
        for name, loss in record["losses"].items():
            assert loss == statistics.fmean(one["losses"][name] for one in (first, second))
    # Updates begin after 64 frames of 8 environments, and are one a step: 492 of each session.
    steps = max(critic_steps(session) for session in trial.sessions)
    assert 0.99 * 2 * 492 <= steps <= 2 * 492
    assert records[-1]["details"] == {GRADIENT_STEPS: 492}
    assert [manifest_of(session)["seed"] for session in trial.sessions] == [0, 1000]
    ends = [checkpoint_of(session, 10) for session in trial.sessions]
    memories = [end["ranks"][0]["learner"]["memories"]["memory"] for end in ends]
    assert not torch.equal(*(memory["tensors"]["observations"] for memory in memories))
    assert left_in_shared_memory(trial.directory) == []


@pytest.mark.long
def test_a_trial_resumes_with_networks_replay_and_counters(trial, killed):
    records = metrics_of(killed.directory)
    assert [record["frames"] for record in records[:12]] == [800 * one for one in range(1, 13)]
    assert [record["iteration"] for record in records] == list(range(1, len(records) + 1))
    assert timeless(killed.directory)[:10] == timeless(trial.directory)
    session = killed.directory / "sessions" / "0"
    checkpoint = torch.load(session / "checkpoints" / "latest.pt", weights_only=True)
    memory = checkpoint["ranks"][0]["learner"]["memories"]["memory"]
    # 50 steps an iteration into a memory of 250.
    assert memory["filled"]
    assert memory["index"] == 50 * checkpoint["iteration"] % 250
    own = 50 * checkpoint["iteration"] - 8  # its own steps since the beginning
    assert critic_steps(session) >= 0.99 * (2 * 492 + own - 492)


def test_a_trial_has_graphs_points_and_figures(trial: FinishedTrial):
    for name in ("trial_graph_mean_returns_vs_frames", "trial_graph_mean_returns_ma_vs_frames"):
        assert (trial.directory / f"{name}.png").stat().st_size > 5000
    figures = json.loads((trial.directory / "trial_metrics.json").read_text())
    assert {"strength", "sample_efficiency", "stability", "consistency"} <= figures.keys()
    kept = json.loads((trial.folder / "logs/hogwild/random_baselines.json").read_text())
    assert kept == {"Isaac-Cartpole-v0": figures["random_baseline"]}
    assert trial.output.count("A random policy returns") == 1
    lines = (trial.directory / "sessions/1/session_df_train.csv").read_text().splitlines()
    frame, global_frame, *_ = lines[-1].split(",")
    assert (int(frame), int(global_frame)) == (4000, 8000)


@pytest.mark.long
def test_other_commands_work_on_a_trial(trial: FinishedTrial, capsys, monkeypatch):
    monkeypatch.chdir(trial.folder)
    assert main(["compare", "logs/hogwild", "--no_plot"]) == 0
    assert "8,000" in (table := capsys.readouterr().out), table
    assert main(["lab", "plot", str(trial.directory)]) == 0
    assert "trial_graph_mean_returns_ma_vs_frames.png" in capsys.readouterr().out
    place = f"enjoy@{trial.directory}"
    assert main(["lab", "run", "spec.json", "small", place]) == 0
    assert "Mean return" in capsys.readouterr().out
    assert (trial.directory / "exported" / "policy.pt").is_file()
    assert main(["lab", "run", "spec.json", "small", "train@latest"]) == 2
    assert "has done its 10 iterations" in capsys.readouterr().err
    spec = load_yaml(trial.directory / "params" / "spec.yaml")
    assert spec["small"]["meta"] == SPEC["meta"]


@pytest.mark.long
def test_a_killed_session_is_named_and_the_others_save_and_end(killed: KilledTrial):
    assert killed.code == 70, killed.output
    sentence = f"Session 1 (pid {killed.pid}) was ended by SIGKILL."
    assert f"error: {sentence}\n" in killed.output
    assert "Traceback" not in killed.output
    assert manifest_of(killed.directory)["status"] == "failed"
    assert sentence in manifest_of(killed.directory)["error"]
    assert manifest_of(killed.directory / "sessions" / "0")["status"] == "preempted"
    assert killed.left == {}
    assert left_in_shared_memory(killed.directory) == []


@pytest.mark.long
def test_a_session_that_hangs_is_named_and_the_others_may_continue(tmp_path: Path):
    flags = ("--timeout_s=2", "--on_session_failure=continue", "-s", "env.max_frame=8e4")
    launch = Launch(lab(tmp_path, "train", *flags), tmp_path)
    try:
        begun = "logs/*/*/*/sessions/1/metrics.jsonl"
        launch.wait_until(lambda: [*tmp_path.glob(begun)], DEADLINE_S)
        session = only_run(tmp_path) / "sessions" / "1"
        launch.wait_until(lambda: metrics_so_far(session), DEADLINE_S)
        os.kill(manifest_of(session)["pid"], signal.SIGSTOP)
        code = launch.wait(DEADLINE_S)
    finally:
        launch.close()
    assert code == 70, launch.output
    assert "Session 1" in launch.output
    assert "made no progress for" in launch.output
    assert manifest_of(session.with_name("0"))["status"] == "finished"


OWN = {
    "sac": ["--num_envs=8", "agent.update_interval=2"],
    "ppo by whole episodes": [
        *("--num_envs=1", "--algorithm=ppo", "agent.num_steps_per_env=75"),
        *("agent.num_episodes=2", "agent.imitation.num_batches=1"),
    ],
}


@pytest.mark.parametrize(
    "own", ["sac", pytest.param("ppo by whole episodes", marks=pytest.mark.long)]
)
def test_an_independent_session_resumes_bit_for_bit(tmp_path: Path, own: str):
    flags = ["--task=Isaac-Cartpole-v0", "--device=cpu", "--max_iterations=4", *OWN[own]]
    flags += ["agent.save_interval=2", "agent.keep_checkpoints=0"]
    resume = ["--resume", f"--checkpoint={tmp_path}/whole/latest/checkpoints/model_2.pt"]
    runs = []
    for name, more in (("whole", []), ("resumed", resume)):
        folder = tmp_path / name
        folder.mkdir()
        with contextlib.chdir(folder):
            assert train("hogwild", [*flags, *more]) == 0
        runs.append(only_run(folder))
        (folder / "latest").symlink_to(runs[-1])
    whole, resumed = (timeless_digests(checkpoint_of(run, 4)) for run in runs)
    assert whole == resumed
    assert timeless(runs[1]) == timeless(runs[0])[2:]


def test_dev_names_parameters_that_did_not_learn_or_are_no_numbers():
    before = {"optimizer 0": torch.zeros(2), "optimizer 1": torch.zeros(2)}
    check_learned(before, {name: values + 1.0 for name, values in before.items()})
    with pytest.raises(ConfigurationError, match="not changed these parameters: optimizer 1"):
        check_learned(before, {**before, "optimizer 0": torch.ones(2)})
    with pytest.raises(ConfigurationError, match="not numbers: optimizer 1"):
        check_learned(
            before, {"optimizer 0": torch.ones(2), "optimizer 1": before["optimizer 1"] / 0}
        )
