"""rl_games' PPO by graphs: the library's arithmetic, repeated without a read of the host."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.registry import get_task, load_agent_values
from envlab.rl_games.cfg import RlGamesCfg
from envlab.rl_games.learner import RlGamesLearner
from envlab.rl_games.recorded_update import obstacle
from tests.graphs import assert_near, capturable_on_a_cpu
from tests.launcher import run, torchrun
from tests.operations import Operations, Reads
from tests.rl_games.recorded import ALONE, learner_of, recorded, tensors_of, unrecorded, update
from tests.small_runs import env_of

DISCRETE = "Isaac-Cartpole-Showcase-Box-Discrete-Direct-v0"


@pytest.fixture(autouse=True)
def on_a_cpu() -> Iterator[None]:
    with capturable_on_a_cpu():
        yield


FIXED = {"lr_schedule": "identity"}
SETTINGS: dict[str, dict[str, Any]] = {
    "own": {},
    "a rate for each mini-epoch": {"schedule_type": "standard"},
    "a rate that falls to its bound": {"kl_threshold": 1e-9, "learning_rate": 2e-6},
    "a fixed rate": FIXED,
    "two networks": {"params": {"network": {**RlGamesCfg().params.network, "separate": True}}},
    "no clipping": {**FIXED, "truncate_grads": False, "clip_value": False},
    "no normalisers": {**FIXED, "normalize_input": False, "normalize_value": False},
    "smooth clipping, no bounds": {"use_smooth_clamp": True, "bound_loss_type": "none"},
    "weights that decay": {"weight_decay": 0.01},
}
"""Once a rate has changed it is not the same in 32 bits, which a fused Adam reads."""


@pytest.mark.parametrize("name", SETTINGS)
def test_it_is_the_librarys_update(name: str):
    theirs, ours = (learner_of(**copy.deepcopy(SETTINGS[name])) for _ in range(2))
    unrecorded(ours)
    for learner in (theirs, ours):
        learner.agent.model.double()
    for seed in (3, 4):
        expected, found = update(theirs, seed), update(ours, seed)
        assert found.losses == pytest.approx(expected.losses, abs=1e-9)
        assert found.learning_rate == pytest.approx(expected.learning_rate, rel=1e-12)
        assert_near(tensors_of(theirs), tensors_of(ours), 1e-9)


@pytest.mark.parametrize("schedule", ["legacy", "standard"])
def test_rates_rise_to_their_bound(schedule: str):
    theirs, ours = (learner_of(kl_threshold=10.0, schedule_type=schedule) for _ in range(2))
    unrecorded(ours)
    rates = [
        [update(learner, seed).learning_rate for seed in range(3)] for learner in (theirs, ours)
    ]
    assert rates[0] == pytest.approx(rates[1], rel=1e-12)
    assert rates[0][0] == (1e-2 if schedule == "legacy" else 1.5**3 * 2.0**-11)


@pytest.mark.parametrize("schedule", ["legacy", "standard"])
def test_graphs_repeat_its_bits_and_the_host_reads_once(schedule: str):
    plain = unrecorded(learner_of(schedule_type=schedule))
    ours = recorded(learner_of(schedule_type=schedule))
    for seed in (3, 4, 5):
        found = []
        for learner in (plain, ours):
            with Operations() as operations, Reads() as reads:
                iteration = update(learner, seed)
            assert operations.waits == []
            assert len(reads.found) == 1, reads.found
            found.append((iteration.losses, iteration.learning_rate))
        assert found[0] == found[1]
        assert ours.agent.recorded.recording.is_made
        assert_near(tensors_of(plain), tensors_of(ours), 0.0)


def test_the_librarys_update_reads_in_each_minibatch():
    learner = learner_of()
    with Operations() as operations:
        update(learner, 3)
    assert len(operations.waits) >= 3 * 4


def test_normalisers_count_in_every_mini_epoch():
    """rl_games stops them after the first, and sets them to train again with each minibatch."""
    for learner in (learner_of(), unrecorded(learner_of())):
        update(learner, 3)
        assert float(learner.agent.model.running_mean_std.count) == 1 + 3 * 8 * 6


def test_a_checkpoint_is_the_librarys_and_goes_on_exactly():
    ours = recorded(learner_of())
    for seed in (3, 4):
        update(ours, seed)
    saved = copy.deepcopy(ours.model_state())
    (group,) = saved["optimizer"]["param_groups"]
    assert group["lr"] == saved["learning_rate"]
    assert isinstance(group["lr"], float)
    assert not group["capturable"]
    again, library = recorded(learner_of()), learner_of()
    update(again, 1)  # it has recorded graphs of its own before
    for learner in (again, library):
        learner.load_models({"model": copy.deepcopy(saved)})
    assert update(ours, 8).losses == update(again, 8).losses
    assert_near(tensors_of(ours), tensors_of(again), 0.0)
    update(library, 8)
    assert_near(tensors_of(ours), tensors_of(library), 1e-4)


def test_a_training_by_graphs_has_the_same_bits_and_metrics():
    seen = []
    for learner in (learner_of(), unrecorded(learner_of()), recorded(learner_of())):
        torch.manual_seed(3)
        iterations = [learner.iterate(number, lambda *_: None) for number in range(1, 5)]
        seen.append([(one.losses, one.learning_rate) for one in iterations])
    assert seen[1] == seen[2]
    assert [losses.keys() for losses, _ in seen[0]] == [losses.keys() for losses, _ in seen[2]]


CENTRAL = {"minibatch_size": 12, "network": {"name": "actor_critic", "central_value": True}}
MLP = {"units": [8], "activation": "elu", "initializer": {"name": "default"}}


def test_what_cannot_be_recorded_is_named():
    network = RlGamesCfg().params.network
    recurrent = {**network, "rnn": {"name": "gru", "units": 8, "layers": 1}}
    central = {**CENTRAL, "network": {**CENTRAL["network"], "mlp": MLP}}
    states = {"env": {"obs_groups": {"obs": ["policy"], "states": ["policy"]}}}
    for words, settings in {
        "recurrent": {"params": {"network": recurrent}},
        "central_value_config": {"params": states, "central_value_config": central},
        "use_diagnostics": {"use_diagnostics": True},
        "lr_schedule": {"lr_schedule": "linear"},
    }.items():
        assert words in str(obstacle(learner_of(**settings).agent))
    mixed = learner_of().agent
    mixed.mixed_precision = True  # which a processor never has
    assert "mixed_precision" in str(obstacle(mixed))
    values = merge(
        RlGamesCfg(), load_agent_values(get_task(DISCRETE), "rl_games"), "agent", given_keys=True
    )
    discrete = RlGamesLearner(env_of(DISCRETE, 512), values, ALONE, grad_sync="ddp")
    assert "a2c_continuous" in str(obstacle(discrete.agent))
    assert obstacle(learner_of().agent) is None


def test_a_processor_updates_by_the_library():
    assert learner_of().agent.recorded is None


@pytest.mark.slow
def test_two_ranks_make_the_librarys_update(tmp_path: Path):
    worker = Path(__file__).with_name("worker_recorded.py")
    code, output = run(torchrun(2, worker, tmp_path), tmp_path)
    assert code == 0, output
    ranks = [torch.load(tmp_path / f"rank{rank}.pt") for rank in range(2)]
    for found in ranks:
        assert "--grad_sync library" in found.pop("obstacle")
        for schedule, kinds in found.items():
            library, ours, resumed = (kinds[kind] for kind in ("library", "ours", "resumed"))
            assert ours["rates"] == pytest.approx(library["rates"], rel=1e-6), schedule
            assert len(set(ours["rates"])) > 1
            assert ours["rates"] == resumed["rates"]
            for name, values in library["tensors"].items():
                torch.testing.assert_close(values, ours["tensors"][name], rtol=0.0, atol=1e-9)
                assert torch.equal(ours["tensors"][name], resumed["tensors"][name])
    for schedule in ("legacy", "standard"):
        first, second = (found[schedule]["ours"] for found in ranks)
        assert first["rates"] == second["rates"]
        for name, values in first["tensors"].items():
            assert torch.equal(values, second["tensors"][name])
        assert first["losses"] != second["losses"]  # their rollouts differ


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_a_gpu_repeats_the_librarys_update():
    context = DistributedContext.single("cuda:0")
    theirs, ours = (learner_of(context, graph=graph) for graph in ("off", "on"))
    for seed in (3, 4, 5):
        expected, found = update(theirs, seed), update(ours, seed)
        assert found.losses == pytest.approx(expected.losses, rel=1e-3, abs=1e-3)
    assert theirs.agent.recorded is None
    assert ours.agent.recorded.recording.is_made
    assert_near(tensors_of(theirs), tensors_of(ours), 1e-3)
