"""Properties of every library on two ranks, shown by the files of one launch of two processes.

A test module subclasses :class:`LearnerContract` or :class:`OnPolicyContract`, and has a fixture
``pair``, a :class:`Pair`, and ``single_update``, the first update of one process on all
environments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch

from envlab.distributed.audit import digest, flatten
from tests.trained import Pair, gradient_error, manifest_of, metrics_of

FILES = [
    "checkpoints/best.pt",
    "checkpoints/latest.pt",
    "checkpoints/model_2.pt",
    "checkpoints/model_4.pt",
    "metrics.jsonl",
    "params/agent.yaml",
    "params/env.yaml",
    "run.json",
]
"""Files of a run of 4 iterations with a checkpoint every 2, except its curves."""


def digests(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: digest(value) for name, value in flatten(values).items()}


def timeless_digests(checkpoint: Mapping[str, Any]) -> dict[str, str]:
    """Return digests on which two runs must agree: all except wall time."""
    metrics = {name: value for name, value in checkpoint["metrics"].items() if name != "wall_s"}
    return digests({**checkpoint, "metrics": metrics})


class LearnerContract:
    """Of any library that trains one set of parameters on several ranks."""

    STATE: ClassVar[dict[str, Sequence[str]]]
    """Jobs whose ranks must end alike, and the parts that must be compared and saved at least.

    Those that the launch has left out until the night do not count.
    """
    MAIN: ClassVar[str] = "ddp"
    """The job whose observations and files are checked."""
    AVERAGED: ClassVar[Sequence[str]] = ("pooled", "library")
    """Kinds of first update that must be that of one process."""
    TOLERANCE: ClassVar[float] = 1e-5
    """Largest error of a gradient, as a share of its tensor's largest element; measured: 3e-6."""

    def test_ranks_end_bit_identical(self, pair: Pair):
        for job in self.STATE.keys() & pair.ends:
            first, second = pair.ends[job]
            assert "error" not in first, (job, first)
            assert digests(first["model"]) == digests(second["model"]), job
            assert first.get("learning_rate") == second.get("learning_rate"), job

    def test_state_holds_all_that_must_be_equal(self, pair: Pair):
        for job in self.STATE.keys() & pair.ends:
            parts = self.STATE[job]
            names = " ".join(flatten(pair.ends[job][0]["model"]))
            assert [part for part in parts if part not in names] == [], job

    def test_ranks_learn_from_different_data(self, pair: Pair):
        first, second = (end["obs"][0] for end in pair.ends[self.MAIN])
        assert not torch.isclose(first, second).all(dim=-1).any()

    def test_averaged_gradient_of_two_ranks_is_that_of_one_process(self, pair: Pair, single_update):
        expected = single_update["gradients"]
        for update in pair.first_update:
            for kind in self.AVERAGED:
                assert gradient_error(expected, update[kind]["gradients"]) < self.TOLERANCE, kind


class OnPolicyContract(LearnerContract):
    """Of PPO: 4 iterations of 16 steps of 2 x 32 environments of Cartpole with normalisers."""

    LIBRARY: ClassVar[str]
    FIRST_RATE: ClassVar[float]
    """Learning rate before the schedule has changed it."""
    REDUCTIONS: ClassVar[Sequence[tuple[str, str, str]]] = ()
    """The job under DDP, the same with the library's reduction, and the objects wrapped then."""
    WRAPPER: ClassVar[str] = "PolicyDDP"
    """The objects that DDP wraps, or is wrapped in."""
    UNPOOLED: ClassVar[Sequence[str]]
    """Kinds of first update with statistics of one rank, which must show."""
    CHATTER: ClassVar[Sequence[str]] = ()
    """Words that the library alone would print."""

    def test_learning_rate_adapts_and_is_equal(self, pair: Pair):
        first, second = (end["learning_rate"] for end in pair.ends[self.MAIN])
        rates = [record["learning_rate"] for record in metrics_of(pair.run(self.MAIN))]
        assert len({self.FIRST_RATE, *rates}) > 1
        assert first == second == rates[-1] != self.FIRST_RATE

    def test_ddp_and_the_librarys_reduction_end_with_the_same_parameters(self, pair: Pair):
        for ddp, library, wrapped in self.REDUCTIONS:
            if library not in pair.ends:
                continue
            ends = [pair.ends[name][0] for name in (ddp, library)]
            assert [end["wraps"] for end in ends] == [self.WRAPPER, wrapped]
            assert digests(ends[0]["model"]) == digests(ends[1]["model"]), ddp

    def test_one_run_directory_written_once(self, pair: Pair):
        directory = pair.run(self.MAIN)
        files = sorted(str(path.relative_to(directory)) for path in directory.rglob("*.*"))
        events = [name for name in files if "tfevents" in name]
        assert len(events) == 1
        assert [name for name in files if name not in events] == FILES
        assert [path.name for path in (pair.folder / self.MAIN).iterdir()] == ["logs"]

    def test_manifest_and_metrics_speak_of_all_ranks(self, pair: Pair):
        directory = pair.run(self.MAIN)
        manifest = manifest_of(directory)
        assert (manifest["library"], manifest["grad_sync"]) == (self.LIBRARY, "ddp")
        assert (manifest["world"]["size"], manifest["world"]["backend"]) == (2, "gloo")
        assert (manifest["num_envs"], manifest["global_num_envs"]) == (32, 64)
        assert manifest["frames"] == 4 * 16 * 64
        records = metrics_of(directory)
        assert [record["iteration"] for record in records] == [1, 2, 3, 4]
        assert [record["frames"] for record in records] == [1024, 2048, 3072, 4096]

    def test_no_rank_but_the_first_speaks(self, pair: Pair):
        assert "[rank 1]" not in pair.output
        trained = [ends for ends in pair.ends.values() if "model" in ends[0]]
        assert pair.output.count("Run directory: ") == len(trained)
        assert [word for word in self.CHATTER if word in pair.output] == []

    def test_halves_of_the_environments_start_in_the_same_states(self, pair: Pair, single_update):
        halves = [update["pooled"]["initial"] for update in pair.first_update]
        assert len(halves[0]) == len(halves[1])
        assert torch.equal(torch.cat(halves), single_update["initial"])

    def test_rollout_holds_bootstrapped_time_outs_on_both_ranks(self, pair: Pair, single_update):
        counts = [update["pooled"]["num_time_outs"] for update in pair.first_update]
        num_envs = len(single_update["initial"])
        assert min(counts) > 0.1 * num_envs
        assert sum(counts) == single_update["num_time_outs"] < num_envs * 16

    def test_unpooled_statistics_would_be_noticed(self, pair: Pair, single_update):
        for kind in self.UNPOOLED:
            gradients = pair.first_update[0][kind]["gradients"]
            assert gradient_error(single_update["gradients"], gradients) > 100 * self.TOLERANCE

    def test_normalisers_after_the_first_update_are_those_of_one_process(
        self, pair: Pair, single_update
    ):
        for update in pair.first_update:
            for name, values in single_update["buffers"].items():
                found = update["pooled"]["buffers"][name]
                torch.testing.assert_close(found, values, rtol=1e-4, atol=1e-5, msg=name)
