"""rl_games on two real ranks: they agree, and compute the same as one process would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.launcher import torchrun
from tests.learner_contract import OnPolicyContract
from tests.rl_games.first_update import first_update
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
    STATE = {name: [] for name in JOBS} | {
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
