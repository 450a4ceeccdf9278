"""Training in an experiment's own task samplers, written in AllenAct's words."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from envlab.cli import play
from envlab.distributed.context import DistributedContext
from envlab.envs.gym_bridge import GymEnvCfg, GymSceneCfg
from envlab.training.launch import train
from envlab_navigation.ddppo.experiment_file import load_cached
from envlab_navigation.ddppo.task_sampler import TaskSamplerEnvs
from tests.trained import metrics_of, only_run

EXPERIMENT = '''
from types import SimpleNamespace

import numpy as np
from gymnasium import spaces
from torch import optim

from envlab_navigation.ddppo.experiment import ExperimentConfig
from envlab_navigation.ddppo.losses import PPO
from envlab_navigation.ddppo.pipeline import PipelineStage, TrainingPipeline
from envlab_navigation.ddppo.schedules import Builder

class Walk:
    """A goal to the right or left; the third step is the last."""

    max_steps, steps, arrived = 3, 0, False
    action_space = spaces.Discrete(2)
    observation_space = spaces.Dict(
        {"goal": spaces.Discrete(2), "rgb": spaces.Box(0, 255, (20, 20, 3), np.uint8)})

    def __init__(self, goal, number):
        self.goal, self.number = goal, number

    def get_observations(self):
        rgb = np.full((20, 20, 3), 10 * self.steps, np.uint8)
        return {"goal": self.goal, "rgb": rgb, "unused": None}

    def step(self, action):
        self.steps += 1
        self.arrived = action == self.goal and self.steps >= 2
        done = self.arrived or self.steps == self.max_steps
        return SimpleNamespace(
            observation=None if done else self.get_observations(), reward=float(self.arrived),
            done=done, info={})

    def reached_max_steps(self):
        return self.steps == self.max_steps

    def reached_terminal_state(self):
        return self.arrived

    def metrics(self):
        return {"success": self.arrived, "number": self.number, "task_info": {}}


class Sampler:
    def __init__(self, number, total, length):
        assert 0 <= number < total == 4
        self.number, self.length = number, length
        self.set_seed(0)
        self.reset()

    def set_seed(self, seed):
        self.seed = seed

    def reset(self):
        self.random, self.left = np.random.default_rng(self.seed), self.length

    def next_task(self, force_advance_scene=False):
        self.left -= 1
        return None if self.left < 0 else Walk(int(self.random.integers(2)), self.number)

    def close(self):
        pass


class Walks(ExperimentConfig):
    def tag(self):
        return "Walks"

    @classmethod
    def make_sampler_fn(cls, **kwargs):
        return Sampler(**kwargs)

    def train_task_sampler_args(self, process_ind, total_processes, **kwargs):
        return {"number": process_ind, "total": total_processes, "length": 2}

    test_task_sampler_args = train_task_sampler_args

    def machine_params(self, mode="train", **kwargs):
        from envlab_navigation.ddppo.experiment import MachineParams
        return MachineParams((4 if mode == "train" else 0,))

    def training_pipeline(self, **kwargs):
        return TrainingPipeline(
            named_losses={"ppo": PPO()}, optimizer_builder=Builder(optim.Adam, {"lr": 1e-3}),
            pipeline_stages=[PipelineStage(loss_names=["ppo"], max_stage_steps=64)],
            num_steps=8, update_repeats=1)
'''
SMALL = ("--headless", "--device=cpu", "agent.model.hidden_dim=16")


def write(folder: Path, text: str = EXPERIMENT) -> str:
    path = folder / "walks.py"
    path.write_text(text)
    return str(path)


def test_samplers_train_and_play(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each environment is the sampler of its index; images stay images, choices become 0 and 1."""
    with contextlib.chdir(tmp_path):
        assert train("ddppo", [write(tmp_path), *SMALL, "env.num_workers=0"]) == 0
        records = metrics_of(only_run(tmp_path))
        assert [one["frames"] for one in records] == [32, 64]
        episode = records[-1]["episode"]
        assert episode["Episode_Info/number"] == pytest.approx(1.5, abs=1.0)
        # Those that found nothing in three steps were cut by time, not ended.
        cut = episode["Episode_Termination/time_out"]
        assert cut == pytest.approx(1.0 - episode["Episode_Info/success"])
        words = [str(tmp_path / "walks.py"), "--num_envs=4", "--num_episodes=8", "--no_export"]
        assert play("ddppo", [*words, *SMALL[:2]]) == 0
    assert "over 8 episodes" in capsys.readouterr().out


def test_a_sampler_is_told_of_those_of_all_processes(tmp_path: Path) -> None:
    experiment = load_cached(write(tmp_path), "{}", True)
    cfg = GymEnvCfg(num_workers=0, scene=GymSceneCfg(num_envs=2))
    context = DistributedContext(rank=1, world_size=2)
    envs = TaskSamplerEnvs(
        experiment, "train", cfg, context, seed=0
    )  # they assert that there are 4
    assert envs.num_envs == 2
    envs.close()


@pytest.mark.long
def test_workers_make_samplers_of_a_file_that_no_package_has(tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path):
        assert train("ddppo", [write(tmp_path), *SMALL, "env.num_workers=2"]) == 0
        assert metrics_of(only_run(tmp_path))[-1]["frames"] == 64


def test_mistake_in_samplers_is_one_sentence(tmp_path: Path, capsys) -> None:
    with_task = ("    def tag", '    TASK = "Nav-PointNav-Depth-v0"\n\n    def tag')
    without_maker = ("def make_sampler_fn", "def make_any")
    for changes, message in (
        ([("spaces.Discrete(2), ", "spaces.Text(2), ")], "sensor 'goal' of the experiment's task"),
        ([('"length": 2', '"length": 0')], "Sampler has no tasks"),
        ([without_maker, with_task], "no make_sampler_fn that takes the"),
        ([('"length": 2', '"size": 2')], "raised TypeError in make_sampler_fn"),
    ):
        text = EXPERIMENT
        for old, new in changes:
            text = text.replace(old, new)
        load_cached.cache_clear()
        with contextlib.chdir(tmp_path):
            assert train("ddppo", [write(tmp_path, text), *SMALL, "env.num_workers=0"]) == 2
            assert not list(tmp_path.glob("logs/*/*/*"))
        shown = capsys.readouterr().err
        assert message in shown
        assert "experiment_words" not in shown
