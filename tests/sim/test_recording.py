"""Recordings of steps: the work they repeat, and operations that cannot be recorded."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch

from envlab import registry
from envlab.errors import ConfigurationError, SimulationError
from envlab.sim import host
from envlab.sim.recordable import RepeatedOperations
from envlab.sim.recording import Recording, between_graphs
from tests.graphs import record_steps
from tests.tasks.making import make

STEPS = 10
"""More than precede a recording."""


def recording_of(function, *, is_required: bool = True) -> Recording:
    return Recording(function, lambda: RepeatedOperations, is_required=is_required)


def run_twice(recording: Recording) -> None:
    for _ in range(2):
        recording.run()


def test_a_recording_runs_without_python_and_returns_independent_results():
    total, calls = torch.zeros(3), []

    def step():
        calls.append(1)
        total.add_(1.0)
        return {"double": total * 2.0}, total + 0.0

    recording = recording_of(step)
    results = [recording.run() for _ in range(STEPS)]
    assert recording.is_made
    assert len(calls) < STEPS
    for number, (first, second) in enumerate(results, start=1):
        assert first["double"].tolist() == [2.0 * number] * 3
        assert second.tolist() == [1.0 * number] * 3


def test_functions_between_graphs_run_in_python_in_every_step():
    total = torch.zeros(())
    seen = []

    @between_graphs
    def look(values: torch.Tensor) -> torch.Tensor:
        seen.append(float(values))
        return torch.tensor(100.0 * len(seen))

    recording = recording_of(lambda: look(total.add_(1.0)) + total)
    assert [float(recording.run()) for _ in range(STEPS)] == [101.0 * i for i in range(1, 11)]
    assert seen == list(range(1, 11))


class Remembers:
    last = torch.zeros(3)

    def by_another_name(self) -> torch.Tensor:
        self.last = self.last + 1.0
        return self.last

    def what_a_curriculum_made(self) -> torch.Tensor:
        self.replace()
        return self.last + 1.0

    @between_graphs
    def replace(self) -> None:
        self.last = torch.ones(3)


ONES = torch.ones(3)
UNRECORDABLE = [
    (lambda: ONES * float(ONES.sum()), "reads a tensor's values (aten::_local_scalar_dense)"),
    (lambda: ONES[ONES > 0.0], "reads a tensor's values (aten::index): decide by torch.where"),
    (lambda: torch.as_tensor(ONES.numpy()), "reads a tensor's values (numpy)"),
    (lambda: ONES * float(np.sum(np.asarray(ONES))), "reads a tensor's values (__array__)"),
    (lambda: ONES * ONES.tolist()[0], "reads a tensor's values (tolist)"),
    (lambda: torch.tensor([1.0, 2.0]), "copies from or to the host (aten::lift_fresh)"),
    (lambda: ONES.to("meta"), "copies from or to the host (aten::_to_copy): make its tensors"),
    (Remembers().by_another_name, "must be written in place"),
    (Remembers().what_a_curriculum_made, "must be written in place"),
]


def test_an_unrecordable_operation_is_named_with_its_place(caplog):
    for function, words in UNRECORDABLE:
        caplog.clear()
        recording = recording_of(function, is_required=False)
        with caplog.at_level(logging.WARNING):
            for _ in range(STEPS):
                recording.run()
        assert not recording.is_made, function
        (line,) = caplog.messages
        assert f"cannot be recorded: {function.__name__}() in {__file__}, line " in line
        assert words in line
        required = recording_of(function)
        for _ in range(3):
            required.run()
        with pytest.raises(SimulationError, match=r"env\.graph=on, but .* set env\.graph=off"):
            run_twice(required)


def test_resets_and_restored_states_between_recorded_steps(monkeypatch):
    monkeypatch.setattr(host, "HOST", set())
    plain, recorded = (make("Isaac-Cartpole-v0", num_envs=4) for _ in range(2))
    recording = record_steps(recorded)
    actions = torch.rand(STEPS, *plain.actions.shape)
    mask = torch.tensor([True, False, False, True])
    for seed in (None, 7):
        state = plain.state()
        for env in (plain, recorded):
            for action in actions:
                env.step(action)
        assert recording.is_made
        for env in (plain, recorded):
            env.reset(seed=seed, options={"reset_mask": mask})
        for action in actions:
            expected, seen = plain.step(action), recorded.step(action)
            assert torch.equal(expected[0]["policy"], seen[0]["policy"])
            assert torch.equal(expected[1], seen[1])
            assert expected[4]["log"] == seen[4]["log"]
        for env in (plain, recorded):
            env.set_state(state)
        assert_same_state(plain.state(), recorded.state())


def assert_same_state(first, second) -> None:
    assert first.keys() == second.keys()
    for name, value in first.items():
        if isinstance(value, dict):
            assert_same_state(value, second[name])
        elif isinstance(value, torch.Tensor):
            assert torch.equal(value, second[name]), name
        else:
            assert value == second[name], name


def test_graphs_are_asked_for_without_a_gpu():
    with pytest.raises(ConfigurationError, match=r"env\.graph=on .* are on cpu\. Choose a GPU"):
        make("Isaac-Cartpole-v0", graph="on")
    assert make("Isaac-Cartpole-v0", graph="auto").recording is None


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize(
    "name",
    ["Isaac-Cartpole-v0", "Isaac-Velocity-Flat-Unitree-Go2-v0", "Isaac-Repose-Cube-Allegro-v0"],
)
@pytest.mark.parametrize("graph", ["on", "compiled"])
def test_graphs_of_a_gpu_repeat_its_steps_and_never_wait(name, graph):
    task = registry.get_task(name)
    envs = []
    for setting in ("off", graph):
        cfg = registry.load_env_cfg(task)
        cfg.graph, cfg.sim.deterministic = setting, True
        cfg.episode_length_s = 5 * cfg.step_dt
        envs.append(task.make(cfg, device="cuda:0", num_envs=64, seed=1))
    plain, recorded = envs
    for number in range(4 * STEPS):
        action = torch.rand_like(plain.actions) * 2.0 - 1.0
        expected = plain.step(action)
        is_made = recorded.recording.is_made
        torch.cuda.set_sync_debug_mode("error" if is_made else "default")
        try:
            seen = recorded.step(action)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        alike = torch.equal if plain.repeats_exactly and graph == "on" else mostly_close
        assert alike(expected[0]["policy"], seen[0]["policy"]), number
        for first, second in zip(expected[1:4], seen[1:4], strict=True):
            assert alike(first, second), number
    assert is_made


def mostly_close(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Return whether values differ by rounding, which contacts amplify in a few environments."""
    return torch.isclose(first.float(), second.float(), atol=0.01).float().mean().item() > 0.95
