"""Trained runs that several tests use: each fixture trains once."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch

from envlab.distributed.context import DistributedContext
from envlab.distributed.interrupt import SIGNALS
from envlab.envs import BatchedEnv
from envlab.envs.action_use import ActionBound
from envlab.libraries import get_library
from envlab.training.arguments import train_parser
from envlab.training.launch import train
from envlab.training.plan import RunPlan, plan_run
from envlab.training.preparation import make_env
from tests.launcher import TRAIN, Launch, run, torchrun

HERE = Path(__file__).parent
SLOW_END = HERE / "worker_slow_end.py"
TASK = "--task=Isaac-Cartpole-v0"
# Small, but with everything that must stay equal: normalisers, an adaptive learning rate, resets.
SMALL = [
    TASK,
    "--headless",
    "--device=cpu",
    "--num_envs=32",
    "agent.save_interval=2",
    "agent.keep_checkpoints=0",
    "agent.actor.obs_normalization=true",
    "agent.critic.obs_normalization=true",
]


DISTILLATION = [
    TASK,
    "--agent=rsl_rl_distillation_cfg_entry_point",
    "--checkpoint=pretrained",
    "--headless",
    "--device=cpu",
    "--num_envs=32",
    "agent.save_interval=2",
    "agent.keep_checkpoints=0",
    "agent.num_steps_per_env=15",
    "agent.student.obs_normalization=true",
]
"""A student of the policy that comes with envlab."""
SEER = ["--task=tests.seer:Test-Seer-v0", "--headless", "--device=cpu", "--num_envs=4"]
"""A small depth image and a vector."""


@pytest.fixture(autouse=True)
def _restore_process() -> Iterator[None]:
    """A script configures its process's log and torch's threads; here the process is pytest."""
    log = logging.getLogger("envlab")
    state = (log.handlers[:], log.propagate, log.level)
    threads = torch.get_num_threads()
    yield
    log.handlers[:], log.propagate = state[0], state[1]
    log.setLevel(state[2])
    torch.set_num_threads(threads)


def only_run(folder: Path) -> Path:
    """Return the one run directory under a folder."""
    (manifest,) = folder.glob("logs/*/*/*/run.json")
    return manifest.parent


def manifest_of(run_directory: Path) -> dict[str, Any]:
    return json.loads((run_directory / "run.json").read_text())


def metrics_of(run_directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run_directory / "metrics.jsonl").open()]


def metrics_so_far(run_directory: Path) -> list[dict[str, Any]]:
    """Return the metrics of a run that may still be writing them."""
    path = run_directory / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def checkpoint_of(run_directory: Path, iteration: int) -> dict[str, Any]:
    path = run_directory / "checkpoints" / f"model_{iteration}.pt"
    return torch.load(path, weights_only=True)


def train_in(folder: Path, *arguments: str) -> int:
    """Run train.py in this process and in a folder; return its exit code."""
    with contextlib.chdir(folder):
        return train("rsl_rl", arguments)


@contextlib.contextmanager
def signalled(number: signal.Signals, *, iteration: int = 2) -> Iterator[None]:
    """Send this process a signal in an iteration of a training, whose handlers are put back."""
    check, before = BatchedEnv.check_health, {one: signal.getsignal(one) for one in SIGNALS}

    def check_and_signal(env: BatchedEnv) -> None:
        if env.context.progress.iteration == iteration:
            os.kill(os.getpid(), number)
        check(env)

    try:
        with mock.patch.object(BatchedEnv, "check_health", check_and_signal):
            yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def session_of(name: str, arguments: Sequence[str]) -> RunPlan:
    """Return the plan that a library's train.py makes of its arguments."""
    library = get_library(name)
    flags, overrides = train_parser(library).parse_with_overrides(arguments)
    return plan_run(flags, overrides, library)


def bound_of(library: str, *words: str) -> ActionBound | None:
    """Return the bound at which a library's actions are counted; None if they are not."""
    words = ("--headless", "--device=cpu", "env.scene.num_envs=1", *words)
    env = make_env(session_of(library, words), DistributedContext.single("cpu"))
    env.close()
    return None if env.action_use is None else env.action_use.bound


@dataclass
class Pair:
    """Results of two ranks, and the output of their launch."""

    folder: Path
    output: str
    ends: dict[str, list[dict[str, Any]]]
    """By job, then by rank: ``model`` and, of the main job, the observations ``obs``."""
    first_update: list[dict[str, Any]]
    """By rank, then by kind: results of :mod:`first_update` of the library's tests."""

    def run(self, job: str) -> Path:
        return only_run(self.folder / job)


def launch_pair(folder: Path, command: Sequence[str | Path], jobs: Sequence[str]) -> Pair:
    """Run a library's worker, which writes ``<name>_rank<i>.pt`` for each job and first update."""
    code, output = run(command, folder, deadline_s=240.0)
    assert code == 0, output
    ends = {job: of_ranks(folder, f"{job}_rank") for job in jobs}
    return Pair(folder, output, ends, of_ranks(folder, "first_update_rank"))


def of_ranks(folder: Path, name: str) -> list[dict[str, Any]]:
    """Return the contents of each rank's ``<name><rank>.pt``."""
    return [torch.load(folder / f"{name}{rank}.pt", weights_only=False) for rank in range(2)]


@pytest.fixture(scope="session")
def trained_pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """rsl_rl's runs of 4 iterations on two ranks, one for each ``--grad_sync``."""
    folder = tmp_path_factory.mktemp("pair")
    flags = [*SMALL, "--distributed", "--max_iterations=4"]
    worker = HERE / "rsl_rl" / "worker_pair.py"
    return launch_pair(folder, torchrun(2, worker, folder, *flags), ("ddp", "library"))


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run directory of 4 iterations on one process."""
    folder = tmp_path_factory.mktemp("trained")
    assert train_in(folder, *SMALL, "--max_iterations=4") == 0
    return only_run(folder)


@dataclass
class EndedLaunch:
    """A launch of two ranks, one of which was killed, or which was signalled."""

    folder: Path
    code: int
    output: str
    left: dict[int, int | None]


def end_launch(
    folder: Path,
    rank: int | None,
    signal_number: int,
    *options: str,
    launcher: Sequence[str] = (),
    script: Path = TRAIN,
) -> EndedLaunch:
    """Train on two ranks and, after the first checkpoint, signal a rank (None: the launcher)."""
    flags = [*SMALL, "--distributed", "--max_iterations=100000", *options]
    python, *command = torchrun(2, script, *flags)
    where = command.index(script)
    launch = Launch([python, *command[:where], *launcher, *command[where:]], folder)
    try:
        launch.wait_until(lambda: list(folder.glob("logs/*/*/*/checkpoints/model_2.pt")))
        pid = launch.process.pid if rank is None else launch.pid_of_rank(rank)
        os.kill(pid, signal_number)
        code = launch.wait()  # torchrun waits 30 s before it kills workers
        return EndedLaunch(folder, code, launch.output, launch.left())
    finally:
        launch.close()


@pytest.fixture(scope="session")
def killed_pair(tmp_path_factory: pytest.TempPathFactory) -> EndedLaunch:
    """A launch whose rank 1 was killed, and whose rank 0 takes its time to leave."""
    folder = tmp_path_factory.mktemp("killed")
    return end_launch(folder, 1, signal.SIGKILL, script=SLOW_END)


def gradient_error(expected: dict[str, torch.Tensor], actual: dict[str, torch.Tensor]) -> float:
    """Return the largest difference, as a share of the largest element of its tensor."""
    assert expected.keys() == actual.keys()
    errors = [
        float((actual[name] - values).abs().max() / values.abs().max())
        for name, values in expected.items()
    ]
    return max(errors)


def on_one_thread(update: Callable[[DistributedContext], dict[str, Any]]) -> dict[str, Any]:
    """Return an update of one process, on one thread like each of several ranks."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return update(DistributedContext.single("cpu"))
    finally:
        torch.set_num_threads(threads)


def check_exported(run: Path, obs: torch.Tensor, expected: torch.Tensor) -> None:
    """Check that both policies that play exported into a run directory act as expected."""
    jit = torch.jit.load(str(run / "exported/policy.pt"))
    torch.testing.assert_close(jit(obs), expected, rtol=0.0, atol=1e-5)
    onnxruntime = pytest.importorskip(
        "onnxruntime", reason="needs onnxruntime: pip install -e '.[export]'"
    )
    session = onnxruntime.InferenceSession(str(run / "exported/policy.onnx"))
    (actions,) = session.run(["actions"], {"obs": obs.numpy()})
    torch.testing.assert_close(torch.from_numpy(actions), expected, rtol=0.0, atol=1e-5)
