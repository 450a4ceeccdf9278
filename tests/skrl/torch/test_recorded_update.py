"""skrl's PPO by graphs: the library's arithmetic, repeated without a read of the host."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from envlab.distributed.context import DistributedContext
from envlab.skrl.torch.recorded_update import obstacle
from tests.graphs import assert_near, capturable_on_a_cpu
from tests.launcher import run, torchrun
from tests.operations import Operations, Reads
from tests.skrl.torch.recorded import (
    SCALER,
    collect,
    in_double,
    learner_of,
    recorded,
    tensors_of,
    unrecorded,
    update,
)


@pytest.fixture(autouse=True)
def on_a_cpu() -> Iterator[None]:
    with capturable_on_a_cpu():
        yield


STATES = {"name": "net", "input": "STATES", "layers": [8], "activations": "elu"}
SETTINGS: dict[str, dict[str, Any]] = {
    "own": {},
    "two networks": {"cfg": {"models": {"separate": True}}},
    "a critic's own states": {
        "state_preprocessor": SCALER,
        "cfg": {
            "obs_groups": {"states": ["policy"]},
            "models": {"separate": True, "value": {"network": [STATES]}},
        },
    },
    "a fixed rate": {"learning_rate_scheduler": None},
    "a rate that rises to its bound": {"learning_rate_scheduler_kwargs": {"kl_threshold": 10.0}},
    "a rate that falls to its bound": {
        "learning_rate": 2e-6,
        "learning_rate_scheduler_kwargs": {"kl_threshold": 1e-9},
    },
    "other factors": {
        "learning_rate_scheduler_kwargs": {"kl_factor": 1.2, "lr_factor": 3.0, "max_lr": 2e-3}
    },
    "a wide band": {"learning_rate_scheduler_kwargs": {"kl_factor": 20.0}},
    "no clipping": {"value_clip": 0.0, "grad_norm_clip": 0.0, "entropy_loss_scale": 0.0},
    "no normalisers": {"observation_preprocessor": None, "value_preprocessor": None},
    "samples drawn twice": {"cfg": {"memory": {"replacement": True}}},
    "time limits": {"time_limit_bootstrap": True},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_it_is_the_librarys_update(name: str):
    theirs, ours = (in_double(learner_of(**copy.deepcopy(SETTINGS[name]))) for _ in range(2))
    unrecorded(ours)
    for seed in (3, 4):
        for learner in (theirs, ours):
            collect(learner, seed)
        expected = update(theirs, seed)
        found = update(ours, seed)
        assert found.keys() == expected.keys()
        for tag, values in expected.items():
            assert found[tag] == pytest.approx(values, abs=1e-9), tag
        assert_near(tensors_of(theirs), tensors_of(ours), 1e-9)
        assert ours.learning_rate() == pytest.approx(theirs.learning_rate(), rel=1e-12)


def test_the_rates_of_these_settings_change():
    rates = {}
    for name in ("own", "a rate that rises to its bound", "a rate that falls to its bound"):
        learner = unrecorded(learner_of(**copy.deepcopy(SETTINGS[name])))
        for seed in range(4):
            collect(learner, seed)
            update(learner, seed)
        rates[name] = learner.learning_rate()
    assert rates.pop("own") != 1e-3
    assert list(rates.values()) == [1e-2, 1e-6]


def test_graphs_repeat_its_bits_and_the_host_reads_once():
    plain, ours = unrecorded(learner_of()), recorded(learner_of())
    for seed in (3, 4, 5):
        found = []
        for learner in (plain, ours):
            collect(learner, seed)
            with Operations() as operations, Reads() as reads:
                found.append(update(learner, seed))
            assert operations.waits == []
            assert len(reads.found) == 1, reads.found
        assert found[0] == found[1]
        assert all(one.is_made for one in ours.recorded.recordings.values())
        assert_near(tensors_of(plain), tensors_of(ours), 0.0)


def test_the_librarys_update_reads_in_each_minibatch():
    learner = learner_of()
    collect(learner, 3)
    with Operations() as operations:
        update(learner, 3)
    assert len(operations.waits) >= 3 * 3 * 8


def test_a_checkpoint_is_the_librarys_and_goes_on_exactly():
    ours = recorded(learner_of())
    for seed in (3, 4):
        collect(ours, seed)
        update(ours, seed)
    saved = copy.deepcopy(ours.model_state())
    (group,) = saved["modules"]["agent"]["optimizer"]["param_groups"]
    assert isinstance(group["lr"], float)
    assert not group["capturable"]
    assert saved["schedulers"]["scheduler"]["_last_lr"] == [group["lr"]]
    again = recorded(learner_of())
    collect(again, 1)  # it has recorded graphs of its own before
    update(again, 1)
    again.load_models({"model": saved})
    for learner in (ours, again):
        collect(learner, 8)
    assert update(ours, 8) == update(again, 8)
    assert_near(tensors_of(ours), tensors_of(again), 0.0)


def test_a_training_by_graphs_has_the_same_bits_and_metrics():
    library, plain, ours = learner_of(), unrecorded(learner_of()), recorded(learner_of())
    seen = []
    for learner in (library, plain, ours):
        torch.manual_seed(3)
        iterations = [learner.iterate(number, lambda *_: None) for number in range(1, 5)]
        seen.append([(one.losses, one.learning_rate) for one in iterations])
    assert seen[1] == seen[2]
    assert [losses.keys() for losses, _ in seen[0]] == [losses.keys() for losses, _ in seen[2]]
    assert_near(tensors_of(plain), tensors_of(ours), 0.0)


def test_what_cannot_be_recorded_is_named():
    for words, settings in {
        "--algorithm a2c": {"algorithm": "a2c"},
        "mixed_precision": {"mixed_precision": True},
        "kl_threshold": {"kl_threshold": 0.01},
        "StepLR": {
            "learning_rate_scheduler": "StepLR",
            "learning_rate_scheduler_kwargs": {"step_size": 3},
        },
        "equal parts": {"mini_batches": 7},
    }.items():
        assert words in str(obstacle(learner_of(**settings).agent))
    assert obstacle(learner_of().agent) is None


def test_a_processor_updates_by_the_library():
    assert learner_of().recorded is None


@pytest.mark.slow
def test_two_ranks_make_the_librarys_update(tmp_path: Path):
    worker = Path(__file__).with_name("worker_recorded.py")
    code, output = run(torchrun(2, worker, tmp_path), tmp_path)
    assert code == 0, output
    ranks = [torch.load(tmp_path / f"rank{rank}.pt") for rank in range(2)]
    for found in ranks:
        assert found["obstacle"] == "--grad_sync library"
        library, ours = found["library"], found["ours"]
        assert ours["rates"] == pytest.approx(library["rates"], rel=1e-12)
        assert len(set(ours["rates"])) > 1
        for name, values in library["tensors"].items():
            torch.testing.assert_close(values, ours["tensors"][name], rtol=0.0, atol=1e-9)
        assert ours["tensors"].keys() == found["resumed"]["tensors"].keys()
        for name, values in ours["tensors"].items():
            assert torch.equal(values, found["resumed"]["tensors"][name])
    first, second = (found["ours"] for found in ranks)
    assert all(
        torch.equal(values, second["tensors"][name]) for name, values in first["tensors"].items()
    )
    assert first["losses"] != second["losses"]  # their rollouts differ


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_a_gpu_repeats_the_librarys_update():
    context = DistributedContext.single("cuda:0")
    theirs, ours = (learner_of(context, cfg={"graph": graph}) for graph in ("off", "on"))
    for learner in (theirs, ours):
        for seed in (3, 4, 5):
            collect(learner, seed)
            update(learner, seed)
    assert theirs.recorded is None
    assert all(one.is_made for one in ours.recorded.recordings.values())
    assert_near(tensors_of(theirs), tensors_of(ours), 0.1)  # each draws its own order of samples
