"""skrl on two real ranks and on one: they agree, compute the same, and resume exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.launcher import torchrun
from tests.learner_contract import OnPolicyContract, timeless_digests
from tests.skrl.torch.first_update import first_update
from tests.skrl.torch.worker import DQN, JOBS, MAPPO, PPO, SAC
from tests.small_runs import check_resumes_exactly, train_in
from tests.trained import Pair, checkpoint_of, launch_pair, metrics_of, on_one_thread, only_run

pytestmark = pytest.mark.slow


BY_DAY = ("ddp", "library", "sac", "mappo", "kl_threshold", "trpo", "cem")
"""The other jobs are trained by ``--all``: their algorithms share the code of these."""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Pair:
    folder = tmp_path_factory.mktemp("skrl_pair")
    jobs = JOBS if pytestconfig.getoption("--all") else BY_DAY
    command = torchrun(2, Path(__file__).with_name("worker.py"), folder, *jobs)
    return launch_pair(folder, command, jobs)


@pytest.fixture(scope="module")
def single_update() -> dict[str, Any]:
    return on_one_thread(first_update)


class TestSkrl(OnPolicyContract):
    LIBRARY = "skrl"
    STATE = {name: [] for name in JOBS if name not in ("kl_threshold", "trpo", "cem")} | {
        "ddp": ["policy.net_container", "exp_avg_sq", "running_mean", "_last_lr", "_rollout"],
        "sac": ["critic_1", "target_critic_2", "log_entropy_coefficient", "entropy_optimizer"],
        "mappo": ["cart.policy", "pendulum.value", "cart.state_preprocessor", "schedulers.cart"],
        "dqn": ["target_q_network", "_update_counter"],
        "amp": ["discriminator", "amp_observation_preprocessor"],
    }
    FIRST_RATE = 3e-4
    REDUCTIONS = [
        ("ddp", "library", "SharedModel"),
        ("sac", "sac_library", "Squashed"),
        ("mappo", "mappo_library", "GaussianModel"),
        ("amp", "amp_library", "GaussianModel"),
    ]
    WRAPPER = "SkrlDDP"
    UNPOOLED = ["local_advantages", "local_scalers"]
    CHATTER = ["\x1b["]  # its coloured handler


def test_several_agents_learning_rates_adapt(pair: Pair):
    assert pair.ends["mappo"][0]["learning_rate"] != 3e-4


@pytest.mark.long
def test_amp_resumes_exactly_on_two_ranks_with_the_motions_of_each(pair: Pair):
    whole, resumed = (checkpoint_of(pair.run(job), 4) for job in ("amp", "amp_resumed"))
    assert timeless_digests(resumed) == timeless_digests(whole)
    motions, replays = (
        [rank["learner"]["memories"][name]["tensors"]["observations"] for rank in whole["ranks"]]
        for name in ("motion_dataset", "reply_buffer")
    )
    assert motions[0].shape == (64, 1, 162)
    assert replays[0].shape == (96, 1, 162)
    assert not torch.equal(*motions)
    assert not torch.equal(*replays)


def test_scalers_are_those_of_all_ranks_data(pair: Pair):
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


def test_what_would_hang_is_refused_on_all_ranks(pair: Pair):
    for job, message in [
        ("kl_threshold", "agent.agent.kl_threshold is 0.01, but on 2 processes"),
        ("trpo", "--algorithm trpo was requested on 2 processes, but skrl's TRPO works on one."),
        ("cem", "--algorithm cem was requested on 2 processes"),
    ]:
        for end in pair.ends[job]:
            assert message in end["error"]
        assert not (pair.folder / job / "logs").exists()


def test_tracking_data_is_dropped_on_every_rank_and_its_losses_reported(pair: Pair):
    assert [end["tracked"] for end in pair.ends["sac"]] == [0, 0]
    losses = metrics_of(pair.run("sac"))[-1]["losses"]
    assert {"Loss / Policy loss", "Loss / Critic loss", "Loss / Entropy loss"} <= set(losses)
    assert "Loss / Value loss" in metrics_of(pair.run("ddp"))[0]["losses"]


KINDS = {
    "step": [
        *PPO,
        "agent.agent.learning_rate_scheduler=StepLR",
        "++agent.agent.learning_rate_scheduler_kwargs.step_size=3",
    ],
    "mappo": MAPPO,
    "dqn": [*DQN, "--algorithm=dqn"],
    # Three updates per two delays: the counter matters.
    "td3": [*SAC, "--algorithm=td3", "agent.agent.policy_delay=3"],
}
"""AMP on two ranks is in ``test_learner.py``; PPO, IPPO and SAC in ``test_old_runs.py``."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_run_ends_bit_identical(kind: str, tmp_path: Path):
    check_resumes_exactly("skrl", tmp_path, *KINDS[kind])


def test_a_checkpoint_of_other_networks_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert train_in("skrl", tmp_path, *PPO, "--max_iterations=1") == 0
    path = only_run(tmp_path) / "checkpoints/model_1.pt"
    resume = ["--max_iterations=2", "--resume", f"--checkpoint={path}"]
    assert train_in("skrl", tmp_path, *PPO, "agent.models.separate=true", *resume) == 2
    assert "does not fit the configured agent" in capsys.readouterr().err
