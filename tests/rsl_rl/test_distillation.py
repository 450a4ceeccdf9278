"""A student that imitates a teacher, on two ranks and one; then PPO trains the student."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import gymnasium
import pytest
import torch
import yaml

from envlab import registry
from envlab.cli import main
from envlab.config import load_yaml
from envlab.distributed.context import DistributedContext
from envlab.envs import ManagerEnv
from envlab.envs.wrappers.rsl_rl import pack
from envlab.errors import CheckpointError, ConfigurationError
from envlab.libraries import get_library
from envlab.registry import get_task, load_agent_values, scripted_policy
from envlab.rsl_rl.cfg import DistillationCfg, RslRlCfg
from envlab.rsl_rl.distillation import open_teacher
from envlab.rsl_rl.play import RslRlPlayer
from envlab.training.arguments import play_parser, train_parser
from envlab.training.opening import open_policy_of
from envlab.training.plan import plan_run
from envlab.training.play import open_policy
from tests import small_runs
from tests.launcher import ROOT, torchrun
from tests.learner_contract import LearnerContract, digests, timeless_digests
from tests.rsl_rl.worker_distillation import Lesson, first_update, make_learner
from tests.trained import (
    DISTILLATION,
    TASK,
    Pair,
    checkpoint_of,
    gradient_error,
    launch_pair,
    manifest_of,
    metrics_of,
    on_one_thread,
    only_run,
    session_of,
    train_in,
)

LSTM = ["class_name=RNNModel", "rnn_type=lstm", "rnn_hidden_dim=8", "rnn_num_layers=1"]
POLICIES = ROOT / "source/envlab_policies"
UNTAUGHT = [word for word in DISTILLATION if not word.startswith("--checkpoint")]


def lstm(*names: str) -> list[str]:
    """Return the words that give networks a memory."""
    return [f"agent.{name}.{word}" for name in names for word in LSTM]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp("distilled_pair")
    flags = [*DISTILLATION, "--distributed", "--max_iterations=4"]
    worker = Path(__file__).with_name("worker_distillation.py")
    return launch_pair(folder, torchrun(2, worker, folder, *flags), ("ddp", "library"))


@pytest.fixture(scope="module")
def single_update() -> dict[str, Any]:
    return on_one_thread(first_update)


class TestDistillation(LearnerContract):
    STATE = {
        "ddp": ["student_state_dict.mlp", "teacher_state_dict", "exp_avg_sq", "obs_normalizer"],
        "library": [],
    }
    TOLERANCE = 1e-6

    def test_ddp_and_the_librarys_reduction_end_with_the_same_parameters(self, pair: Pair):
        ends = [pair.ends[name][0] for name in ("ddp", "library")]
        assert [end["wraps"] for end in ends] == ["PolicyDDP", "MLPModel"]
        assert digests(ends[0]["model"]) == digests(ends[1]["model"])

    def test_gradients_that_are_not_averaged_would_be_noticed(self, pair: Pair, single_update):
        for update in pair.first_update:
            gradients = update["local"]["gradients"]
            error = gradient_error(single_update["gradients"], gradients)
            assert error > 100 * self.TOLERANCE

    def test_the_normaliser_is_that_of_one_process(self, pair: Pair, single_update):
        for update in pair.first_update:
            for name, values in single_update["buffers"].items():
                found = update["pooled"]["buffers"][name]
                torch.testing.assert_close(found, values, rtol=1e-4, atol=1e-5, msg=name)

    def test_the_teacher_stays_as_it_came(self, pair: Pair):
        teacher = torch.load(POLICIES / "Isaac-Cartpole-v0/rsl_rl/policy.pt", weights_only=True)
        state = pair.ends["ddp"][0]["model"]["teacher_state_dict"]
        assert digests(state) == digests(teacher["model"]["actor_state_dict"])


def test_the_student_comes_nearer_to_the_teacher():
    context = DistributedContext.single("cpu")
    learner = make_learner(context, Lesson(num_envs=64))
    learner.alg.optimizer.param_groups[0]["lr"] = 0.01
    losses = [learner.iterate(one, lambda *_: None).losses["behavior"] for one in range(1, 41)]
    assert sum(losses[-5:]) < 0.3 * sum(losses[:5])
    learner.env.close()


@pytest.fixture(scope="module")
def recurrent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of a recurrent student, of 4 iterations, next to that of its teacher."""
    folder = tmp_path_factory.mktemp("recurrent")
    words = [TASK, "--device=cpu", "--num_envs=32", "--experiment_name=teacher"]
    assert train_in(folder, *words, *lstm("actor", "critic"), "--max_iterations=1") == 0
    (teacher,) = (folder / "logs/rsl_rl/teacher").iterdir()
    words = [*UNTAUGHT, f"--checkpoint={teacher}", *lstm("student", "teacher")]
    assert train_in(folder, *words, "--max_iterations=4") == 0
    (run,) = (folder / "logs/rsl_rl/cartpole").iterdir()
    return run


def test_a_resumed_distillation_ends_as_the_unbroken_one(recurrent: Path, tmp_path: Path):
    """Memories are restored as well: the student's, and the teacher's, which rsl_rl forgets."""
    (teacher,) = recurrent.parents[1].glob("teacher/*")
    assert manifest_of(recurrent)["policy_from"] == f"{teacher}/checkpoints/model_1.pt"
    assert manifest_of(recurrent)["resumed_from"] is None
    agent = load_yaml(recurrent / "params/agent.yaml")
    assert agent["algorithm"]["class_name"] == "Distillation"
    half = f"--checkpoint={recurrent}/checkpoints/model_2.pt"
    assert train_in(tmp_path, TASK, "--device=cpu", "--resume", half, "--max_iterations=4") == 0
    ends = [checkpoint_of(run, 4) for run in (recurrent, only_run(tmp_path))]
    whole, again = map(timeless_digests, ends)
    assert again == whole
    memories = [name for name in whole if ".teacher." in name or ".student." in name]
    assert len(memories) == 4, memories
    kept = ends[0]["ranks"][0]["learner"]["memories"]["teacher"]
    assert all(float(part.abs().max()) > 0.0 for part in kept)  # an update leaves it


PRETRAINED = "--checkpoint=pretrained agent."
REFUSED = {
    "There is no teacher to distil. Give --checkpoint": "",
    "There is no checkpoint .*none.pt": "--checkpoint=./none.pt",
    r"observes 60 values, but agent.obs_groups.teacher \(policy\) has 4": (
        f"--checkpoint={POLICIES}/Isaac-Ant-v0/rsl_rl/policy.pt"
    ),
    "has 2 actions, but the task has 1": "--checkpoint=./arms.pt",
    "empty.pt does not fit agent.teacher": "--checkpoint=./empty.pt",
    r"cannot be read \(UnpicklingError\)": "--checkpoint=./evil.pt",
    "agent.obs_groups.teacher names 'scan', but": f"{PRETRAINED}obs_groups.teacher=[scan]",
    "does not fit agent.teacher .*Give agent.teacher the network of the run": (
        f"{PRETRAINED}teacher.hidden_dims=[32,16]"
    ),
    "gradient_length is 7, but the 30 steps of": f"{PRETRAINED}algorithm.gradient_length=7",
    "Isaac-Cartpole-v0 has no scripted policy; Isaac-Franka-Cab": "--checkpoint=scripted",
}
LIFT = ["--task=Isaac-Lift-Cube-Franka-v0", "--device=cpu", "--num_envs=16", "--headless"]
LIFT_STUDENT = ["--agent=rsl_rl_distillation_cfg_entry_point", "--checkpoint=scripted"]


def configclass(values: dict[str, Any]) -> Any:
    """Return a dataclass as Isaac Lab's ``configclass`` makes them, MISSING values included."""
    fields = [(name, Any, dataclasses.field(default=None)) for name in values]
    cfg = dataclasses.make_dataclass("Cfg", fields)()
    for name, value in values.items():
        is_part = isinstance(value, dict) and name != "obs_groups"
        value = dataclasses.MISSING if value == "MISSING" else value
        setattr(cfg, name, configclass(value) if is_part else value)
    return cfg


ANYMAL = """
{seed: 42, device: "cuda:0", num_steps_per_env: 120, max_iterations: 300, clip_actions: null,
 init_at_random_ep_len: true, check_for_nan: true, save_interval: 50, run_name: "",
 empirical_normalization: MISSING, policy: MISSING, experiment_name: anymal_d_flat,
 class_name: DistillationRunner, load_run: ".*", load_checkpoint: "model_.*.pt",
 obs_groups: {student: [policy], teacher: [policy]},
 teacher: &model {class_name: MLPModel, hidden_dims: [128, 128, 128], activation: elu,
  obs_normalization: false, stochastic: MISSING, init_noise_std: MISSING, noise_std_type: scalar,
  state_dependent_std: false, distribution_cfg: &noise {class_name: GaussianDistribution,
   init_std: 0.0, std_type: scalar, std_range: [1.0e-6, 1.0e+6]}},
 student: {<<: *model, distribution_cfg: {<<: *noise, init_std: 0.1}},
 algorithm: {class_name: Distillation, num_learning_epochs: 2, learning_rate: 1.0e-3,
  gradient_length: 15, max_grad_norm: null, optimizer: adam, loss_type: mse}}
"""
"""Isaac Lab 3.0.0's ``AnymalDFlatDistillationRunnerCfg()``, without its loggers."""


def test_a_student_forgets_the_episode_before(recurrent: Path, tmp_path: Path):
    """In an episode's first step it acts as it would without a past."""
    player, env = player_of(recurrent)
    with torch.inference_mode():
        for _ in range(3):
            obs, *_ = env.step(player.act(env.obs_buf))
        env.episode_length_buf = torch.tensor([0, 3])
        actions = player.act(obs)
        fresh, _ = player_of(recurrent)
        expected = fresh.act(obs)
    assert torch.allclose(actions[0], expected[0])
    assert not torch.allclose(actions[1], expected[1])


@pytest.mark.long
def test_a_policy_with_a_memory_is_exported_as_a_step(recurrent: Path, capsys):
    player, env = player_of(recurrent)
    words = rf"of {env.num_envs} environments, but is given observations of 3\. Load it with num_e"
    with pytest.raises(ConfigurationError, match=words):
        player.act({"policy": torch.zeros(3, 4)})
    obs = [torch.randn(2, 4) for _ in range(3)]
    with torch.inference_mode():
        expected = [player.act({"policy": values}) for values in obs]
    env.close()
    flags = [TASK, "--device=cpu", f"--checkpoint={recurrent}/checkpoints/model_4.pt"]
    assert main(["export", "rsl_rl", *flags]) == 0
    reason = "The policy has a memory (obs, h_in, c_in), which deploy.py does not"
    assert f"No deploy.yaml: {reason}" in capsys.readouterr().out
    files = {path.name for path in (recurrent / "exported").iterdir()}
    assert {"policy.pt", "policy.onnx"} <= files
    step = torch.jit.load(str(recurrent / "exported/policy.pt"))
    memory = [torch.zeros(2, 1, 8), torch.zeros(2, 1, 8)]
    for values, wanted in zip(obs, expected, strict=True):
        actions, *memory = step(values, *memory)
        torch.testing.assert_close(actions, wanted, rtol=0.0, atol=1e-5)


def player_of(run: Path) -> tuple[RslRlPlayer, ManagerEnv]:
    """Return a player of a run's last checkpoint, and its two environments, at episodes' starts."""
    words = [f"--config={run}", TASK, "--device=cpu", "--num_envs=2"]
    library = get_library("rsl_rl")
    plan = plan_run(*train_parser(library).parse_with_overrides(words), library, run)
    context = DistributedContext.single("cpu")
    env = plan.task.make(plan.env_cfg, context=context, num_envs=2, seed=4)
    env.episode_length_buf = torch.ones(2, dtype=torch.long)
    return RslRlPlayer(plan, env, context, checkpoint_of(run, 4)), env


def test_a_student_is_fine_tuned_with_a_critic_that_learns_first(recurrent: Path, tmp_path: Path):
    student = checkpoint_of(recurrent, 4)["model"]["student_state_dict"]
    words = [TASK, "--device=cpu", "--num_envs=32", *lstm("actor", "critic")]
    tuning = ["agent.actor.obs_normalization=true", "agent.algorithm.critic_warmup=2"]
    flags = [f"--checkpoint={recurrent}", "--max_iterations=3", "agent.save_interval=1"]
    assert train_in(tmp_path, *words, *tuning, *flags) == 0
    run = only_run(tmp_path)
    models = {number: checkpoint_of(run, number)["model"] for number in (1, 2, 3)}
    actors = {number: digests(model["actor_state_dict"]) for number, model in models.items()}
    assert actors[1] == actors[2] == digests(student)
    assert [name for name, digest in actors[3].items() if digest == actors[2][name]] == []
    critics = [digests(model["critic_state_dict"]) for model in models.values()]
    assert critics[0] != critics[1]
    assert [record["learning_rate"] for record in metrics_of(run)][:2] == [1e-3, 1e-3]


class _Payload:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, ("fired",)


def test_bad_input_is_one_sentence(tmp_path: Path, capsys):
    arms = torch.load(POLICIES / "Isaac-Cartpole-v0/rsl_rl/policy.pt", weights_only=True)
    actor = arms["model"]["actor_state_dict"]
    actor["mlp.4.weight"] = actor["mlp.4.weight"].repeat(2, 1)
    torch.save(arms, tmp_path / "arms.pt")
    empty = {**arms, "model": {"actor_state_dict": {"mlp": "nothing"}}}
    torch.save(empty, tmp_path / "empty.pt")
    torch.save({"format_version": 1, "model": _Payload()}, tmp_path / "evil.pt")
    for message, words in REFUSED.items():
        assert train_in(tmp_path, *UNTAUGHT, *words.split()) == 2, words
        (error,) = re.findall(r"^error: .*", capsys.readouterr().err, re.MULTILINE)
        assert re.search(message, error), error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["arms.pt", "empty.pt", "evil.pt"]


def test_isaac_labs_configuration_of_anymal_is_read_as_it_is():
    entry_points = {
        "rsl_rl_distillation_cfg_entry_point": lambda: configclass(yaml.safe_load(ANYMAL))
    }
    task = dataclasses.replace(get_task("Isaac-Cartpole-v0"), kwargs=entry_points)
    values = load_agent_values(task, "rsl_rl_distillation")
    cfg = RslRlCfg().suited(values).with_task_values(values)
    assert isinstance(cfg, DistillationCfg)
    assert (cfg.num_steps_per_env, cfg.max_iterations) == (120, 300)
    assert cfg.experiment_name == "anymal_d_flat"
    assert cfg.teacher.hidden_dims == [128, 128, 128]
    assert cfg.teacher.distribution_cfg["init_std"] == 0.0
    assert (cfg.algorithm.num_learning_epochs, cfg.algorithm.gradient_length) == (2, 15)


def test_every_tasks_distillation_is_read_as_one():
    registry.discover()
    found = 0
    for spec in list(gymnasium.registry.values()):
        if "rsl_rl_distillation_cfg_entry_point" in spec.kwargs:
            values = load_agent_values(get_task(spec.id), "rsl_rl_distillation")
            assert isinstance(RslRlCfg().suited(values).with_task_values(values), DistillationCfg)
            found += 1
    assert found > 0


@pytest.fixture(
    scope="module",
    params=[
        "fast_sac",
        pytest.param("rl_games", marks=pytest.mark.long),
        pytest.param("skrl", marks=pytest.mark.long),
    ],
)
def foreign(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of another library's policy."""
    folder = tmp_path_factory.mktemp(request.param)
    sizes = {"rl_games": ["agent.params.config.minibatch_size=64"]}.get(request.param, [])
    words = [TASK, "--device=cpu", "--num_envs=32", "--max_iterations=2", *sizes]
    assert small_runs.train_in(request.param, folder, *words) == 0
    return only_run(folder)


def given_by(teacher: Path) -> dict[str, Any]:
    """Return what a student's learner is given of its teacher."""
    return open_policy_of(session_of("rsl_rl", [*UNTAUGHT, f"--checkpoint={teacher}"]))


def test_a_teacher_of_another_library_acts_as_its_player_does(foreign: Path):
    library = get_library(foreign.parents[1].name)
    flags, overrides = play_parser(library).parse_with_overrides(
        [TASK, "--device=cpu", f"--checkpoint={foreign}/checkpoints/latest.pt"]
    )
    opened = open_policy(library, flags, overrides, 2)
    given = given_by(foreign)
    env = opened.env
    obs = pack({"policy": torch.rand(8, 3), "critic": torch.rand(8, 1) - 3.0})
    teacher = open_teacher(given, obs, 1, ["policy", "critic"], env.context)
    with torch.inference_mode():
        expected = opened.player.act({"policy": torch.cat((obs["policy"], obs["critic"]), dim=1)})
        assert torch.equal(teacher(obs), expected)
    assert expected.std() > 0.0
    env.close()
    with pytest.raises(CheckpointError, match=r"observes 4 values, but .* \(policy\) has 3"):
        open_teacher(given, obs, 1, ["policy"], env.context)
    with pytest.raises(CheckpointError, match="has 1 actions, but the task has 2"):
        open_teacher(given, obs, 2, ["policy", "critic"], env.context)


def test_a_distillation_resumes_with_a_teacher_whose_run_is_gone(foreign: Path, tmp_path: Path):
    """The student's checkpoint holds it: a resumed run ends like an uninterrupted one."""
    gone = tmp_path / "gone"
    shutil.copytree(foreign, gone)
    begin = [*UNTAUGHT, f"--checkpoint={gone}"]
    assert train_in(tmp_path, *begin, "--max_iterations=3", "--run_name=whole") == 0
    assert train_in(tmp_path, *begin, "--max_iterations=1", "--run_name=begun") == 0
    shutil.rmtree(gone)
    (whole,) = tmp_path.glob("logs/*/*/*_whole")
    (begun,) = tmp_path.glob("logs/*/*/*_begun/checkpoints/model_1.pt")
    flags = [TASK, "--device=cpu", "--resume", f"--checkpoint={begun}", "--max_iterations=3"]
    assert train_in(tmp_path, *flags, "--run_name=again") == 0
    (again,) = tmp_path.glob("logs/*/*/*_again")
    ends = [checkpoint_of(run, 3) for run in (whole, again)]
    for end in ends:
        end["model"]["teacher"].pop("path")
    assert timeless_digests(ends[0]) == timeless_digests(ends[1])


def test_a_student_of_the_policy_by_hand_comes_nearer_to_it_and_resumes_exactly(tmp_path: Path):
    begin = [*LIFT, *LIFT_STUDENT, "agent.algorithm.num_learning_epochs=2"]
    assert train_in(tmp_path, *begin, "--max_iterations=6", "--run_name=whole") == 0
    assert train_in(tmp_path, *begin, "--max_iterations=2", "--run_name=begun") == 0
    (whole,) = tmp_path.glob("logs/*/*/*_whole")
    words = [LIFT[0], "--device=cpu", f"--checkpoint={whole}"]
    library = get_library("rsl_rl")
    opened = open_policy(library, *play_parser(library).parse_with_overrides(words), 16)
    opened.env.reset()
    wanted = scripted_policy(get_task(LIFT[0].partition("=")[2]))(opened.env).act()
    with torch.inference_mode():
        missed = opened.player.act(opened.env.obs_buf) - wanted
    assert missed.square().mean() < 0.2 * wanted.square().mean()
    opened.env.close()
    (begun,) = tmp_path.glob("logs/*/*/*_begun/checkpoints/model_2.pt")
    resume = ["--resume", f"--checkpoint={begun}", LIFT_STUDENT[0], "--max_iterations=6"]
    assert train_in(tmp_path, *LIFT, *resume, "--run_name=again") == 0
    (again,) = tmp_path.glob("logs/*/*/*_again")
    ends = [timeless_digests(checkpoint_of(run, 6)) for run in (whole, again)]
    assert ends[0] == ends[1]


def test_only_a_student_imitates_the_policy_by_hand(tmp_path: Path, capsys):
    assert train_in(tmp_path, *LIFT, "--checkpoint=scripted") == 2
    assert "no network to begin with. Only a student imitates it" in capsys.readouterr().err


def test_a_teacher_with_a_memory_of_another_library_is_refused(foreign: Path):
    given = given_by(foreign)
    library = get_library(given["library"])
    actions = iter(range(10))
    player = SimpleNamespace(act=lambda obs: torch.full((2, 1), float(next(actions))))
    parts = {"player": player, "bound": None}
    obs = pack({"policy": torch.rand(8, 4)})
    context = DistributedContext.single("cpu")
    with (
        mock.patch.object(type(library), "load", lambda _, part: lambda *args: parts[part]),
        pytest.raises(CheckpointError, match="it has a memory, or draws its actions"),
    ):
        open_teacher(given, obs, 1, ["policy"], context)
