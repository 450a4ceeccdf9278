"""rl_games on two real ranks: what must be equal is, and it is what one process would compute."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from rl_games.common.schedulers import LinearScheduler
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from envlab.config import merge
from envlab.distributed.audit import flatten
from envlab.distributed.context import DistributedContext
from envlab.distributed.digest import digest
from envlab.registry import get_task, load_env_cfg
from envlab.rl_games.learner import RlGamesLearner
from tests.launcher import run, torchrun
from tests.rl_games.first_update import NUM_ENVS, NUM_STEPS, TASK, agent_cfg, first_update
from tests.rl_games.worker import JOBS
from tests.trained import (
    gradient_error,
    manifest_of,
    metrics_of,
    on_one_thread,
    only_run,
)

TOLERANCE = 1e-5
"""Largest error of a gradient, as a share of its tensor's largest element."""


def digests(values: dict[str, Any]) -> dict[str, str]:
    return {name: digest(value) for name, value in flatten(values).items()}


def timeless_digests(checkpoint: dict[str, Any]) -> dict[str, str]:
    """Return what two runs must agree on: all but wall time."""
    metrics = {name: value for name, value in checkpoint["metrics"].items() if name != "wall_s"}
    return digests({**checkpoint, "metrics": metrics})


@dataclass
class Pair:
    """What two ranks did in one launch."""

    folder: Path
    output: str
    first_update: list[dict[str, Any]]
    ends: dict[str, list[dict[str, Any]]]

    def run(self, job: str) -> Path:
        return only_run(self.folder / job)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp("rl_games")
    scratch = set(Path(tempfile.gettempdir()).glob("envlab_rl_games_*"))
    worker = Path(__file__).with_name("worker.py")
    code, output = run(torchrun(2, worker, folder), folder, deadline_s=180.0)
    assert code == 0, output
    assert set(Path(tempfile.gettempdir()).glob("envlab_rl_games_*")) <= scratch

    def load(name: str) -> list[dict[str, Any]]:
        files = [folder / f"{name}_rank{rank}.pt" for rank in range(2)]
        return [torch.load(file, weights_only=False) for file in files]

    return Pair(folder, output, load("first_update"), {name: load(name) for name in JOBS})


TRAINED = [name for name in JOBS if not name.startswith("stock")]


@pytest.mark.parametrize("job", TRAINED)
def test_ranks_end_bit_identical(pair: Pair, job: str):
    first, second = pair.ends[job]
    assert digests(first["model"]) == digests(second["model"])


def test_state_holds_all_that_must_be_equal(pair: Pair):
    names = " ".join(flatten(pair.ends["discrete"][0]["model"]))
    for part in (
        "networks.a2c_network.actor_mlp",
        "networks.running_mean_std.count",
        "networks.value_mean_std.running_var",
        "exp_avg_sq",
        "learning_rate",
        "entropy_coef",
        "central_value.networks.a2c_network",
        "central_value.optimizer",
        "central_value.learning_rate",
    ):
        assert part in names


def test_ranks_learn_from_different_data(pair: Pair):
    first, second = (end["obs"][0] for end in pair.ends["ddp"])
    assert not torch.isclose(first, second).all(dim=1).any()


@pytest.mark.parametrize("job", ["ddp", "discrete"])
def test_learning_rate_adapts_on_every_rank(pair: Pair, job: str):
    rates = [record["learning_rate"] for record in metrics_of(pair.run(job))]
    assert len({3e-4, *rates}) > 1
    assert rates[-1] == pair.ends[job][1]["model"]["learning_rate"]
    groups = pair.ends[job][1]["model"]["optimizer"]["param_groups"]
    assert groups[0]["lr"] == rates[-1]


@pytest.mark.parametrize(("ddp", "library"), [("ddp", "library"), ("discrete", "discrete_library")])
def test_ddp_and_the_librarys_reduction_end_alike(pair: Pair, ddp: str, library: str):
    ends = [pair.ends[name][0] for name in (ddp, library)]
    assert ends[0]["wraps"] == "PolicyDDP" != ends[1]["wraps"]
    assert digests(ends[0]["model"]) == digests(ends[1]["model"])


def test_normalisers_are_those_of_all_ranks_data(pair: Pair):
    """The library counts each sample once per pass over it, and one sample at 0 at the start."""
    passes = 4
    seen = torch.cat([obs for end in pair.ends["ddp"] for obs in end["obs"]]).double()
    state = pair.ends["ddp"][0]["model"]["networks"]
    count = passes * len(seen) + 1
    assert int(state["running_mean_std.count"]) == count == passes * 2 * 4 * 16 * 32 + 1
    mean = passes * seen.sum(dim=0) / count
    squares = passes * seen.square().sum(dim=0) + 1.0
    torch.testing.assert_close(state["running_mean_std.running_mean"], mean)
    variance = squares / count - mean.square()
    torch.testing.assert_close(state["running_mean_std.running_var"], variance)


def test_unpooled_normalisers_would_stop_the_run(pair: Pair):
    for end in pair.ends["stock_normalisers"]:
        assert "networks.running_mean_std.running_mean on rank 1 differs from" in end["error"]


def test_the_librarys_schedule_would_stop_the_run(pair: Pair):
    """Ranks without a schedule put the rate that they began with back after each minibatch."""
    for end in pair.ends["stock_schedule"]:
        assert "networks.a2c_network.sigma on rank 1 differs from rank 0" in end["error"]


def test_frames_are_counted_on_every_rank(pair: Pair):
    for end in pair.ends["ddp"]:
        assert end["frames"] == [0, 1024, 2048, 3072]  # what curricula are told
        assert end["model"]["frame"] == 4096
    assert [record["frames"] for record in metrics_of(pair.run("ddp"))] == [1024, 2048, 3072, 4096]


def test_linear_schedules_follow_the_run_on_every_rank(pair: Pair):
    """That of the central value network ends where the run does, not at max_epochs."""
    for end in pair.ends["discrete"]:
        assert end["model"]["central_value"]["learning_rate"] == pytest.approx(1e-6)


def test_one_run_directory_written_once(pair: Pair):
    directory = pair.run("ddp")
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
    assert [path.name for path in (pair.folder / "ddp").iterdir()] == ["logs"]


def test_curves_bear_the_librarys_own_tags(pair: Pair):
    events = EventAccumulator(str(pair.run("discrete")))
    events.Reload()
    tags = set(events.Tags()["scalars"])
    assert tags >= {
        *(f"losses/{name}" for name in ("a_loss", "c_loss", "entropy", "cval_loss")),
        *(f"info/{name}" for name in ("kl", "last_lr", "lr_mul", "e_clip", "epochs", "cval_lr")),
        *(f"rewards/{name}" for name in ("step", "iter", "time")),
        *(f"episode_lengths/{name}" for name in ("step", "iter", "time")),
        *(f"performance/{name}" for name in ("step_fps", "step_inference_fps", "rl_update_time")),
        *(f"envlab/{name}" for name in ("mean_return", "learning_rate")),
    }
    assert [event.step for event in events.Scalars("losses/a_loss")] == [1024, 2048]
    assert [event.step for event in events.Scalars("rewards/iter")] == [1, 2]


def test_manifest_and_checkpoints_tell_the_world(pair: Pair):
    manifest = manifest_of(pair.run("library"))
    assert manifest["world"]["size"] == 2
    assert (manifest["library"], manifest["grad_sync"]) == ("rl_games", "library")
    assert (manifest["num_envs"], manifest["global_num_envs"]) == (32, 64)
    assert manifest["frames"] == 4096


def test_nothing_but_the_first_rank_speaks(pair: Pair):
    assert "[rank 1]" not in pair.output
    assert pair.output.count("Run directory: ") == len(TRAINED)
    for chatter in ("RunningMeanStd", "build mlp", "seq_length", "fps step"):
        assert chatter not in pair.output


@pytest.fixture(scope="module")
def single_update() -> dict[str, Any]:
    """The first update of one process on all environments."""
    return on_one_thread(first_update)


def test_rollout_holds_bootstrapped_time_outs_on_both_ranks(pair: Pair, single_update):
    counts = [update["pooled"]["num_time_outs"] for update in pair.first_update]
    assert min(counts) > 0.1 * NUM_ENVS
    assert sum(counts) == single_update["num_time_outs"] < NUM_ENVS * NUM_STEPS
    halves = [update["pooled"]["initial"] for update in pair.first_update]
    assert torch.equal(torch.cat(halves), single_update["initial"])


@pytest.mark.parametrize("kind", ["pooled", "library"])
def test_averaged_gradient_of_two_ranks_is_that_of_one_process(pair: Pair, single_update, kind):
    for update in pair.first_update:
        assert gradient_error(single_update["gradients"], update[kind]["gradients"]) < TOLERANCE


@pytest.mark.parametrize("kind", ["local_advantages", "local_normalisers"])
def test_unpooled_statistics_would_be_noticed(pair: Pair, single_update, kind):
    gradients = pair.first_update[0][kind]["gradients"]
    assert gradient_error(single_update["gradients"], gradients) > 100 * TOLERANCE


def test_normalisers_after_the_first_update_are_those_of_one_process(pair: Pair, single_update):
    for update in pair.first_update:
        for name, values in single_update["buffers"].items():
            torch.testing.assert_close(
                update["pooled"]["buffers"][name], values, rtol=1e-4, atol=1e-5
            )


@pytest.mark.parametrize("keeps_the_librarys", [False, True])
def test_time_outs_bootstrap_from_the_final_observation(keeps_the_librarys: bool):
    """The library's own way is to add the value of the state before."""
    task, context = get_task(TASK), DistributedContext.single("cpu")
    env_cfg = merge(load_env_cfg(task), {"scene": {"num_envs": 4}, "seed": 1}, "env")
    env = task.make(env_cfg, context=context)
    config = {"horizon_length": 1, "minibatch_size": 4, "reward_shaper": {"scale_value": 0.5}}
    cfg = merge(agent_cfg(4), {"params": {"config": config}}, "agent")
    learner = RlGamesLearner(env, cfg, context, grad_sync="ddp")
    agent = learner.agent
    if keeps_the_librarys:
        agent.bootstraps_final_obs, agent.value_bootstrap = False, True
    seen: dict[str, Any] = {}
    learner.env.on_step = lambda rewards, ended, info: seen.update(rewards=rewards, info=info)
    limit = env.max_episode_length
    env.episode_length_buf = torch.tensor([0, limit - 1, 5, limit - 1])
    learner.start(1)
    with torch.no_grad():
        agent.play_steps()
        values = agent.get_values({"obs": seen["info"]["final_obs"]["policy"]})[:, 0]
    time_outs = torch.tensor([0.0, 1.0, 0.0, 1.0])
    expected = 0.5 * seen["rewards"] + 0.99 * values * time_outs
    found = agent.experience_buffer.tensor_dict["rewards"][0, :, 0]
    if keeps_the_librarys:
        before = agent.experience_buffer.tensor_dict["values"][0, :, 0]
        expected_there = 0.5 * seen["rewards"] + 0.99 * before * time_outs
        torch.testing.assert_close(found, expected_there)
        assert not torch.allclose(found, expected, atol=1e-4)
    else:
        torch.testing.assert_close(found, expected)
    env.close()


def test_the_librarys_linear_schedule_over_frames_would_never_move():
    schedule = LinearScheduler(1e-3, max_steps=1000, use_epochs=False)
    assert schedule.update(1e-3, 0.0, 5, 0, 0.0)[0] == 1e-3  # its agents say 0 frames, always
