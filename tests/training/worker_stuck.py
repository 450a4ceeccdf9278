"""Trains like a library's train.py, but rank 1 comes to grief 2.5 s after its first iteration.

Usage: worker_stuck.py HOW LIBRARY FLAGS..., see :func:`come_to_grief`, or
worker_stuck.py jobs FOLDER,HOW,HOW... FLAGS... for a job of two ranks for each way, in FOLDER/HOW.
The library ``plain`` is one of this file: an optimizer, real gradients through
DistributedDataParallel, and nothing to import.
"""

from __future__ import annotations

import ctypes
import dataclasses
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from envlab.distributed.context import DistributedContext
from envlab.distributed.ddp import PolicyDDP, settle_buckets
from envlab.distributed.program import guarded
from envlab.distributed.ranks import launched_rank
from envlab.envs import VectorEnv
from envlab.learner import Iteration, IterationRecord, Learner, OnStep
from envlab.libraries import get_library
from envlab.training.arguments import train_parser
from envlab.training.launch import run_training, train
from envlab.training.loop import Training
from envlab.training.plan import RunPlan
from tests.agents import free_port

FATAL_AFTER_S = 2.5
METRICS = "logs/*/*/*/metrics.jsonl"
AT_ONCE = 3


def come_to_grief(how: str) -> None:
    """Do on this rank what ``how`` says: sleep, hold (the interpreter), stop, kill or raise."""
    if how == "sleep":
        time.sleep(1000.0)
    if how == "hold":
        ctypes.PyDLL(None).sleep(1000)  # PyDLL, unlike CDLL, does not let other threads run
    if how in ("stop", "kill"):
        os.kill(os.getpid(), signal.SIGSTOP if how == "stop" else signal.SIGKILL)
    if how == "raise":
        raise ValueError("the robot is broken")


def plant(how: str) -> None:
    """Patch this process: in ``env.step``, or so that it passes over a collective."""
    write, step, gather = Training.write, VectorEnv.step, DistributedContext.gather
    fatal_at = [float("inf")]

    def timed(training: Training, record: IterationRecord) -> None:
        write(training, record)
        time.sleep(0.1)  # until then, the ranks of all jobs would keep all processors busy
        fatal_at[0] = min(fatal_at[0], time.monotonic() + FATAL_AFTER_S)

    def broken_step(env: VectorEnv, actions: Any) -> Any:
        if time.monotonic() > fatal_at[0]:
            come_to_grief(how)
        return step(env, actions)

    def skipped(context: DistributedContext, value: Any) -> Any:
        if time.monotonic() > fatal_at[0]:
            fatal_at[0] = float("inf")
            return [value] * context.world_size
        return gather(context, value)

    Training.write = timed  # type: ignore[method-assign]
    if how == "skip":
        DistributedContext.gather = skipped  # type: ignore[method-assign]
    else:
        VectorEnv.step = broken_step  # type: ignore[method-assign]


class Plain(Learner):
    """A learner that makes one update of a linear policy per iteration."""

    def __init__(self, plan: RunPlan, env: Any, context: DistributedContext) -> None:
        self._env, self._num_steps = env, plan.agent_cfg.num_steps_per_env
        observations = env.single_observation_space["policy"].shape[0]
        self._model = torch.nn.Linear(observations, env.single_action_space.shape[0])
        if context.is_distributed:
            self._model = PolicyDDP(self._model)
            settle_buckets(self._model)
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=0.01)

    def iterate(self, number: int, on_step: OnStep) -> Iteration:
        for _ in range(self._num_steps):
            obs = self._env.obs_buf["policy"]
            _, reward, terminated, truncated, info = self._env.step(self._model(obs).detach())
            on_step(reward, terminated | truncated, info)
        self._optimizer.zero_grad()
        self._model(self._env.obs_buf["policy"]).square().mean().backward()
        self._optimizer.step()
        frames = self._num_steps * self._env.num_envs
        return Iteration(frames=frames, collect_s=1.0, learn_s=1.0, learning_rate=0.01, losses={})

    def model_state(self) -> dict[str, Any]:
        return {"model": self._model.state_dict(), "optimizer": self._optimizer.state_dict()}

    def load_models(self, values: Mapping[str, Any]) -> None:
        self._model.load_state_dict(values["model"]["model"])


def train_plain(arguments: Sequence[str]) -> int:
    library = dataclasses.replace(get_library("rsl_rl"), build=Plain)
    flags, overrides = train_parser(library).parse_with_overrides(arguments)
    return run_training(library, flags, overrides)


def fork_jobs(folder: Path, ways: Sequence[str]) -> str | None:
    """Return how rank 1 comes to grief, in each rank of each job, and None here at the end.

    The jobs are forked from one process that has imported everything, which takes most of the time
    otherwise, and few begin at once: a rank that gets no processor for seconds looks like one that
    came to grief. Each has a launcher, a process that starts two ranks, waits for them, does not
    help them to end, and writes ``<how>/code``.
    """
    launchers: list[int] = []
    for number, how in enumerate(ways):
        while sum(not _has_begun(folder / other) for other in ways[:number]) >= AT_ONCE:
            time.sleep(0.05)
        port = free_port()
        launchers.append(os.fork())
        if launchers[-1] == 0:
            return _fork_ranks(folder / how, how, port)
    for launcher in launchers:
        os.waitpid(launcher, 0)
    return None


def _has_begun(folder: Path) -> bool:
    """Return whether a job has trained for an iteration, or ended."""
    return bool(list(folder.glob(METRICS))) or (folder / "code").exists()


def _fork_ranks(folder: Path, how: str, port: int) -> str:
    os.chdir(folder)
    output = os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    ranks = []
    for rank in range(2):
        ranks.append(os.fork())
        if ranks[-1] == 0:
            os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            return how
    Path("pids").write_text(f"{os.getpid()} {ranks[0]} {ranks[1]}")
    codes = [os.waitstatus_to_exitcode(os.waitpid(rank, 0)[1]) for rank in ranks]
    Path("code").write_text(" ".join(map(str, codes)))
    os._exit(0)


def main(words: Sequence[str]) -> int:
    how, library, *flags = words
    if how == "jobs":
        folder, *ways = library.split(",")
        found = fork_jobs(Path(folder), ways)
        if found is None:
            return 0
        how, library = found, "plain"
    if launched_rank() == 1 or "--distributed" not in flags:
        plant(how)
    if library == "plain":
        return guarded(train_plain, flags)
    return train(library, flags)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
