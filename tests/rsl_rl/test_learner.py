"""rsl_rl on two real ranks: what must be equal is, and it is what one process would compute."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from envlab.config import merge
from envlab.distributed.audit import flatten
from envlab.distributed.context import DistributedContext
from envlab.distributed.digest import digest
from envlab.registry import get_task, load_env_cfg
from envlab.rsl_rl.cfg import RslRlCfg
from envlab.rsl_rl.learner import RslRlLearner
from tests.launcher import run, torchrun
from tests.rsl_rl.first_update import NUM_ENVS, NUM_STEPS, TASK, first_update
from tests.trained import (
    SMALL,
    TrainedPair,
    checkpoint_of,
    gradient_error,
    manifest_of,
    metrics_of,
    on_one_thread,
    only_run,
)

TOLERANCE = 1e-5
"""Largest error of a gradient, as a share of its tensor's largest element; measured: 3e-6."""


def digests(values: dict[str, Any]) -> dict[str, str]:
    return {name: digest(value) for name, value in flatten(values).items()}


@pytest.mark.parametrize("grad_sync", ["ddp", "library"])
def test_ranks_end_bit_identical(trained_pair: TrainedPair, grad_sync: str):
    first, second = trained_pair.ends[grad_sync]
    assert digests(first["model"]) == digests(second["model"])
    names = " ".join(flatten(first["model"]))
    for part in ("actor_state_dict.mlp", "critic_state_dict.mlp", "exp_avg_sq", "obs_normalizer"):
        assert part in names


def test_learning_rate_adapts_and_is_equal(trained_pair: TrainedPair):
    first, second = trained_pair.ends["ddp"]
    assert first["learning_rate"] == second["learning_rate"] != 1e-3
    rates = [record["learning_rate"] for record in metrics_of(trained_pair.run("ddp"))]
    assert len(set(rates)) > 1
    assert rates[-1] == first["learning_rate"]


def test_ranks_learn_from_different_data(trained_pair: TrainedPair):
    first, second = (end["obs"][0] for end in trained_pair.ends["ddp"])
    assert not torch.isclose(first, second).all(dim=1).any()


def test_ddp_and_the_librarys_reduction_end_with_the_same_parameters(trained_pair: TrainedPair):
    ddp, library = (trained_pair.ends[name][0] for name in ("ddp", "library"))
    assert (ddp["wraps"], library["wraps"]) == ("JointModule", "MLPModel")
    assert digests(ddp["model"]) == digests(library["model"])


def test_normalisers_are_those_of_all_ranks_data(trained_pair: TrainedPair):
    ends = trained_pair.ends["ddp"]
    seen = torch.cat([obs for end in ends for obs in end["obs"]]).double()
    for model in ("actor_state_dict", "critic_state_dict"):
        state = ends[0]["model"][model]
        assert int(state["obs_normalizer.count"]) == len(seen) == 2 * 4 * 16 * 32
        mean, var = seen.mean(dim=0), seen.var(dim=0, unbiased=False)
        torch.testing.assert_close(
            state["obs_normalizer._mean"][0].double(), mean, rtol=1e-4, atol=1e-5
        )
        torch.testing.assert_close(
            state["obs_normalizer._var"][0].double(), var, rtol=1e-4, atol=1e-5
        )


def test_one_run_directory_written_once(trained_pair: TrainedPair):
    directory = trained_pair.run("ddp")
    files = sorted(str(path.relative_to(directory)) for path in directory.rglob("*.*"))
    events = [name for name in files if "tfevents" in name]
    assert len(events) == 1
    assert [name for name in files if name not in events] == [
        "checkpoints/best.pt",
        "checkpoints/latest.pt",
        "checkpoints/model_2.pt",
        "checkpoints/model_4.pt",
        "metrics.jsonl",
        "params/agent.yaml",
        "params/env.yaml",
        "run.json",
    ]
    assert [record["iteration"] for record in metrics_of(directory)] == [1, 2, 3, 4]


def test_manifest_tells_the_world(trained_pair: TrainedPair):
    manifest = manifest_of(trained_pair.run("library"))
    assert manifest["world"]["size"] == 2
    assert manifest["world"]["backend"] == "gloo"
    assert (manifest["num_envs"], manifest["global_num_envs"]) == (32, 64)
    assert manifest["grad_sync"] == "library"
    assert manifest["frames"] == 4 * 16 * 64


def test_metrics_count_frames_of_all_ranks(trained_pair: TrainedPair):
    frames = [record["frames"] for record in metrics_of(trained_pair.run("ddp"))]
    assert frames == [1024, 2048, 3072, 4096]


def test_no_rank_but_the_first_speaks(trained_pair: TrainedPair):
    assert "[rank 1]" not in trained_pair.output
    assert trained_pair.output.count("Run directory: ") == 2  # one per training


@pytest.fixture(scope="module")
def single_update() -> dict[str, Any]:
    """The first update of one process on all environments."""
    return on_one_thread(first_update)


def test_1_x_1024_and_2_x_512_environments_start_in_the_same_states(trained_pair, single_update):
    halves = [update["pooled"]["initial"] for update in trained_pair.first_update]
    assert [len(half) for half in halves] == [512, 512]
    assert torch.equal(torch.cat(halves), single_update["initial"])


def test_rollout_holds_bootstrapped_time_outs_on_both_ranks(trained_pair, single_update):
    counts = [update["pooled"]["num_time_outs"] for update in trained_pair.first_update]
    assert min(counts) > 0.1 * NUM_ENVS
    assert sum(counts) == single_update["num_time_outs"] < NUM_ENVS * NUM_STEPS


@pytest.mark.parametrize("kind", ["pooled", "library"])
def test_averaged_gradient_of_two_ranks_is_that_of_one_process(trained_pair, single_update, kind):
    for update in trained_pair.first_update:
        assert gradient_error(single_update["gradients"], update[kind]["gradients"]) < TOLERANCE


def test_unpooled_advantages_would_be_noticed(trained_pair, single_update):
    gradients = trained_pair.first_update[0]["local"]["gradients"]
    assert gradient_error(single_update["gradients"], gradients) > 100 * TOLERANCE


def test_normalisers_after_the_first_update_are_those_of_one_process(trained_pair, single_update):
    for update in trained_pair.first_update:
        for name, values in single_update["buffers"].items():
            torch.testing.assert_close(
                update["pooled"]["buffers"][name], values, rtol=1e-4, atol=1e-5
            )


def test_time_outs_bootstrap_from_the_final_observation():
    task = get_task(TASK)
    context = DistributedContext.single("cpu")
    env_cfg = merge(load_env_cfg(task), {"scene": {"num_envs": 4}, "seed": 1}, "env")
    env = task.make(env_cfg, context=context)
    learner = RslRlLearner(env, RslRlCfg(), context)
    limit = env.max_episode_length
    env.episode_length_buf = torch.tensor([0, limit - 1, 5, limit - 1])
    with torch.inference_mode():
        actions = learner.alg.act(learner.env.get_observations())
        obs, rewards, dones, extras = learner.env.step(actions)
        values = learner.alg.critic(extras["final_obs"]).squeeze(1)
        plain = rewards.clone()
        learner.alg.process_env_step(obs, rewards, dones, extras)
    assert dones.tolist() == [False, True, False, True]
    assert not torch.equal(obs["policy"][1], extras["final_obs"]["policy"][1])
    expected = plain + 0.99 * values * torch.tensor([0.0, 1.0, 0.0, 1.0])
    torch.testing.assert_close(learner.alg.storage.rewards[0, :, 0], expected)
    assert torch.equal(rewards, plain)  # the episode's return must not hold the bootstrap
    env.close()


def test_audit_stops_a_run_whose_ranks_differ(tmp_path: Path):
    script = Path(__file__).with_name("worker_broken.py")
    flags = [*SMALL, "--distributed", "--max_iterations=50", "agent.save_interval=3"]
    code, output = run(torchrun(2, script, *flags), tmp_path)
    assert code != 0
    assert [(tmp_path / f"exit_{rank}").read_text() for rank in range(2)] == ["2", "2"], output
    (error,) = re.findall(r"^error: .*", output, re.MULTILINE)
    assert "by iteration 3: actor_state_dict.mlp.0.weight on rank 1 differs from rank 0." in error
    manifest = manifest_of(only_run(tmp_path))
    assert manifest["status"] == "failed"
    assert "RankDivergenceError" in manifest["error"]
    assert "actor_state_dict.mlp.0.weight on rank 1" in manifest["error"]
    with pytest.raises(FileNotFoundError):
        checkpoint_of(only_run(tmp_path), 3)
