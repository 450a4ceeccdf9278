"""rl_games on two real ranks: they agree, and compute the same as one process would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from rl_games.common.schedulers import LinearScheduler
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.registry import get_task, load_env_cfg
from envlab.rl_games.learner import RlGamesLearner
from tests.launcher import torchrun
from tests.learner_contract import OnPolicyContract
from tests.rl_games.first_update import TASK, agent_cfg, first_update
from tests.rl_games.worker import JOBS
from tests.trained import Pair, launch_pair, metrics_of, on_one_thread


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp("rl_games")
    scratch = tmp_path_factory.mktemp("scratch")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(scratch))
        command = torchrun(2, Path(__file__).with_name("worker.py"), folder)
        found = launch_pair(folder, command, JOBS)
    assert not list(scratch.glob("envlab_rl_games_*"))
    return found


@pytest.fixture(scope="module")
def single_update() -> dict[str, Any]:
    return on_one_thread(first_update)


class TestRlGames(OnPolicyContract):
    LIBRARY = "rl_games"
    STATE = {name: [] for name in JOBS if not name.startswith("stock")} | {
        "discrete": [
            "networks.a2c_network.actor_mlp",
            "networks.running_mean_std.count",
            "networks.value_mean_std.running_var",
            "exp_avg_sq",
            "learning_rate",
            "entropy_coef",
            "central_value.networks.a2c_network",
            "central_value.optimizer",
            "central_value.learning_rate",
        ]
    }
    FIRST_RATE = 3e-4
    REDUCTIONS = [("ddp", "library", "Network"), ("discrete", "discrete_library", "Network")]
    UNPOOLED = ["local_advantages", "local_normalisers"]
    NUM_TRAININGS = len(STATE)
    CHATTER = ["RunningMeanStd", "build mlp", "seq_length", "fps step"]


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
        assert end["frames"] == [0, 1024, 2048, 3072]  # passed to curricula
        assert end["model"]["frame"] == 4096
    assert [record["frames"] for record in metrics_of(pair.run("ddp"))] == [1024, 2048, 3072, 4096]


def test_linear_schedules_follow_the_run_on_every_rank(pair: Pair):
    """That of the central value network ends where the run does, not at max_epochs."""
    for end in pair.ends["discrete"]:
        assert end["model"]["central_value"]["learning_rate"] == pytest.approx(1e-6)


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
