"""Collection alongside learning: while one rollout is learned from, a thread collects the next.

In iteration k the learner's thread learns from rollout k, and another one collects rollout k+1 with
a copy of the policy after iteration k-1. The threads share nothing while both run:

- the policy is copied, and a rollout handed over, only between iterations, when the thread rests;
- actions are drawn from the thread's own generator, and environments have theirs;
- only the learner uses collectives.

So the bits of a run do not depend on which thread is faster. Checkpoints are written while the
thread rests, and hold the rollout that is ahead, so a resumed run begins by learning from it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Generic, Protocol, TypeVar

import torch

from envlab.distributed.audit import digests, flatten
from envlab.distributed.context import DistributedContext
from envlab.distributed.seeding import generator_state
from envlab.envs import BatchedEnv
from envlab.errors import ConfigurationError
from envlab.learner import OnStep
from envlab.state import Share, rows_of_tree


class Saved(Protocol):
    """A rollout that checkpoints can hold."""

    def state(self) -> dict[str, Any]:
        """Return the state that must survive a resume, on the CPU."""

    @classmethod
    def dealt(cls, saved: Sequence[Mapping[str, Any]], share: Share) -> dict[str, Any]:
        """Return a share of the rollouts whose :meth:`state` several processes saved."""


Rollout = TypeVar("Rollout", bound=Saved)


class Overlap(Generic[Rollout]):
    """The thread that collects, and the rollout that is ahead of the learner.

    Attributes:
        ahead: The rollout that was collected and not learned from yet; None before the first.
        generator: The generator for the thread's actions.
    """

    def __init__(
        self,
        collect: Callable[[], Rollout],
        hand_over: Callable[[], None],
        load: Callable[[Mapping[str, Any]], Rollout],
        kind: type[Rollout],
        context: DistributedContext,
    ) -> None:
        """Start no thread yet.

        Args:
            collect: Collects a rollout. The thread calls it, so it may not touch anything that the
                learner changes meanwhile.
            hand_over: Copies the policy to where ``collect`` finds it. Called between rollouts.
            load: Returns the rollout of a saved state.
            kind: The class of rollouts.
            context: The process's context.
        """
        self._collect, self._hand_over, self._context = collect, hand_over, context
        self._load, self._kind = load, kind
        # torch keeps a number of threads per thread, and environments change it as they step.
        self._thread = ThreadPoolExecutor(
            1, "collect", initializer=torch.set_num_threads, initargs=(torch.get_num_threads(),)
        )
        device = context.device
        # With its own stream, it need not wait for the work that the learner has queued on a GPU.
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self.generator = torch.Generator(device)
        self._seed_actions()
        self.ahead: Rollout | None = None

    def _seed_actions(self) -> None:
        # Ranks may have the same seed, but explore differently.
        self.generator.manual_seed(int(torch.randint(2**62, ())) + self._context.rank)

    @contextlib.contextmanager
    def rollout(self) -> Iterator[Rollout]:
        """Lend a rollout to learn from while the next is collected.

        Raises:
            ConfigurationError: If the task's rollouts cannot be collected alongside learning.
        """
        rollout, self.ahead = self.ahead, None
        if rollout is None:
            rollout = self._first()
        begun = self.begin()
        try:
            yield rollout  # held here, so that the next but one reuses its memory
        finally:
            self._context.progress.mark("collect")
            wait([begun])  # whatever happened, the thread leaves the environments
        self.ahead = begun.result()

    def begin(self) -> Future[Rollout]:
        """Hand the policy over, and have the thread collect a rollout with it."""
        self._hand_over()
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream(self._context.device))
        return self._thread.submit(self.run)

    def run(self) -> Rollout:
        """Collect a rollout; the thread's work."""
        with torch.no_grad():
            if self._stream is None:
                return self._collect()
            with torch.cuda.stream(self._stream):
                rollout = self._collect()
            self._stream.synchronize()
            return rollout

    def _first(self) -> Rollout:
        """Collect a rollout while the learner waits, and check that it used only the thread."""
        drawn, met = digests(flatten(generator_state())), self._context.progress.collectives
        rollout = self.begin().result()
        problem = None
        if self._context.progress.collectives != met:
            problem = "sums over processes, which two threads cannot do in one order"
        elif digests(flatten(generator_state())) != drawn:
            problem = "draws from the process's generators, which the learner draws from meanwhile"
        if problem is None:
            return rollout
        raise ConfigurationError(
            f"agent.overlap=true collects while it learns, but a rollout of this task {problem}. "
            "Leave agent.overlap out, or have the task draw from env.random."
        )

    def state(self) -> dict[str, Any]:
        """Return the state that must survive a resume. Do not call this within :meth:`rollout`."""
        ahead = None if self.ahead is None else self.ahead.state()
        return {"ahead": ahead, "generator": self.generator.get_state()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore the result of :meth:`state`, or of :meth:`deal`, which has no generator."""
        if state["generator"] is None:
            self._seed_actions()
        else:
            self.generator.set_state(state["generator"])
        self.ahead = None if state["ahead"] is None else self._load(state["ahead"])

    def deal(self, saved: Sequence[Mapping[str, Any]], share: Share) -> dict[str, Any]:
        """Return a share of what several processes saved; see :func:`envlab.state.deal`."""
        rollouts = [each["ahead"] for each in saved]
        has_all = all(rollout is not None for rollout in rollouts)
        return {
            "ahead": self._kind.dealt(rollouts, share) if has_all else None,
            "generator": None,
        }


class StepLog:
    """Keeps a rollout's steps for the loop until the learner has come to it."""

    def __init__(self, context: DistributedContext) -> None:
        self._device, self._progress = context.device, context.progress
        self._steps: list[dict[str, Any]] = []

    def __call__(
        self, rewards: torch.Tensor, ended: torch.Tensor, info: Mapping[str, Any], /
    ) -> None:
        """Keep a step; see :class:`envlab.learner.OnStep`."""
        kept = {name: info[name] for name in ("num_ended", "log")}
        self._steps.append(copied({"rewards": rewards, "ended": ended, "info": kept}))
        self._progress.mark()

    def tell(self, on_step: OnStep) -> None:
        """Pass all steps to the loop."""
        for step in self._steps:
            on_step(step["rewards"], step["ended"], step["info"])

    def state(self) -> list[dict[str, Any]]:
        """Return the state that must survive a resume, on the CPU."""
        moved: list[dict[str, Any]] = copied(self._steps, torch.device("cpu"))
        return moved

    def set_state(self, state: Sequence[Mapping[str, Any]]) -> None:
        """Restore the result of :meth:`state`."""
        self._steps = copied(list(state), self._device)

    @staticmethod
    def dealt(saved: Sequence[Sequence[Mapping[str, Any]]], share: Share) -> list[dict[str, Any]]:
        """Return a share of the steps that several processes saved, in their order."""
        return [_dealt_step(step, share) for step in zip(*saved, strict=True)]


def _dealt_step(saved: Sequence[Mapping[str, Any]], share: Share) -> dict[str, Any]:
    """Return a share of a step, whose log is the mean over the episodes that ended in it."""
    rows = {
        name: rows_of_tree([step[name] for step in saved], share, 0, name)
        for name in ("rewards", "ended")
    }
    counts = [ended.sum() for ended in share.rows([step["ended"] for step in saved], _narrowed)]
    logs = [step["info"]["log"] for step in saved]
    total = sum(counts)
    log = {
        name: sum(count * log[name] for count, log in zip(counts, logs, strict=True)) / total
        for name in logs[0]
        if total and all(name in log for log in logs)
    }
    is_tensor = isinstance(saved[0]["info"]["num_ended"], torch.Tensor)
    return {**rows, "info": {"num_ended": total if is_tensor else int(total), "log": log}}


def _narrowed(values: torch.Tensor, first: int, number: int) -> torch.Tensor:
    return values.narrow(0, first, number)


def copied(values: Any, device: torch.device | None = None) -> Any:
    """Return copies of tensors in dictionaries, lists and tuples, on ``device`` if it is given."""
    if isinstance(values, torch.Tensor):
        return values.detach().to(device or values.device, copy=True)
    if isinstance(values, Mapping):
        return {name: copied(value, device) for name, value in values.items()}
    if isinstance(values, list | tuple):
        return type(values)(copied(value, device) for value in values)
    return values


def check_overlap(env: BatchedEnv) -> None:
    """Refuse environments that leave nothing to overlap with.

    Raises:
        ConfigurationError: If they are on a GPU.
    """
    if env.device.type == "cuda":
        raise ConfigurationError(
            f"agent.overlap=true collects on the CPU while a GPU learns, but the environments are "
            f"on {env.device} as well. Add env.sim.backend=mujoco, or leave agent.overlap out."
        )
