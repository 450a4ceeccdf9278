"""skrl on JAX on two real ranks: they agree, and compute the same as one process would.

Its short form is ``tests/golden/test_old_runs.py``: two ranks resume an earlier version's run, and
end with the bits that it had.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("jax", reason="needs jax: pip install -e '.[jax]'")
pytest.importorskip("flax", reason="needs flax: pip install -e '.[jax]'")

from envlab.distributed.context import DistributedContext
from tests.learner_contract import OnPolicyContract
from tests.skrl.jax.first_update import first_update
from tests.skrl.jax.runs import skrl_launch
from tests.trained import Pair, launch_pair

pytestmark = [pytest.mark.slow, pytest.mark.long]


@pytest.fixture(scope="module")
def pair(quick: None, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp("pair")
    command = skrl_launch(2, Path(__file__).with_name("worker.py"), folder)
    return launch_pair(folder, command, ["ppo", "sac", "rates"])


@pytest.fixture(scope="module")
def single_update(quick: None) -> dict[str, Any]:
    return first_update(DistributedContext.single("cpu"))


class TestSkrlOnJax(OnPolicyContract):
    LIBRARY = "skrl"
    MAIN = "ppo"
    AVERAGED = ["pooled"]
    STATE = {
        "ppo": [
            *("agent.policy.params", "policy_learning_rate", "agent.value."),
            *("value_optimizer.1.nu", "value_preprocessor.running_variance"),
        ],
        "sac": [
            *("agent.policy.params", "policy_learning_rate", "agent.target_critic_2."),
            *("critic_2_optimizer.0.mu", "log_entropy_coefficient"),
        ],
    }
    FIRST_RATE = 3e-4
    UNPOOLED = ["local_scalers"]
    CHATTER = ["Broadcasting"]


def test_learning_rate_follows_the_divergence_of_all_ranks(pair: Pair):
    rates = pair.ends["rates"]
    assert rates[0]["pooled"] == rates[1]["pooled"] == pytest.approx(1e-3 / 1.5)
    assert rates[0]["stock"] > 1e-3 > rates[1]["stock"]


def test_gradient_of_the_entropy_coefficient_is_averaged(pair: Pair):
    """It differs, so that the coefficients, which end equal, would not."""
    first, second = (torch.stack(end["entropy_gradients"]) for end in pair.ends["sac"])
    assert len(first) == 2 * (8 + 6)  # the first two steps do not learn
    assert not (first == second).any()


def test_normalisers_are_those_of_all_ranks_data(pair: Pair):
    seen = torch.cat([obs for end in pair.ends["ppo"] for obs in end["obs"]]).double()
    state = pair.ends["ppo"][0]["model"]["arrays"]["agent.observation_preprocessor"]
    assert int(state["current_count"]) == 1 + len(seen) == 1 + 2 * 4 * 16 * 32  # skrl begins at 1
    weight = len(seen) / (1 + len(seen))
    mean = weight * seen.mean(dim=0)
    torch.testing.assert_close(state["running_mean"].double(), mean, rtol=1e-3, atol=1e-4)
    var = weight * (seen.var(dim=0) + seen.mean(dim=0).square() * (1 - weight))
    torch.testing.assert_close(state["running_variance"].double(), var, rtol=1e-2, atol=1e-3)


def test_unpooled_normalisers_differ(pair: Pair):
    first, second = (update["local_scalers"]["buffers"] for update in pair.first_update)
    for name in ("agent.observation_preprocessor", "agent.value_preprocessor"):
        assert not torch.equal(first[f"{name}.running_mean"], second[f"{name}.running_mean"])


def test_an_update_reports_progress_at_each_step_of_an_optimizer(pair: Pair, single_update):
    """Otherwise the watchdog would take an update longer than --timeout_s for a hang."""
    assert single_update["num_marks"] == 2  # one mini-batch: policy and value
    for update in pair.first_update:
        assert update["pooled"]["num_marks"] > 2
