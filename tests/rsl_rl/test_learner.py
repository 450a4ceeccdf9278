"""rsl_rl on two real ranks: they agree, and compute the same as one process would."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.rsl_rl.cfg import RslRlCfg
from envlab.rsl_rl.learner import RslRlLearner
from tests.launcher import run, torchrun
from tests.learner_contract import OnPolicyContract
from tests.rsl_rl.first_update import first_update
from tests.rsl_rl.minibatches import AGENT, KINDS, REWARDS, PayingEnv, paid_update
from tests.trained import (
    DISTILLATION,
    SMALL,
    Pair,
    checkpoint_of,
    gradient_error,
    manifest_of,
    of_ranks,
    on_one_thread,
    only_run,
)


@pytest.fixture(scope="module")
def pair(trained_pair: Pair) -> Pair:
    return trained_pair


@pytest.fixture(scope="module")
def single_update() -> dict[str, Any]:
    return on_one_thread(first_update)


class TestRslRl(OnPolicyContract):
    LIBRARY = "rsl_rl"
    STATE = {
        "ddp": ["actor_state_dict.mlp", "critic_state_dict.mlp", "exp_avg_sq", "obs_normalizer"],
        "library": [],
    }
    FIRST_RATE = 1e-3
    REDUCTIONS = [("ddp", "library", "MLPModel")]
    WRAPPER = "JointModule"
    UNPOOLED = ["local"]
    AVERAGED = ("pooled", "library", "recorded")


def test_normalisers_are_those_of_all_ranks_data(pair: Pair):
    ends = pair.ends["ddp"]
    seen = torch.cat([obs for end in ends for obs in end["obs"]]).double()
    for model in ("actor_state_dict", "critic_state_dict"):
        state = ends[0]["model"][model]
        assert int(state["obs_normalizer.count"]) == len(seen) == 2 * 4 * 16 * 32
        mean, var = seen.mean(dim=0), seen.var(dim=0, unbiased=False)
        for name, expected in (("_mean", mean), ("_var", var)):
            found = state[f"obs_normalizer.{name}"][0].double()
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("words", "network"),
    [(SMALL, "actor"), pytest.param(DISTILLATION, "student", marks=pytest.mark.long)],
)
def test_audit_stops_a_run_whose_ranks_differ(tmp_path: Path, words: list[str], network: str):
    script = Path(__file__).with_name("worker_broken.py")
    flags = [*words, "--distributed", "--max_iterations=50", "agent.save_interval=3"]
    code, output = run(torchrun(2, script, *flags), tmp_path)
    assert code != 0
    assert [(tmp_path / f"exit_{rank}").read_text() for rank in range(2)] == ["2", "2"], output
    (error,) = re.findall(r"^error: .*", output, re.MULTILINE)
    weight = f"{network}_state_dict.mlp.0.weight on rank 1"
    assert f"by iteration 3: {weight} differs from rank 0." in error
    manifest = manifest_of(only_run(tmp_path))
    assert manifest["status"] == "failed"
    assert "RankDivergenceError" in manifest["error"]
    assert weight in manifest["error"]
    with pytest.raises(FileNotFoundError):
        checkpoint_of(only_run(tmp_path), 3)


TOLERANCE = 1e-5
"""Largest error of a gradient, as a share of its tensor's largest element."""


def test_two_ranks_learn_what_one_process_learns_from_both(trained_pair: Pair):
    """One rank earns a hundred times more: by their own moments, both would seem equally good."""
    both = [reward for rewards in REWARDS for reward in rewards]
    for kind in KINDS:
        expected = on_one_thread(lambda context, kind=kind: paid_update(context, both, kind))
        for update in of_ranks(trained_pair.folder, "minibatches_rank"):
            assert gradient_error(expected, update[kind]) < TOLERANCE, kind


def test_each_minibatch_is_normalised_by_its_own_moments():
    agent: dict[str, Any] = {**AGENT, "algorithm": {**AGENT["algorithm"], "num_mini_batches": 2}}
    cfg = merge(RslRlCfg(), agent, "agent")
    learner = RslRlLearner(PayingEnv([1.0, 100.0]), cfg, DistributedContext.single("cpu"))
    storage = learner.alg.storage
    storage.distribution_params = (torch.zeros(4, 2, 1), torch.ones(4, 2, 1))
    storage.returns.copy_(torch.arange(8.0).view(4, 2, 1) ** 2)
    learner.alg.normalise_advantages()
    torch.testing.assert_close(storage.advantages, storage.returns)
    for batch in storage.mini_batch_generator(2, 1):
        torch.testing.assert_close(batch.advantages.mean(), torch.tensor(0.0))
        torch.testing.assert_close(batch.advantages.std(), torch.tensor(1.0))
