"""An experiment with all losses from its first stage to its last, and a resume within a stage."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from envlab.training.launch import train
from tests.navigation.houses import FOLDER
from tests.trained import manifest_of, metrics_of, only_run

EXPERIMENT = f"""
import os

from torch import optim
from torch.optim.lr_scheduler import LambdaLR
from envlab_navigation.ddppo.auxiliary import CpcA, InverseDynamics
from envlab_navigation.ddppo.experiment import ExperimentConfig
from envlab_navigation.ddppo.imitation import A2C, Imitation
from envlab_navigation.ddppo.losses import PPO
from envlab_navigation.ddppo.pipeline import PipelineStage, StageComponent, TrainingPipeline
from envlab_navigation.ddppo.schedules import Builder, LinearDecay


class Stages(ExperimentConfig):
    TASK = "Nav-PointNav-Depth-v0"

    def __init__(self, num_ranks=1):
        self.num_ranks = num_ranks

    def tag(self):
        return "Stages"

    def overrides(self, mode):
        return [
            "env.houses.num_houses=2", "env.houses.cache_dir={FOLDER.name}",
            "env.camera.width=36", "env.camera.height=36", "agent.model.hidden_dim=16",
        ]

    def training_pipeline(self, **kwargs):
        losses = dict(imitation=Imitation(), ppo=PPO(), a2c=A2C(), inverse=InverseDynamics(),
                      cpc=CpcA(planning_steps=3))
        first = PipelineStage(
            loss_names=["imitation", "inverse", "cpc"], loss_weights=[1.0, 0.1, 0.1],
            max_stage_steps=96, teacher_forcing=LinearDecay(steps=64, startp=1.0, endp=0.5))
        second = PipelineStage(
            loss_names=["ppo", "imitation"], max_stage_steps=64, num_mini_batch=2,
            stage_components=[
                StageComponent(uuid="ppo", loss_names=["ppo"], update_repeats=2),
                StageComponent(uuid="imitation", loss_names=["imitation"])],
            early_stopping_criterion=self.has_imitated)
        third = PipelineStage(
            loss_names=["a2c"], max_stage_steps=1000,
            early_stopping_criterion=self.is_enough)
        return TrainingPipeline(
            named_losses=losses, pipeline_stages=[first, second, third],
            num_steps=8, save_interval=128, update_repeats=1,
            optimizer_builder=Builder(optim.Adam, dict(lr=1e-3)),
            lr_scheduler_builder=Builder(LambdaLR, dict(lr_lambda=LinearDecay(steps=320))))

    def has_imitated(self, training_metrics, **kwargs):
        return any(name.startswith("inverse/") for name in training_metrics)  # of stage one

    def is_enough(self, stage_steps, **kwargs):
        return stage_steps >= 32 and os.environ.get("RANK", "0") == "0"  # each rank says another

    def machine_params(self, mode="train", **kwargs):
        from envlab_navigation.ddppo.experiment import MachineParams
        return MachineParams((4 if mode == "train" else 0,) * self.num_ranks)
"""


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("experiment") / "stages_experiment.py"
    path.write_text(EXPERIMENT)
    return path


def train_in(folder: Path, experiment: Path, *words: str) -> int:
    with contextlib.chdir(folder):
        return train("ddppo", [str(experiment), "--headless", *words])


@pytest.fixture(scope="module")
def whole(experiment: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of all stages, with a checkpoint of each iteration."""
    folder = tmp_path_factory.mktemp("whole")
    assert train_in(folder, experiment, "agent.save_interval=1") == 0
    return only_run(folder)


def test_stages_follow_each_other_and_end_early_by_a_criterion(whole: Path) -> None:
    records = metrics_of(whole)
    assert [record["frames"] for record in records] == [32, 64, 96, 128, 160, 192]
    assert [record["details"]["stage"] for record in records] == [0, 0, 0, 1, 1, 2]
    forced = [record["details"]["teacher_forcing"] for record in records]
    assert forced == [1.0, 0.75, 0.5, 0.0, 0.0, 0.0]
    rates = [record["learning_rate"] for record in records]
    assert rates == pytest.approx([1e-3 * (1 - 32 * n / 320) for n in range(6)])
    assert manifest_of(whole)["status"] == "finished"


def test_each_stage_learns_by_its_own_losses(whole: Path) -> None:
    names = [{name.partition("/")[0] for name in record["losses"]} for record in metrics_of(whole)]
    assert names[0] == {"imitation", "inverse", "cpc", "grad_norm"}
    assert names[3] == {"ppo", "imitation", "grad_norm"}
    assert names[5] == {"a2c", "grad_norm"}
    # All first actions were the expert's, and of the rest three quarters or more.
    agreement = [record["losses"]["imitation/expert_agreement"] for record in metrics_of(whole)[:2]]
    assert agreement[0] == 1.0
    assert 0.7 < agreement[1] < 1.0


def test_checkpoints_are_written_by_steps_and_at_the_end_of_each_stage(
    experiment: Path, tmp_path: Path
) -> None:
    assert train_in(tmp_path, experiment) == 0
    files = (only_run(tmp_path) / "checkpoints").glob("model_*.pt")
    # 128 steps are done in the 4th iteration; stages end with the 3rd, 5th and 6th.
    assert sorted(file.name for file in files) == [f"model_{n}.pt" for n in (3, 4, 5, 6)]


def test_a_finished_run_and_too_few_environments_are_refused_before_anything_is_written(
    whole: Path, experiment: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = f"--checkpoint={whole}/checkpoints/model_6.pt"
    assert train_in(tmp_path, experiment, "--resume", checkpoint) == 2
    assert "stages are all done" in capsys.readouterr().err
    assert train_in(tmp_path, experiment, "--num_envs=1") == 2
    assert "Stage 2 of the pipeline has num_mini_batch=2" in capsys.readouterr().err
    assert not (tmp_path / "logs").exists()
