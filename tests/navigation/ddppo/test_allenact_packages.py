"""Files that need AllenAct's own packages: stand-ins, training, losses, missing packages.

Tests with AllenAct itself are skipped where it is not installed, as in CI: its dependencies pin
versions from 2020, so it is installed by hand, without them (docs/from_allenact.md).
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import torch

from envlab.errors import ConfigurationError
from envlab.training.launch import train
from envlab_navigation.ddppo import experiment_file
from envlab_navigation.ddppo.allenact import gym_stand_in, packages
from envlab_navigation.ddppo.experiment_file import load_experiment
from tests.launcher import ROOT
from tests.trained import metrics_of, only_run

PEERS = ("allenact", "allenact_plugins", "gym", "gym_minigrid", "babyai", "torchvision", "projects")
STAND_INS = ("moviepy", "wandb", "blosc", "pickle5")
OURS = "envlab_navigation.ddppo.allenact."

EXPERIMENT = '''
import gym
import numpy as np
from torch import optim
from torch.optim.lr_scheduler import LambdaLR
from allenact.algorithms.onpolicy_sync.losses.imitation import Imitation
from allenact.algorithms.onpolicy_sync.losses.ppo import PPO, PPOConfig
from allenact.base_abstractions.experiment_config import ExperimentConfig
from allenact.base_abstractions.misc import RLStepResult
from allenact.base_abstractions.sensor import ExpertActionSensor, Sensor, SensorSuite
from allenact.base_abstractions.task import Task, TaskSampler
from allenact.embodiedai.models.basic_models import RNNActorCritic
from allenact.utils.experiment_utils import (
    Builder, LinearDecay, PipelineStage, TrainingPipeline)


class PoleSensor(Sensor):
    def __init__(self):
        super().__init__("pole", gym.spaces.Box(-np.inf, np.inf, (4,), np.float32))

    def get_observation(self, env, task, *args, **kwargs):
        return task.seen


class PoleTask(Task):
    """Gym's CartPole; the expert pushes the way the pole falls, and knows nothing at first."""

    def __init__(self, env, sensors):
        self.seen, self.fell = env.reset(), False
        super().__init__(env, sensors, {}, max_steps=20)

    @property
    def action_space(self):
        return self.env.action_space

    def render(self, mode="rgb", *args, **kwargs):
        raise NotImplementedError

    def _step(self, action):
        assert isinstance(action, int)
        self.seen, reward, self.fell, info = self.env.step(action)
        return RLStepResult(self.get_observations(), reward, self.is_done(), info)

    def reached_terminal_state(self):
        return self.fell

    def close(self):
        pass

    def query_expert(self, **kwargs):
        return int(self.seen[2] + self.seen[3] > 0), self.num_steps_taken() > 0


class PoleSampler(TaskSampler):
    length, last_sampled_task, all_observation_spaces_equal = float("inf"), None, True

    def __init__(self, seed):
        self.env = gym.make("CartPole-v1")
        self.set_seed(seed)

    def next_task(self, force_advance_scene=False):
        return PoleTask(self.env, Poles.SENSORS)

    def close(self):
        self.env.close()

    def reset(self):
        pass

    def set_seed(self, seed):
        self.env.seed(seed)


class Poles(ExperimentConfig):
    SENSORS = [PoleSensor(), ExpertActionSensor(nactions=2)]

    @classmethod
    def tag(cls):
        return "Poles (small)"

    @classmethod
    def machine_params(cls, mode="train", **kwargs):
        return {"nprocesses": 4 if mode == "train" else 0, "devices": []}

    @classmethod
    def create_model(cls, **kwargs):
        return RNNActorCritic(
            "pole", gym.spaces.Discrete(2), SensorSuite(cls.SENSORS).observation_spaces,
            hidden_size=8)

    @classmethod
    def make_sampler_fn(cls, **kwargs):
        return PoleSampler(**kwargs)

    def train_task_sampler_args(self, process_ind, total_processes, seeds=None, **kwargs):
        return {"seed": seeds[process_ind]}

    @classmethod
    def training_pipeline(cls, **kwargs):
        return TrainingPipeline(
            named_losses={"imitation": Imitation(), "ppo": Builder(PPO, default=PPOConfig)},
            pipeline_stages=[
                PipelineStage(
                    loss_names=["imitation"], max_stage_steps=512,
                    teacher_forcing=LinearDecay(startp=1.0, endp=1.0, steps=512)),
                PipelineStage(
                    loss_names=["ppo", "imitation"], loss_weights=[1.0, 0.5], max_stage_steps=256),
            ],
            optimizer_builder=Builder(optim.Adam, dict(lr=0.01)),
            lr_scheduler_builder=Builder(LambdaLR, {"lr_lambda": LinearDecay(steps=1024)}),
            num_mini_batch=2, update_repeats=4, max_grad_norm=0.5, num_steps=16, gamma=0.99,
            use_gae=True, gae_lambda=0.95, advance_scene_rollout_period=None,
            save_interval=10000, metric_accumulate_interval=1000)
'''
MINIGRID = """
import gym
from torch import nn, optim
from allenact.algorithms.onpolicy_sync.losses.imitation import Imitation
from allenact.base_abstractions.experiment_config import ExperimentConfig
from allenact.base_abstractions.sensor import ExpertActionSensor, SensorSuite
from allenact.utils.experiment_utils import (
    Builder, LinearDecay, PipelineStage, TrainingPipeline)
from allenact_plugins.minigrid_plugin.minigrid_models import MiniGridSimpleConvRNN
from allenact_plugins.minigrid_plugin.minigrid_sensors import EgocentricMiniGridSensor
from allenact_plugins.minigrid_plugin.minigrid_tasks import MiniGridTask, MiniGridTaskSampler
from gym_minigrid.envs import EmptyRandomEnv5x5


class Rooms(ExperimentConfig):
    IMAGE = EgocentricMiniGridSensor(agent_view_size=5, view_channels=3)
    SENSORS = [IMAGE, ExpertActionSensor(action_space=gym.spaces.Discrete(3))]

    @classmethod
    def tag(cls):
        return "Rooms"

    @classmethod
    def machine_params(cls, mode="train", **kwargs):
        return {"nprocesses": 4 if mode == "train" else 0, "devices": []}

    @classmethod
    def create_model(cls, **kwargs):
        return MiniGridSimpleConvRNN(
            action_space=gym.spaces.Discrete(3), hidden_size=32,
            observation_space=SensorSuite(cls.SENSORS).observation_spaces,
            num_objects=cls.IMAGE.num_objects, num_colors=cls.IMAGE.num_colors,
            num_states=cls.IMAGE.num_states)

    @classmethod
    def make_sampler_fn(cls, **kwargs):
        return MiniGridTaskSampler(**kwargs)

    def train_task_sampler_args(self, process_ind, total_processes, **kwargs):
        return {
            "env_class": EmptyRandomEnv5x5, "sensors": self.SENSORS, "env_info": {},
            "task_class": MiniGridTask}

    @classmethod
    def training_pipeline(cls, **kwargs):
        return TrainingPipeline(
            named_losses={"imitation": Imitation()},
            pipeline_stages=[PipelineStage(
                loss_names=["imitation"], max_stage_steps=2048,
                teacher_forcing=LinearDecay(startp=1.0, endp=0.0, steps=1024))],
            optimizer_builder=Builder(optim.Adam, dict(lr=0.002)),
            num_mini_batch=1, update_repeats=4, max_grad_norm=0.5, num_steps=32, gamma=0.99,
            use_gae=True, gae_lambda=1.0, advance_scene_rollout_period=None,
            save_interval=10000, metric_accumulate_interval=1000)
"""
SMALL = ("--allenact", "--headless", "--device=cpu", "env.num_workers=0", "--seed=1")


def _forget(names: set[str]) -> None:
    tops = (*PEERS, *STAND_INS)
    for name in names:
        if name.partition(".")[0] in tops or name.startswith(OURS):
            sys.modules.pop(name, None)
    experiment_file._load.cache_clear()


@pytest.fixture(scope="module", autouse=True)
def clean() -> Iterator[None]:
    """Leave no module behind that stands in for another, nor one that imported these."""
    before, path = dict(sys.modules), list(sys.path)
    yield
    _forget(set(sys.modules) - set(before))
    sys.modules.update({name: before[name] for name in before if name not in sys.modules})
    sys.path[:] = path


def needs(*names: str) -> pytest.MarkDecorator:
    """Skip where a package is missing, without importing it."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    reason = f"needs {', '.join(missing)}: see docs/from_allenact.md"
    return pytest.mark.skipif(bool(missing), reason=reason)


def write(folder: Path, text: str, name: str = "peer_experiment.py") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_seeds_are_gyms() -> None:
    """1337's SHA-512 begins with these two words of 32 bits."""
    generator, seed = gym_stand_in.np_random(1337)
    expected = np.random.RandomState([1606814319, 1720193504])
    assert seed == 1337
    assert generator.randint(0, 2**31 - 1) == expected.randint(0, 2**31 - 1)


def test_every_heir_is_one_of_gymnasiums() -> None:
    assert {heir for heir, _ in gym_stand_in.HEIRS.values()} <= set(gymnasium.registry)


def test_environments_have_gyms_methods_and_leave_time_limits_to_the_task() -> None:
    env = gym_stand_in.make("Pendulum-v1")
    env.seed(3)
    first = env.reset()
    assert env.spec.max_episode_steps == 200
    ends = [env.step(np.zeros(1, np.float32))[2] for _ in range(210)]
    assert not any(ends)
    env.seed(3)
    assert np.array_equal(env.reset(), first)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("from allenact.algorithms.onpolicy_sync.losses import PPO", False),
        ("from allenact.algorithms.onpolicy_sync.losses import A2C", True),
        ("from allenact_plugins.gym_plugin import gym_tasks", True),
        ("import gym", True),
        ("import math", False),
    ],
)
def test_houses_are_for_files_that_need_no_more(line: str, expected: bool, tmp_path: Path) -> None:
    assert packages.needs_packages(Path(write(tmp_path, line))) is expected


def test_a_base_beside_the_experiment_counts_as_its_own(tmp_path: Path) -> None:
    path = Path(write(tmp_path, "import math\nfrom base import Base\n"))
    write(tmp_path, "import peer_experiment\nfrom more.bases import Base\n", "base.py")
    assert not packages.needs_packages(path)
    (tmp_path / "more").mkdir()
    write(tmp_path, "import gym", "more/bases.py")
    assert packages.needs_packages(path)


def test_missing_allenact_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "allenact", raising=False)
    monkeypatch.setattr(packages.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"peer_experiment.py needs AllenAct: run a file"):
        load_experiment(write(tmp_path, EXPERIMENT), allenact=True)


@needs("allenact", "attr")
def test_missing_simulator_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ai2thor", None)
    text = f"{EXPERIMENT}\nimport ai2thor.controller\n"
    with pytest.raises(ConfigurationError, match=r"needs AI2-THOR .* of Unity .* own|houses"):
        load_experiment(write(tmp_path, text, "thor_experiment.py"), allenact=True)


def test_missing_part_of_babyai_names_the_commit_that_has_it(tmp_path: Path) -> None:
    """The default branch installs without ``babyai.rl``, and cannot be imported."""
    commit = "babyai.git@0b450eeb3a2dc7116c67900d51391986bdbb84cd"
    with pytest.raises(ConfigurationError, match=re.escape(commit)):
        packages.refuse_missing(tmp_path / "mine.py", "babyai.rl")
    assert commit in (ROOT / "docs/from_allenact.md").read_text()


def test_minigrid_needs_babyai_only_for_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "babyai"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(packages, "_is_missing", lambda name: name == "babyai")
    monkeypatch.setattr(packages, "_complete_torchvision", lambda: None)
    monkeypatch.setitem(sys.modules, "allenact", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "allenact.utils.system", SimpleNamespace())
    packages.prepare_packages(tmp_path / "mine.py")
    words = importlib.import_module("babyai.utils.format")
    with pytest.raises(ConfigurationError, match=r"words of missions need BabyAI: pip install"):
        words.InstructionsPreprocessor("vocabulary", load_vocab_from="here")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("babyai.bot")
    _forget({"babyai", "babyai.utils", "babyai.utils.format"})


@needs("allenact", "attr")
def test_experts_teach_and_stages_follow(tmp_path: Path) -> None:
    """AllenAct's network, sensors, tasks and losses, in its two stages; each half of them."""
    with contextlib.chdir(tmp_path):
        assert train("ddppo", [write(tmp_path, EXPERIMENT), *SMALL]) == 0
        records = metrics_of(only_run(tmp_path))
    assert records[-1]["frames"] == 768
    assert [one["details"]["stage"] for one in records] == [0] * 8 + [1] * 4
    errors = [one["losses"]["imitation/expert_cross_entropy"] for one in records]
    assert errors[7] < 0.8 * errors[0]
    assert {"ppo/action", "ppo/value", "ppo/entropy"} <= set(records[-1]["losses"])
    # AllenAct's line from 1 at step 0 to 0 at 1024, at the beginning of the last rollout.
    assert records[-1]["learning_rate"] == pytest.approx(0.01 * (1 - 704 / 1024))


@needs("allenact", "attr", "gym_minigrid")
def test_minigrid_is_learned_from_its_expert(tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path):
        assert train("ddppo", [write(tmp_path, MINIGRID, "rooms.py"), *SMALL]) == 0
        records = metrics_of(only_run(tmp_path))
    errors = [one["losses"]["imitation/expert_cross_entropy"] for one in records]
    assert errors[-1] < 0.5 * errors[0]
    assert records[-1]["episode"]["Episode_Info/success"] > 0.9


@needs("allenact", "attr")
def test_imitation_is_the_mean_over_steps_with_advice(tmp_path: Path) -> None:
    """By hand: -(log 0.8 + log 0.1) / 2, where the third of three steps has no advice."""
    load_experiment(write(tmp_path, EXPERIMENT), allenact=True)
    from allenact.algorithms.onpolicy_sync.losses.imitation import Imitation
    from allenact.base_abstractions.distributions import CategoricalDistr
    from allenact.base_abstractions.misc import ActorCriticOutput

    from envlab_navigation.ddppo.allenact.model import FlatActions, PeerOutput
    from envlab_navigation.ddppo.allenact.stages import PeerLoss
    from envlab_navigation.ddppo.storage import Batch

    probabilities = torch.tensor([[0.2, 0.8], [0.1, 0.9], [0.5, 0.5]]).unsqueeze(1)
    distribution, values = CategoricalDistr(probs=probabilities), torch.zeros(3, 1)
    advice = torch.tensor([[1, 1], [0, 1], [1, 0]]).unsqueeze(1)
    rows, numbers = torch.zeros(3, 1, 1, dtype=torch.int64), torch.zeros(3, 1)
    batch = Batch(
        obs={"expert_action": advice},
        previous_actions=rows,
        starts=torch.zeros(3, 1, dtype=torch.bool),
        memory=torch.zeros(1, 0),
        actions=rows,
        log_probs=numbers,
        values=numbers,
        returns=numbers,
        raw_advantages=numbers,
        advantages=numbers,
    )
    output = PeerOutput(
        distribution=FlatActions(distribution, gymnasium.spaces.Discrete(2)),
        values=values,
        features=values,
        beliefs=values,
        raw=ActorCriticOutput(distribution, values.unsqueeze(-1), {}),
    )
    loss, measured = PeerLoss(Imitation(), lambda actions: actions).loss(0, batch, output)
    assert float(loss) == pytest.approx(-(np.log(0.8) + np.log(0.1)) / 2)
    assert float(measured["expert_cross_entropy"]) == pytest.approx(float(loss))


@needs("allenact", "attr")
def test_experts_without_advice_are_reported(tmp_path: Path) -> None:
    from envlab_navigation.ddppo.allenact.expert import ObservedExpert

    seen = torch.tensor([[1, 1], [0, 0]])
    env = SimpleNamespace(obs_buf={"expert_action": seen}, actions=torch.zeros(2, 1).long())
    assert ObservedExpert(env).act().tolist() == [[1], [-1]]
