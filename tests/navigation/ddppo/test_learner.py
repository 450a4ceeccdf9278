"""Training with DD-PPO on one process: exact resume, play and export, tasks of all kinds."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
import torch

from envlab.cli import play
from envlab.training.launch import train
from envlab_navigation.ddppo.preemption import needed
from tests.rsl_rl.test_resume import resumed_exactly
from tests.trained import bound_of, metrics_of, only_run

SMALL = [
    *("--task=Isaac-Cartpole-v0", "--headless", "--device=cpu", "--num_envs=16"),
    *("agent.num_steps_per_env=8", "agent.algorithm.num_mini_batches=2"),
    *("agent.algorithm.num_learning_epochs=2", "agent.model.hidden_dim=16"),
    *("agent.save_interval=2", "agent.keep_checkpoints=0"),
]


def train_in(folder: Path, *arguments: str) -> int:
    with contextlib.chdir(folder):
        return train("ddppo", arguments)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ddppo")
    assert train_in(folder, *SMALL, "--max_iterations=4") == 0
    return only_run(folder)


def test_a_resumed_run_ends_bit_identical(trained: Path, tmp_path: Path):
    resumed_exactly(train_in, SMALL, trained, tmp_path)


def test_metrics_hold_the_steps_of_each_rank(trained: Path):
    records = metrics_of(trained)
    assert [one["details"]["rank_steps"] for one in records] == [[8]] * 4
    losses = {"ppo/surrogate", "ppo/value", "ppo/entropy", "grad_norm"}
    assert losses <= records[0]["losses"].keys()


@pytest.mark.long
def test_a_trained_policy_plays(trained: Path, capsys):
    checkpoint = trained / "checkpoints/model_4.pt"
    words = [SMALL[0], f"--checkpoint={checkpoint}", "--num_envs=4", "--headless", "--device=cpu"]
    with contextlib.chdir(trained):
        assert play("ddppo", words) == 0
    assert "over 4 episodes" in capsys.readouterr().out
    script = torch.jit.load(str(trained / "exported/policy.pt"))
    memory, last_actions = torch.randn(3, 16), torch.zeros(3, 1)
    obs, continues = torch.randn(3, 4), torch.zeros(3, dtype=torch.bool)
    actions, new_memory = script(obs, memory, last_actions, continues)
    assert actions.shape == (3, 1)
    assert new_memory.shape == (3, 16)
    begins, _ = script(obs, memory, last_actions, ~continues)
    assert not torch.equal(begins, actions)  # the memory counts, where no episode begins
    onnxruntime = pytest.importorskip(
        "onnxruntime", reason="needs onnxruntime: pip install -e '.[export]'"
    )
    session = onnxruntime.InferenceSession(str(trained / "exported/policy.onnx"))
    names = ("policy", "memory", "last_actions", "starts")
    assert [one.name for one in session.get_inputs()] == [*names]
    named = zip(names, (obs, memory, last_actions, continues), strict=True)
    found = session.run(None, {name: value.numpy() for name, value in named})
    torch.testing.assert_close(torch.from_numpy(found[0]), actions)
    torch.testing.assert_close(torch.from_numpy(found[1]), new_memory)


@pytest.mark.parametrize(
    "flags",
    [
        ["--task=Isaac-Cartpole-Depth-Camera-Direct-v0", "agent.precision=bfloat16"],
        ["--task=gym:CartPole-v1", "agent.model.memory=lstm"],
        ["--task=Isaac-Cart-Double-Pendulum-Direct-v0", "agent.model.memory=none"],
    ],
)
def test_tasks_of_all_kinds_train(flags: list[str], tmp_path: Path, monkeypatch):
    # A processor without bfloat16 computes the same, slowly.
    monkeypatch.setattr("envlab.precision.has_bfloat16", lambda device: True)
    assert train_in(tmp_path, *SMALL, *flags, "--max_frames=100") == 0
    (record,) = metrics_of(only_run(tmp_path))
    assert record["frames"] == 16 * 8  # the first iteration ends beyond the budget


def test_enough_ranks_are_a_share_and_never_all():
    for threshold, world_size, expected in (
        *((0.7, 2, 1), (0.7, 3, 2), (0.6, 2, 1), (0.6, 5, 3), (0.7, 10, 7), (0.55, 20, 11)),
        *((0.99, 8, 7), (0.1, 8, 1), (1.0, 8, None), (0.7, 1, None)),
    ):
        assert needed(threshold, world_size) == expected


def test_actions_are_counted_where_they_are_clipped():
    assert bound_of("ddppo", "--task=Isaac-Cartpole-v0") is None
    bound = bound_of("ddppo", "--task=Isaac-Cartpole-v0", "agent.clip_actions=3")
    assert bound is not None
    assert (bound.half_width, bound.frees) == (3.0, "agent.clip_actions=6")
