"""Experiments: loading their files, their use on the command line, and mistakes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.errors import ConfigurationError
from envlab.registry import get_task, load_env_cfg
from envlab_navigation.ddppo import experiment_file
from envlab_navigation.ddppo.experiment import MachineParams
from envlab_navigation.ddppo.experiment_file import load_experiment
from envlab_navigation.ddppo.experiment_words import prepare
from tests.refusals import check_refusals

ALLENACT = Path(__file__).with_name("allenact_experiment.py")
EXPERIMENT = """
from torch import optim
from envlab_navigation.ddppo.experiment import ExperimentConfig, MachineParams
from envlab_navigation.ddppo.losses import PPO
from envlab_navigation.ddppo.pipeline import PipelineStage, TrainingPipeline
from envlab_navigation.ddppo.schedules import Builder

class Point(ExperimentConfig):
    TASK = "Nav-PointNav-Depth-v0"

    def __init__(self, distributed_nodes: int = 1, num_envs: int = 8):
        self.distributed_nodes, self.num_envs = distributed_nodes, num_envs

    def tag(self):
        return "Point"

    def overrides(self, mode):
        return ["env.houses.num_houses=3"]

    def machine_params(self, mode="train", **kwargs):
        counts = [self.num_envs] * self.distributed_nodes
        return MachineParams(counts, [-1] * self.distributed_nodes)

    def training_pipeline(self, **kwargs):
        return TrainingPipeline(
            named_losses={"ppo": PPO()}, optimizer_builder=Builder(optim.Adam, dict(lr=3e-4)),
            pipeline_stages=[PipelineStage(loss_names=["ppo"], max_stage_steps=4000)],
            num_steps=32)
"""


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget experiments of other tests."""
    for name in list(sys.modules):
        if name.partition(".")[0] in ("allenact", "projects"):
            monkeypatch.delitem(sys.modules, name)
    experiment_file.load_cached.cache_clear()


def launched(monkeypatch: pytest.MonkeyPatch, rank: int, world: int, per_node: int) -> None:
    """Let a launcher have started this process."""
    values = {"RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": per_node, "MASTER_PORT": 1}
    values |= {"LOCAL_RANK": rank % per_node, "MASTER_ADDR": "localhost"}
    for name, value in values.items():
        monkeypatch.setenv(name, str(value))


def write(folder: Path, text: str = EXPERIMENT) -> str:
    path = folder / "point_experiment.py"
    path.write_text(text)
    return str(path)


def test_experiment_becomes_words_which_those_of_the_user_follow(tmp_path: Path) -> None:
    file = write(tmp_path)
    words = prepare("train", [file, "--config_kwargs", '{"num_envs": 4}', "env.step_m=0.3"])
    assert words == [
        "--task=Nav-PointNav-Depth-v0",
        "--experiment_name=Point",
        "env.houses.num_houses=3",
        "agent.num_steps_per_env=32",
        "--max_frames=4000",
        "--num_envs=4",
        "--device=cpu",
        "--validate",
        f"--experiment={file}",
        "--config_kwargs",
        '{"num_envs": 4}',
        "env.step_m=0.3",
    ]


def test_words_of_the_user_take_the_place_of_the_experiments(tmp_path: Path) -> None:
    given = ["--max_frames=2e6", "--num_envs=16", "--device=cuda", "--experiment_name=mine"]
    words = prepare("train", [write(tmp_path), *given])
    names = [word.partition("=")[0] for word in words]
    assert all(names.count(word.partition("=")[0]) == 1 for word in given)


def test_play_takes_houses_that_were_not_trained_in(tmp_path: Path) -> None:
    words = prepare("play", [write(tmp_path), "--checkpoint=best"])
    assert words[:2] == ["--task=Nav-PointNav-Depth-Play-v0", "--experiment_name=Point"]
    assert not any(word.startswith("--max_frames") for word in words)


def test_each_rank_of_three_nodes_gets_its_share(tmp_path: Path, monkeypatch) -> None:
    kwargs = '{"distributed_nodes": 3}'
    words = prepare("train", [write(tmp_path), "--config_kwargs", kwargs, "--dry_run"])
    assert "--dry_run" in words  # it can be looked at on one
    launched(monkeypatch, rank=2, world=3, per_node=1)
    words = [write(tmp_path), "--config_kwargs", kwargs, "--machine_id=2", "--distributed"]
    words = prepare("train", words)
    assert "--num_envs=8" in words


def test_allenacts_names_lead_here() -> None:
    """The multipliers of its tutorial, for 15 samplers on each of 4 GPUs."""
    for nodes, expected in ((1, (1, 4)), (3, (3, 4)), (8, (5, 8))):
        kwargs = f'{{"distributed_nodes": {nodes}, "train_gpu_ids": [0, 1, 2, 3]}}'
        experiment = load_experiment(str(ALLENACT), kwargs, allenact=True)
        first, second = experiment.training_pipeline().pipeline_stages
        assert (first.num_mini_batch, first.update_repeats) == expected
        assert (second.num_mini_batch, second.update_repeats) == (1, 4)
        params: Any = experiment.machine_params("train", machine_id=nodes - 1)
        assert params.nprocesses == (15,) * 4 * nodes
        assert params.local_worker_ids == list(range(4 * nodes - 4, 4 * nodes))
        valid: Any = experiment.machine_params("valid")
        assert valid.nprocesses == (0,)


def test_without_a_gpu_the_tutorial_has_one_worker_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    words = prepare("train", [str(ALLENACT), "--allenact", "--max_frames=100"])
    assert "--num_envs=60" in words
    assert "--device=cpu" in words
    assert "--validate" not in words  # its machine_params turn it off


OWN_ENV = """
    def make_env(self, mode, *, num_envs, context):
        from envlab_tasks.classic.cartpole.cartpole_env_cfg import CartpoleEnvCfg
        from envlab.envs import ManagerEnv
        env = ManagerEnv(CartpoleEnvCfg(), num_envs=num_envs, context=context, seed=0)
        env.mode = mode
        return env
"""


@pytest.mark.parametrize(("command", "mode"), [("train", "train"), ("play", "test")])
def test_experiment_may_make_its_own_environments(command: str, mode: str, tmp_path: Path) -> None:
    words = prepare(command, [write(tmp_path, WITHOUT_TASK + OWN_ENV)])
    task = get_task(words[0].removeprefix("--task="))
    cfg = merge(load_env_cfg(task), {"scene": {"num_envs": 3}}, "env")
    env = task.make(cfg, context=DistributedContext.single("cpu"), render_mode=None)
    assert (env.num_envs, env.mode) == (3, mode)
    env.close()


TWO = EXPERIMENT + "\nclass Other(Point):\n    pass\n"
RAISES = "import math\n\ndef ratio():\n    return 1 / 0\n\nratio()\n"
WITHOUT_TASK = EXPERIMENT.replace('TASK = "Nav-PointNav-Depth-v0"', "pass")


def test_mistake_in_an_experiment_is_one_sentence(tmp_path: Path) -> None:
    kwargs, three = "--config_kwargs", '{"distributed_nodes": 3}'
    pont = write(tmp_path).replace("point_", "pont_")

    def attempt(text: str, *words: str) -> None:
        experiment_file.load_cached.cache_clear()
        prepare("train", [write(tmp_path, text), *words])

    check_refusals(
        attempt,
        [
            (EXPERIMENT, kwargs, '{"num_env": 4}', "takes distributed_nodes, num_envs"),
            (EXPERIMENT, kwargs, '{"num_env": 4}', "Did you mean num_envs"),
            (EXPERIMENT, kwargs, "{4}", "is not JSON"),
            (TWO, "2 experiments, Point, Other. Name the one to run: .*py:Point"),
            ("x = 1", "no experiment: no class there derives"),
            (EXPERIMENT, "--eval", r"envlab validate logs/ddppo/Point .*\.py --eval"),
            (EXPERIMENT, "--machine_id=3", "--machine_id is 3, but must be from 0 to 0"),
            (EXPERIMENT, kwargs, three, "distributed_nodes is 3, but 1 node joined"),
            (EXPERIMENT.replace("4000", "0"), "max_stage_steps=0"),
            (EXPERIMENT.replace('["ppo"]', "[]"), "needs a list of at least one of ppo"),
            (RAISES, "raised ZeroDivisionError as it was loaded"),
            ("import allenact.utils", "add --allenact"),
            ("import no_such_gym\nfrom allenact.utils import system", "add --allenact"),
            (WITHOUT_TASK, "has no environment"),
        ],
    )
    assert type(load_experiment(f"{write(tmp_path, TWO)}:Other")).__name__ == "Other"
    check_refusals(load_experiment, [(pont, r"Did you mean .*point_experiment\.py")])
    check_refusals(MachineParams, [((4,), [0, 1], "2 devices and 1 nprocesses")])


def test_file_that_raises_shows_its_own_traceback_and_no_other(tmp_path: Path, capsys) -> None:
    with pytest.raises(ConfigurationError, match="ZeroDivisionError"):
        prepare("train", [write(tmp_path, RAISES)])
    shown = capsys.readouterr().err
    assert "in ratio" in shown
    assert shown.rstrip().endswith("ZeroDivisionError: division by zero")
    assert "experiment_file" not in shown
