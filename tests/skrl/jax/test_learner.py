"""skrl on JAX on two real ranks: what must be equal is, and is what one process would compute."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("jax", reason="skrl on JAX needs jax")
pytest.importorskip("flax", reason="skrl on JAX needs flax")

from envlab.config import merge
from envlab.distributed.audit import flatten
from envlab.distributed.context import DistributedContext
from envlab.distributed.digest import digest
from envlab.registry import get_task, load_env_cfg
from envlab.skrl.cfg import SkrlCfg
from envlab.skrl.jax.arrays import view_in_torch
from envlab.skrl.jax.learner import make_learner
from tests.launcher import run, torchrun
from tests.rsl_rl.test_learner import TOLERANCE, gradient_error
from tests.rsl_rl.test_resume import digests as all_digests
from tests.runs.test_directory import timeless
from tests.skrl.jax.first_update import NUM_ENVS, first_update
from tests.skrl.jax.runs import PPO, TRAIN, compiled_quickly, skrl_launch, train_in
from tests.skrl.jobs import step_to_a_time_limit
from tests.trained import checkpoint_of, manifest_of, metrics_of, only_run

pytestmark = pytest.mark.slow


@dataclass
class JaxPair:
    """What two ranks found, by rank, and what the launch printed."""

    folder: Path
    output: str
    ranks: list[dict[str, Any]]


@pytest.fixture(scope="module", autouse=True)
def quick(compiled: Path) -> Iterator[None]:
    with compiled_quickly(compiled):
        yield


@pytest.fixture(scope="module")
def pair(quick: None, tmp_path_factory: pytest.TempPathFactory) -> JaxPair:
    folder = tmp_path_factory.mktemp("pair")
    worker = Path(__file__).with_name("worker.py")
    code, output = run(skrl_launch(2, worker, folder), folder, deadline_s=240.0)
    assert code == 0, output
    files = [folder / f"rank{rank}.pt" for rank in range(2)]
    return JaxPair(folder, output, [torch.load(file, weights_only=False) for file in files])


@pytest.fixture(scope="module")
def single_update(quick: None) -> dict[str, Any]:
    """The first update of one process on all environments."""
    return first_update(DistributedContext.single("cpu"))


def digests(values: dict[str, Any]) -> dict[str, str]:
    return {name: digest(value) for name, value in flatten(values).items()}


@pytest.mark.parametrize("algorithm", ["ppo", "sac"])
def test_ranks_end_bit_identical(pair: JaxPair, algorithm: str):
    first, second = (rank[algorithm]["model"] for rank in pair.ranks)
    assert digests(first) == digests(second)
    names = " ".join(flatten(first))
    wanted = {
        "ppo": ("agent.value.", "value_optimizer.1.nu", "value_preprocessor.running_variance"),
        "sac": ("agent.target_critic_2.", "critic_2_optimizer.0.mu", "log_entropy_coefficient"),
    }
    for part in ("agent.policy.params", "policy_learning_rate", *wanted[algorithm]):
        assert part in names


def test_unaveraged_gradients_would_be_noticed(pair: JaxPair):
    for rank in pair.ranks:
        assert "arrays.agent.policy.params" in rank["unaveraged"]
        assert "on rank 1 differs from rank 0" in rank["unaveraged"]


def test_ranks_learn_from_different_data(pair: JaxPair):
    first, second = (rank["ppo"]["obs"][0] for rank in pair.ranks)
    assert not torch.isclose(first, second).all(dim=1).any()


def test_learning_rate_adapts_and_is_equal(pair: JaxPair):
    first, second = (rank["ppo"]["learning_rate"] for rank in pair.ranks)
    assert first == second != 3e-4
    rates = [record["learning_rate"] for record in metrics_of(only_run(pair.folder / "ppo"))]
    assert len(set(rates)) > 1
    assert rates[-1] == first


def test_learning_rate_follows_the_divergence_of_all_ranks(pair: JaxPair):
    rates = [rank["learning_rates"] for rank in pair.ranks]
    assert rates[0]["pooled"] == rates[1]["pooled"] == pytest.approx(1e-3 / 1.5)
    assert rates[0]["stock"] > 1e-3 > rates[1]["stock"]


def test_gradient_of_the_entropy_coefficient_is_averaged(pair: JaxPair):
    """It differs, so that the coefficients, which end equal, would not."""
    first, second = (torch.stack(rank["sac"]["entropy_gradients"]) for rank in pair.ranks)
    assert len(first) == 2 * (8 + 6)  # nothing is learned in the first two steps
    assert not (first == second).any()


def test_normalisers_are_those_of_all_ranks_data(pair: JaxPair):
    seen = torch.cat([obs for rank in pair.ranks for obs in rank["ppo"]["obs"]]).double()
    state = pair.ranks[0]["ppo"]["model"]["arrays"]["agent.observation_preprocessor"]
    assert int(state["current_count"]) == 1 + len(seen) == 1 + 2 * 4 * 16 * 32  # skrl begins at 1
    weight = len(seen) / (1 + len(seen))
    mean = weight * seen.mean(dim=0)
    torch.testing.assert_close(state["running_mean"].double(), mean, rtol=1e-3, atol=1e-4)
    var = weight * (seen.var(dim=0) + seen.mean(dim=0).square() * (1 - weight))
    torch.testing.assert_close(state["running_variance"].double(), var, rtol=1e-2, atol=1e-3)


@pytest.mark.long  # test_resume has one process
def test_two_ranks_resume_under_another_launcher_bit_identically(pair: JaxPair, tmp_path: Path):
    whole = only_run(pair.folder / "ppo")
    path = f"--checkpoint={whole}/checkpoints/model_2.pt"
    flags = [*PPO, "--distributed", "--max_iterations=4", "--resume", path]
    code, output = run(torchrun(2, TRAIN, *flags), tmp_path, deadline_s=180.0)
    assert code == 0, output
    assert "Resuming exactly" in output
    resumed = only_run(tmp_path)
    assert all_digests(checkpoint_of(resumed, 4)) == all_digests(checkpoint_of(whole, 4))
    assert timeless(resumed) == timeless(whole)[2:]


def test_one_run_directory_written_once(pair: JaxPair):
    directory = only_run(pair.folder / "ppo")
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
    assert sorted(path.name for path in (pair.folder / "ppo").iterdir()) == ["logs"]


def test_manifest_tells_the_world(pair: JaxPair):
    manifest = manifest_of(only_run(pair.folder / "ppo"))
    assert (manifest["world"]["size"], manifest["world"]["backend"]) == (2, "gloo")
    assert manifest["ml_framework"] == "jax"
    assert [rank["local_world_size"] for rank in pair.ranks] == [2, 2]


def test_no_rank_but_the_first_speaks(pair: JaxPair):
    assert "[rank 1]" not in pair.output
    assert "Broadcasting" not in pair.output
    assert pair.output.count("Run directory: ") == 2


def test_jax_takes_no_more_threads_than_the_rank_has(pair: JaxPair):
    num_threads = DistributedContext.single("cpu").num_threads
    for rank in pair.ranks:
        eigen = [name for name in rank["threads"] if "Eigen" in name]
        assert 1 <= len(eigen) <= max(1, num_threads // 2)


def test_halves_of_the_environments_start_in_the_same_states(pair: JaxPair, single_update):
    halves = [rank["first_update"]["initial"] for rank in pair.ranks]
    assert [len(half) for half in halves] == [NUM_ENVS // 2] * 2
    assert torch.equal(torch.cat(halves), single_update["initial"])


def test_rollout_holds_time_outs_on_both_ranks(pair: JaxPair, single_update):
    counts = [rank["first_update"]["num_time_outs"] for rank in pair.ranks]
    assert min(counts) > 0.1 * NUM_ENVS
    assert sum(counts) == single_update["num_time_outs"]


def test_averaged_gradient_of_two_ranks_is_that_of_one_process(pair: JaxPair, single_update):
    for rank in pair.ranks:
        update = rank["first_update"]
        assert gradient_error(single_update["gradients"], update["gradients"]) < TOLERANCE
        for name, values in single_update["scalers"].items():
            torch.testing.assert_close(update["scalers"][name], values, rtol=1e-4, atol=1e-5)


def test_an_update_tells_of_progress_at_each_step_of_an_optimizer(pair: JaxPair, single_update):
    """Else the watchdog would take an update longer than --timeout_s for a hang."""
    assert single_update["num_marks"] == 2  # one mini-batch: policy and value
    for rank in pair.ranks:
        assert rank["first_update"]["num_marks"] > 2


def test_unpooled_advantages_would_be_noticed(pair: JaxPair, single_update):
    gradients = pair.ranks[0]["local_advantages"]["gradients"]
    assert gradient_error(single_update["gradients"], gradients) > 100 * TOLERANCE


def test_unpooled_normalisers_would_be_noticed(pair: JaxPair, single_update):
    first, second = (rank["local_scalers"]["scalers"] for rank in pair.ranks)
    for name in ("agent.observation_preprocessor", "agent.value_preprocessor"):
        assert not torch.equal(first[f"{name}.running_mean"], second[f"{name}.running_mean"])
    gradients = pair.ranks[0]["local_scalers"]["gradients"]
    assert gradient_error(single_update["gradients"], gradients) > 100 * TOLERANCE


def test_time_outs_bootstrap_from_the_final_observation(quick: None):
    task = get_task("Isaac-Cartpole-v0")
    context = DistributedContext.single("cpu")
    env = task.make(
        merge(load_env_cfg(task), {"scene": {"num_envs": 4}, "seed": 1}, "env"), context=context
    )
    cfg = SkrlCfg.of("ppo", "jax").with_task_values({"agent": {"time_limit_bootstrap": True}})
    learner = make_learner(env, cfg.resolved(), context)
    agent = learner.agent
    step, _ = step_to_a_time_limit(learner)
    values, _ = agent.value.act({"observations": step.final_observations}, role="value")
    is_over = torch.tensor([0.0, 1.0, 0.0, 1.0])
    final, current = (view_in_torch(v) for v in (step.final_observations, step.observations))
    assert torch.equal((final != current).any(dim=1).float(), is_over)
    expected = step.returns + 0.99 * view_in_torch(values)[:, 0] * is_over
    torch.testing.assert_close(view_in_torch(agent.memory.tensors["rewards"])[0, :, 0], expected)
    env.close()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--grad_sync=library"], "--grad_sync is library, but skrl's own way"),
        (["--algorithm=trpo"], "TRPO was asked for on JAX, but only PPO, A2C"),
        (["agent.agent.mini_batches=1000"], "agent.agent.mini_batches is 1000, but there are only"),
        (["agent.models.policy.clip_actions=true"], "clip_actions is true, but the task's actions"),
        (["agent.agent.learning_rate_scheduler=StepLR"], "'StepLR', but on JAX it must be null"),
        (
            ["agent.models.policy={class:MultivariateGaussianMixin}"],
            "which skrl has on PyTorch only",
        ),
    ],
)
def test_bad_input_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
):
    arguments = PPO[:4] if "--algorithm=trpo" in words else PPO
    assert train_in(tmp_path, *arguments, "--max_iterations=1", *words) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if "error: " in line]
    assert len(errors) == 1
    assert message in errors[0]
    assert list(tmp_path.iterdir()) == []
