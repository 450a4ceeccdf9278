"""A student that sees by a depth camera and remembers: ranks, and its exported step.

Its resume is tested in ``test_teachers.py``.
"""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import pytest
import torch

from envlab.cli import main
from envlab.libraries import get_library
from envlab.training.arguments import play_parser
from envlab.training.play import open_policy
from tests.launcher import ROOT, torchrun
from tests.learner_contract import LearnerContract
from tests.rsl_rl.worker_distillation import first_update
from tests.rsl_rl.worker_recurrent_cnn import CAMERA, GROUND, LESSON, STUDENT
from tests.trained import (
    Pair,
    gradient_error,
    launch_pair,
    metrics_of,
    on_one_thread,
    only_run,
    train_in,
)

POLICIES = ROOT / "source/envlab_policies"
TASK = f"--task={LESSON.task}"
WORDS = [
    *(TASK, "--device=cpu", "--headless", "--num_envs=4"),
    "--agent=rsl_rl_distillation_cfg_entry_point",
    f"--checkpoint={POLICIES}/Isaac-Velocity-Rough-Unitree-Go2-v0/rsl_rl/policy.pt",
    *("agent.teacher.hidden_dims=[256,128,64]", "agent.num_steps_per_env=8"),
    *("agent.algorithm.gradient_length=8", "agent.save_interval=1", "agent.keep_checkpoints=0"),
    *(f"agent.student.{key}={STUDENT[key]}" for key in ("hidden_dims", "rnn_hidden_dim")),
    *(f"agent.student.cnn_cfg.{key}={value}" for key, value in STUDENT["cnn_cfg"].items()),
    *(f"env.sensors.depth_camera.pattern_cfg.{key}={value}" for key, value in CAMERA.items()),
    *(f"env.scene.terrain.terrain_generator.{key}={value}" for key, value in GROUND.items()),
]
CLIP = 0.1


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp("seeing_pair")
    worker = Path(__file__).with_name("worker_recurrent_cnn.py")
    flags = [*WORDS, "--distributed", "--max_iterations=2"]
    return launch_pair(folder, torchrun(2, worker, folder, *flags), ["trained", "by_ground"])


@pytest.fixture(scope="module")
def single_update() -> dict[str, Any]:
    return on_one_thread(lambda context: first_update(context, lesson=LESSON))


class TestRecurrentCNN(LearnerContract):
    STATE = {
        "trained": ["student_state_dict.cnns.depth", "student_state_dict.rnn", "exp_avg_sq"],
        "by_ground": ["student_state_dict.cnns.depth", "teacher_state_dict.models.steps"],
    }
    MAIN = "trained"
    AVERAGED = ("pooled",)
    TOLERANCE = 1e-6

    def test_gradients_that_are_not_averaged_would_be_noticed(self, pair: Pair, single_update):
        for update in pair.first_update:
            error = gradient_error(single_update["gradients"], update["local"]["gradients"])
            assert error > 1000 * self.TOLERANCE

    def test_convolutions_and_memory_have_gradients(self, single_update):
        gradients = single_update["gradients"]
        for part in ("cnns.depth.0.weight", "rnn.rnn.weight_ih_l0", "rnn.rnn.weight_hh_l0"):
            assert float(gradients[part].abs().max()) > 0.0, part

    def test_two_ranks_train(self, pair: Pair):
        for job in self.STATE:
            records = metrics_of(pair.run(job))
            assert [record["frames"] for record in records] == [64, 128]


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The words that choose the policy of a run of an iteration on one process."""
    folder = tmp_path_factory.mktemp("seeing")
    assert train_in(folder, *WORDS, "--max_iterations=1") == 0
    checkpoint = f"--checkpoint={only_run(folder)}/checkpoints/model_1.pt"
    agent = "--agent=rsl_rl_distillation_cfg_entry_point"
    return [TASK, "--device=cpu", agent, f"agent.clip_actions={CLIP}", checkpoint]


@pytest.fixture(scope="module")
def exported(words: list[str]) -> tuple[Path, str]:
    """The folder of ``envlab export``, and its output."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        assert main(["export", "rsl_rl", *words]) == 0
    return Path(words[-1].partition("=")[2]).parents[1] / "exported", output.getvalue()


@pytest.mark.long
def test_files_act_as_the_student_does_over_several_steps(
    words: list[str], exported: tuple[Path, str]
):
    """In both files the memory is an input and an output, and the image is as in the task."""
    onnxruntime = pytest.importorskip(
        "onnxruntime", reason="needs onnxruntime: pip install -e '.[export]'"
    )
    library = get_library("rsl_rl")
    opened = open_policy(library, *play_parser(library).parse_with_overrides(words), 2)
    env = opened.env
    env.episode_length_buf = torch.ones(2, dtype=torch.long)
    steps = []
    with torch.inference_mode():
        for _ in range(5):
            obs = {name: env.obs_buf[name].clone() for name in ("policy", "depth")}
            obs["depth"] += 0.2 * torch.rand(obs["depth"].shape)  # ground and sky differ little
            steps.append((obs, opened.player.act({**env.obs_buf, **obs}).clone()))
            env.step(steps[-1][1])
    env.close()
    script = torch.jit.load(str(exported[0] / "policy.pt"))
    session = onnxruntime.InferenceSession(str(exported[0] / "policy.onnx"))
    assert [one.name for one in session.get_inputs()] == ["obs", "depth", "h_in"]
    assert [one.name for one in session.get_outputs()] == ["actions", "h_out"]

    def run(obs: dict[str, torch.Tensor], memory: torch.Tensor) -> list[torch.Tensor]:
        values = {"obs": obs["policy"], "depth": obs["depth"], "h_in": memory}
        found = session.run(None, {name: value.numpy() for name, value in values.items()})
        return [torch.from_numpy(value) for value in found]

    start = ours = theirs = torch.zeros(2, 1, STUDENT["rnn_hidden_dim"])
    with torch.inference_mode():
        for obs, expected in steps:
            before = theirs
            actions, ours = script(obs["policy"], obs["depth"], ours)
            torch.testing.assert_close(actions, expected, rtol=0.0, atol=1e-5)
            actions, theirs = run(obs, before)
            torch.testing.assert_close(actions, expected, rtol=0.0, atol=1e-5)
    assert not torch.allclose(run(obs, start)[0], expected, rtol=0.0, atol=1e-4)
    obs["depth"] = torch.zeros_like(obs["depth"])
    assert not torch.allclose(run(obs, before)[0], expected, rtol=0.0, atol=1e-4)
    is_clipped = expected.abs() == CLIP
    assert is_clipped.any()
    assert not is_clipped.all()


def test_a_player_without_a_camera_is_reported(exported: tuple[Path, str], capsys):
    folder, output = exported
    assert "No deploy.yaml: The policy sees images (depth), and deploy.py, which has no" in output
    assert main(["deploy", str(folder)]) == 2
    error = capsys.readouterr().err
    assert "needs depth, h_in in addition to obs, but this player has neither" in error
    assert error.count("\n") == 1
