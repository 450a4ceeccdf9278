"""skrl on two real ranks: what must be equal is, and it is what one process would compute."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from envlab.distributed.audit import flatten
from envlab.distributed.digest import digest
from tests.launcher import run, torchrun
from tests.skrl.jobs import NUM_STEPS
from tests.skrl.torch.first_update import NUM_ENVS, first_update
from tests.skrl.torch.worker import JOBS
from tests.trained import (
    gradient_error,
    manifest_of,
    metrics_of,
    on_one_thread,
    only_run,
)

TOLERANCE = 1e-5
"""Largest error of a gradient, as a share of its tensor's largest element."""
LEARNING = [
    name
    for name in JOBS
    if not name.startswith("stock") and name not in ("kl_threshold", "trpo", "cem")
]


@dataclass
class SkrlPair:
    """What two ranks end with, by job."""

    folder: Path
    output: str
    first_update: list[dict[str, Any]]
    amp: list[dict[str, Any]]
    ends: dict[str, list[dict[str, Any]]]

    def run(self, job: str) -> Path:
        return only_run(self.folder / job)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> SkrlPair:
    folder = tmp_path_factory.mktemp("skrl_pair")
    worker = Path(__file__).with_name("worker.py")
    code, output = run(torchrun(2, worker, folder), folder, deadline_s=240.0)
    assert code == 0, output

    def load(name: str) -> list[dict[str, Any]]:
        files = [folder / f"{name}_rank{rank}.pt" for rank in range(2)]
        return [torch.load(file, weights_only=False) for file in files]

    ends = {name: load(name) for name in JOBS}
    return SkrlPair(folder, output, load("first_update"), load("amp"), ends)


def digests(values: dict[str, Any]) -> dict[str, str]:
    return {name: digest(value) for name, value in flatten(values).items()}


def timeless_digests(checkpoint: dict[str, Any]) -> dict[str, str]:
    """Return what two runs must agree on: all but wall time."""
    metrics = {name: value for name, value in checkpoint["metrics"].items() if name != "wall_s"}
    return digests({**checkpoint, "metrics": metrics})


@pytest.mark.slow
@pytest.mark.parametrize("job", LEARNING)
def test_ranks_end_bit_identical(pair: SkrlPair, job: str):
    first, second = pair.ends[job]
    assert "error" not in first, first
    assert digests(first["model"]) == digests(second["model"])
    assert first["learning_rate"] == second["learning_rate"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("job", "parts"),
    [
        ("ddp", ["policy.net_container", "exp_avg_sq", "running_mean", "_last_lr", "_rollout"]),
        ("sac", ["critic_1", "target_critic_2", "log_entropy_coefficient", "entropy_optimizer"]),
        ("mappo", ["cart.policy", "pendulum.value", "cart.state_preprocessor", "schedulers.cart"]),
        ("dqn", ["target_q_network", "_update_counter"]),
    ],
)
def test_everything_that_must_be_equal_is_compared_and_saved(
    pair: SkrlPair, job: str, parts: list[str]
):
    names = " ".join(flatten(pair.ends[job][0]["model"]))
    assert [part for part in parts if part not in names] == []


@pytest.mark.slow
def test_learning_rate_adapts_and_is_equal(pair: SkrlPair):
    first, second = pair.ends["ddp"]
    assert first["learning_rate"] == second["learning_rate"] != 3e-4
    rates = [record["learning_rate"] for record in metrics_of(pair.run("ddp"))]
    assert len(set(rates)) > 1
    assert rates[-1] == first["learning_rate"]
    assert pair.ends["mappo"][0]["learning_rate"] != 3e-4


@pytest.mark.slow
def test_ranks_learn_from_different_data(pair: SkrlPair):
    first, second = (end["obs"][0] for end in pair.ends["ddp"])
    assert not torch.isclose(first, second).all(dim=-1).any()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("job", "model"),
    [
        ("", "SharedModel"),
        ("sac", "Squashed"),
        ("mappo", "GaussianModel"),
    ],
)
def test_ddp_and_the_librarys_reduction_end_with_the_same_parameters(
    pair: SkrlPair, job: str, model: str
):
    ddp, library = (
        pair.ends[name][0] for name in (job or "ddp", f"{job}_library" if job else "library")
    )
    assert (ddp["wraps"], library["wraps"]) == ("SkrlDDP", model)
    assert digests(ddp["model"]) == digests(library["model"])


@pytest.mark.slow
def test_amp_ends_bit_identical_and_independent_of_who_reduces(pair: SkrlPair):
    first, second = pair.amp
    assert digests(first["ddp"]) == digests(second["ddp"]) == digests(first["library"])
    assert "discriminator" in " ".join(flatten(first["ddp"]))


@pytest.mark.slow
def test_scalers_are_those_of_all_ranks_data(pair: SkrlPair):
    ends = pair.ends["ddp"]
    seen = torch.cat([obs for end in ends for obs in end["obs"]]).double()
    assert len(seen) == 2 * 4 * 16 * 32
    state = ends[0]["model"]["modules"]["agent"]["observation_preprocessor"]
    assert float(state["current_count"]) == 1 + len(seen)  # skrl begins with one sample of 0
    start = torch.zeros(1, 4, dtype=torch.float64)
    mean = torch.cat((start, seen)).mean(dim=0)
    torch.testing.assert_close(state["running_mean"], mean, rtol=1e-6, atol=1e-6)
    # skrl takes the unbiased variance of each mini-batch, here of 128 samples.
    var = torch.cat((start, seen)).var(dim=0, unbiased=False)
    torch.testing.assert_close(state["running_variance"], var, rtol=1e-2, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("job", "tensor"),
    [
        ("stock_scalers", r"modules\.agent\.\w+"),  # also the networks, which see scaled values
        ("stock_entropy", "entropy"),
    ],
)
def test_stock_behaviour_makes_ranks_differ(pair: SkrlPair, job: str, tensor: str):
    for end in pair.ends[job]:
        assert re.search(rf"The ranks diverged by iteration 1: .*{tensor}", end["error"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("job", "message"),
    [
        ("kl_threshold", "agent.agent.kl_threshold is 0.01, but on 2 processes"),
        ("trpo", "--algorithm trpo was asked for on 2 processes, but skrl's TRPO works on one."),
        ("cem", "--algorithm cem was asked for on 2 processes"),
    ],
)
def test_what_would_hang_is_refused_on_all_ranks(pair: SkrlPair, job: str, message: str):
    for end in pair.ends[job]:
        assert message in end["error"]
    assert not (pair.folder / job / "logs").exists()


@pytest.mark.slow
def test_one_run_directory_written_once(pair: SkrlPair):
    directory = pair.run("ddp")
    assert directory.name.endswith("_ppo_torch")
    assert [path.name for path in (pair.folder / "ddp").iterdir()] == ["logs"]
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
    assert [record["frames"] for record in metrics_of(directory)] == [1024, 2048, 3072, 4096]
    manifest = manifest_of(directory)
    assert (manifest["algorithm"], manifest["ml_framework"]) == ("ppo", "torch")


@pytest.mark.slow
def test_tracking_data_is_dropped_on_every_rank_and_its_losses_reported(pair: SkrlPair):
    assert [end["tracked"] for end in pair.ends["sac"]] == [0, 0]
    losses = metrics_of(pair.run("sac"))[-1]["losses"]
    assert {"Loss / Policy loss", "Loss / Critic loss", "Loss / Entropy loss"} <= set(losses)
    assert "Loss / Value loss" in metrics_of(pair.run("ddp"))[0]["losses"]


@pytest.mark.slow
def test_no_rank_but_the_first_speaks(pair: SkrlPair):
    assert "[rank 1]" not in pair.output
    assert "\x1b[" not in pair.output  # skrl's coloured handler


@pytest.fixture(scope="module")
def single_update() -> dict[str, Any]:
    """The first update of one process on all environments."""
    return on_one_thread(first_update)


@pytest.mark.slow
def test_1_x_1024_and_2_x_512_environments_start_in_the_same_states(pair, single_update):
    halves = [update["pooled"]["initial"] for update in pair.first_update]
    assert [len(half) for half in halves] == [512, 512]
    assert torch.equal(torch.cat(halves), single_update["initial"])


@pytest.mark.slow
def test_rollout_holds_bootstrapped_time_outs_on_both_ranks(pair, single_update):
    counts = [update["pooled"]["num_time_outs"] for update in pair.first_update]
    assert min(counts) > 0.1 * NUM_ENVS
    assert sum(counts) == single_update["num_time_outs"] < NUM_ENVS * NUM_STEPS


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pooled", "library"])
def test_averaged_gradient_of_two_ranks_is_that_of_one_process(pair, single_update, kind):
    for update in pair.first_update:
        assert gradient_error(single_update["gradients"], update[kind]["gradients"]) < TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["local_advantages", "local_scalers"])
def test_unpooled_statistics_would_be_noticed(pair, single_update, kind):
    gradients = pair.first_update[0][kind]["gradients"]
    assert gradient_error(single_update["gradients"], gradients) > 100 * TOLERANCE


@pytest.mark.slow
def test_scalers_after_the_first_update_are_those_of_one_process(pair, single_update):
    for update in pair.first_update:
        for name, values in single_update["buffers"].items():
            torch.testing.assert_close(
                update["pooled"]["buffers"][name], values, rtol=1e-5, atol=1e-6
            )
