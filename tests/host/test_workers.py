"""Worker processes: none is lost or left behind, and failures are named."""

from __future__ import annotations

import signal
import time
from typing import Any

import gymnasium
import pytest

import tests.host.gym_envs  # noqa: F401  registers them
from envlab.errors import ConfigurationError, SimulationError
from envlab.host.batch import LocalBatch
from envlab.host.maker import EnvMaker
from envlab.host.worker import Share
from envlab.host.workers import WorkerBatch, make_batch

NUM_ENVS = 3


def make(num_workers: int | None, *, first_env: int = 0, num_threads: int = 2, **kwargs) -> Any:
    """Return environments that have begun; the first of them breaks in its first step."""
    maker = EnvMaker(spec=gymnasium.spec("Counting-v0"), kwargs=kwargs)
    numbers = {"num_workers": num_workers, "num_threads": num_threads, "first_env": first_env}
    batch, _ = make_batch(maker, NUM_ENVS, **numbers)
    batch.arrays.mask[:] = True
    batch.reset()
    return batch


def test_an_environment_that_raises_is_named():
    for num_workers in [0, 1]:
        batch = make(num_workers, first_env=8, breaks_at=1, how="raise")
        wanted = r"8 of gym:Counting-v0 failed in step\(\) \(ValueError: the motor burns"
        with pytest.raises(SimulationError, match=f"Environment {wanted}"):
            batch.step()
        batch.close()


def test_a_worker_that_dies_is_named():
    batch = make(1, first_env=8, breaks_at=1, how="exit")
    with pytest.raises(SimulationError, match=r"worker of environments 8 to 10 .*exit code 3"):
        batch.step()
    batch.close()
    batch.close()


def test_a_signal_to_all_processes_of_a_job_leaves_a_worker_to_its_parent():
    """The parent then saves, for which it still needs its environments."""
    for name in ["SIGINT", "SIGTERM", "SIGUSR1"]:
        batch = make(1)
        worker = batch.workers[0].process
        worker.send_signal(signal.Signals[name])
        batch.step()
        assert worker.poll() is None
        batch.close()
        assert worker.poll() is not None


def test_a_worker_that_hangs_is_given_up_and_killed(monkeypatch):
    monkeypatch.setattr("envlab.host.workers.CLOSE_S", 0.2)
    batch = make(1, breaks_at=1, how="hang")
    batch.workers[0].timeout_s = 0.3  # once it has started
    start = time.monotonic()
    with pytest.raises(SimulationError, match=r"within 0.3 s\). Raise env.worker_timeout"):
        batch.step()
    batch.close()
    assert time.monotonic() - start < 3.0
    assert batch.workers[0].process.returncode == -9


def test_a_worker_that_cannot_make_its_environments_reports_why():
    model = make(0)
    layout = {name: (array.shape, array.dtype) for name, array in vars(model.arrays).items()}
    maker = EnvMaker(spec=gymnasium.spec("Counting-v0"), kwargs={"colour": "red"})
    with pytest.raises(ConfigurationError, match=r"cannot be made with env.kwargs.colour=red"):
        WorkerBatch([Share(maker, layout, 0, NUM_ENVS, 0, None)], timeout_s=60.0)


def test_processes_are_used_where_steps_are_slow(monkeypatch):
    cases = ((1e-5, 2, 0), (1e3, 2, 2), (1e3, 1, 0), (4e-4, 2, 0))  # too quick at last
    monkeypatch.setattr("envlab.host.workers.TRIAL_STEPS", 3)
    answer = WorkerBatch.answer
    for step_s, num_threads, expected in cases:
        monkeypatch.setattr("envlab.host.workers.measure_step_s", lambda _, s=step_s: s)
        if step_s < 1e-3:  # workers that take longer than the 1.2 ms they are compared with
            monkeypatch.setattr(WorkerBatch, "answer", lambda *_: time.sleep(0.01) or answer(*_))
        batch = make(None, num_threads=num_threads)
        assert isinstance(batch, LocalBatch if expected == 0 else WorkerBatch)
        assert len(getattr(batch, "workers", [])) == expected
        batch.close()
