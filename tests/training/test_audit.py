"""The audit covers all that an update changes, and names each divergence."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from envlab.distributed.audit import digests, flatten
from envlab.state import save
from envlab.training.launch import train
from envlab.training.loop import Training
from tests.agents import end
from tests.launcher import Launch, torchrun
from tests.live_values import live_digests
from tests.rl_games.worker import CARTPOLE, CENTRAL, LSTM
from tests.skrl.torch.worker import DQN, MAPPO, PPO, SAC
from tests.trained import DISTILLATION, SMALL

HERE = Path(__file__).parent
RND = (
    "agent.algorithm.rnd_cfg={weight: 0.1, learning_rate: 0.001, num_outputs: 1, "
    "predictor_hidden_dims: [16], target_hidden_dims: [16], state_normalization: true, "
    "reward_normalization: true}"
)
KINDS = {
    "rsl_rl": ["rsl_rl", *SMALL, RND, "+agent.obs_groups.rnd_state=[policy]"],
    "distillation": [
        *("rsl_rl", *DISTILLATION),
        *(f"agent.student.{word}" for word in ("class_name=RNNModel", "rnn_type=gru")),
    ],
    "rl_games": ["rl_games", *CARTPOLE, LSTM, *CENTRAL],
    "skrl_ppo": ["skrl", *PPO],
    "skrl_sac": ["skrl", *SAC],
    "skrl_dqn": ["skrl", *DQN, "--algorithm=dqn"],
    "skrl_mappo": ["skrl", *MAPPO],
}
FORGOTTEN = {
    "rsl_rl": r"distribution\._distribution\.|\.intrinsic_rewards$",
    "rl_games": r"\.game_|\.current_|\.obs\.|\.train_result|\.mb_rnn_states|\.central_loss$"
    r"|_step_s$",
    "skrl": r"\._g_distribution\.|\._current_|^\._seen|^\._tracked",
}
"""State that need not be kept: this iteration's samples, losses and own curves."""


@pytest.mark.parametrize("kind", KINDS)
def test_all_that_training_changes_is_in_a_checkpoint_and_audited(kind: str, tmp_path: Path):
    library, *flags = KINDS[kind]
    seen: list[tuple[dict[str, str], set[str]]] = []
    write = Training.write

    def watched(training: Training, record: Any) -> None:
        learner: Any = training.learner
        kept = {"shared": learner.model_state(), "own": save(learner)}
        seen.append((live_digests(learner), set(digests(flatten(kept)).values())))
        write(training, record)

    with mock.patch.object(Training, "write", watched), contextlib.chdir(tmp_path):
        assert train(library, [*flags, "--max_iterations=2"]) == 0
    (before, _), (after, kept) = seen
    changed = {name: found for name, found in after.items() if before.get(name) != found}
    assert len(changed) > 10
    lost = [name for name, found in changed.items() if found not in kept]
    assert [name for name in lost if not re.search(FORGOTTEN[library], name)] == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where two ranks trained an iteration with each library, and wrote the audits' messages."""
    folder = tmp_path_factory.mktemp("audits")
    launch = Launch(torchrun(2, HERE / "worker_audit.py", folder), folder)
    assert end([launch]) == [0], launch.output
    return folder


@pytest.fixture(scope="module")
def said(folder: Path) -> dict[str, dict[str, Any]]:
    """The audits' messages, by library and by the change planted on rank 1."""
    ranks = [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(2)]
    assert ranks[0] == ranks[1]
    return ranks[0]


DIVERGED = {
    "rsl_rl": {
        "parameter": "actor_state_dict.mlp.0.weight on rank 1 differs from rank 0",
        "optimizer moment": "optimizer_state_dict.state.1.exp_avg on rank 1 differs",
        "normaliser mean": "actor_state_dict.obs_normalizer._mean on rank 1 differs",
        "learning rate of the optimizer": "optimizer_state_dict.param_groups.0.lr on rank 1",
        "learning rate": "run.learning_rate on rank 1 differs from rank 0",
        "frames": "run.frames on rank 1 differs from rank 0",
        "environment seed": "environments.random.base_seed on rank 1 differs from rank 0",
        "draw counter": "environments.random.tick on rank 1 differs from rank 0",
        "environment streams": "environment streams is the same on ranks 0, 1",
        "overlapping environments": "world.first environment of rank 0 on rank 1 differs",
        "torch generator": "generators.torch is the same on ranks 0, 1, but every rank needs its",
        "numpy generator": "generators.numpy is the same on ranks 0, 1",
        "zeros": "actor_state_dict.mlp.0.weight on rank 1 differs from rank 0",
    },
    "rl_games": {
        "normaliser mean": "networks.running_mean_std.running_mean on rank 1 differs",
        "epoch": "epoch on rank 1 differs from rank 0",
        "frame": "frame on rank 1 differs from rank 0",
        "learning rate": "learning_rate on rank 1 differs from rank 0",
    },
    "skrl": {
        "normaliser mean": "observation_preprocessor.running_mean on rank 1 differs from rank 0",
        "scheduler": "schedulers.scheduler._last_lr.0 on rank 1 differs from rank 0",
        "counter": "counters._rollout on rank 1 differs from rank 0",
    },
}


def test_each_divergence_is_named(said: dict[str, dict[str, Any]]):
    for library in DIVERGED:
        for planted, words in DIVERGED[library].items():
            message = str(said[library][planted])
            assert words in message
            assert "by iteration 1:" in message
            assert "more." not in message  # no other value is named
            assert message.endswith("no checkpoint to go back to: fix the cause, and start again.")


def test_a_checkpoint_that_passed_the_audit_is_named(said: dict[str, dict[str, Any]]):
    assert "resume from the/last.pt, which passed this audit" in said["rsl_rl"]["checkpoint"]


def test_equal_ranks_pass_even_with_the_same_nan(said: dict[str, dict[str, Any]]):
    assert (said["rsl_rl"]["nothing"], said["rsl_rl"]["nan"]) == (None, None)


def scaling_of(folder: Path, library: str) -> dict[str, Any]:
    (manifest,) = folder.glob(f"logs/{library}/*/*/run.json")
    return json.loads(manifest.read_text())["scaling"]


def test_learning_rates_are_scaled_on_two_ranks_and_stay_with_the_environments_on_one(
    folder: Path, said: dict[str, dict[str, Any]], tmp_path: Path
):
    assert said["rsl_rl"]["rate"] == 2e-3
    assert scaling_of(folder, "rsl_rl") == {
        "rule": "linear",
        "factor": 2.0,
        "learning_rates": {"algorithm.learning_rate": 2e-3},
        "batch_sizes_per_process": {},
    }
    (checkpoint,) = folder.glob("logs/rsl_rl/*/*/checkpoints/model_1.pt")
    flags = ["--task=Isaac-Cartpole-v0", "--device=cpu", "--num_envs=16", "--max_iterations=2"]
    with contextlib.chdir(tmp_path):
        assert train("rsl_rl", [*flags, "--resume", f"--checkpoint={checkpoint}"]) == 0
    (metrics,) = tmp_path.glob("logs/*/*/*/metrics.jsonl")
    assert json.loads(metrics.read_text())["learning_rate"] == 2e-3  # for as many samples
    assert scaling_of(tmp_path, "rsl_rl")["rule"] == "linear"  # kept with the run


def test_a_total_of_environments_leaves_the_minibatches_as_on_one_process(
    folder: Path, said: dict[str, dict[str, Any]]
):
    # One process: 64 environments of 16 steps, 1024 samples, in minibatches of 256: 4 updates.
    sizes = {"num_actors": 32, "minibatch_size": 128, "num_minibatches": 4}
    assert said["rl_games"]["sizes"] == sizes
    sizes = scaling_of(folder, "rl_games")["batch_sizes_per_process"]
    assert sizes == {"params.config.minibatch_size": 128}
