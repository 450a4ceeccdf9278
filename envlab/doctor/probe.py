"""Probes that may hang or crash, each in its own process with a deadline, all in parallel.

A probe is a function of :mod:`envlab.doctor.child` that yields facts. Facts yielded before a crash
or a deadline still count.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from envlab.child import Child, end_all
from envlab.distributed.ranks import NO_RANK
from envlab.errors import EnvlabError


@dataclass(kw_only=True)
class Answer:
    """The answer of a probe."""

    facts: list[dict[str, Any]] = field(default_factory=list)
    """The facts, in order."""
    problem: str | None = None
    """Why it ended early, such as the exception that it raised; None if it did not."""

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a name from the fact that has it."""
        return next((fact[name] for fact in self.facts if name in fact), default)


@dataclass(frozen=True, kw_only=True)
class Probe:
    """A function of :mod:`envlab.doctor.child` to call in another process."""

    name: str
    """The function's name without ``probe_``."""
    deadline_s: float
    """Seconds after which it is killed, with all that it started."""
    arguments: Sequence[str] = ()


def ask(probes: Sequence[Probe]) -> dict[str, Answer]:
    """Run probes at the same time; return their answers by name."""
    children = [_start(probe) for probe in probes]
    pool = ThreadPoolExecutor(max(1, len(probes)))
    try:
        answers = list(pool.map(_listen, children))
    finally:
        end_all(children, grace_s=0.0)  # first, so that an interruption does not wait for them
        pool.shutdown()
    return {probe.name: answer for probe, answer in zip(probes, answers, strict=True)}


def _start(probe: Probe) -> Child:
    return Child(
        "envlab.doctor.child:send_facts",
        *(probe.name, *probe.arguments),
        timeout_s=probe.deadline_s,
        environ=NO_RANK,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _listen(child: Child) -> Answer:
    """Return what a probe yields until it ends or is too slow."""
    answer = Answer()
    try:
        while (fact := child.receive()) is not None:
            answer.facts.append(fact)
    except EnvlabError as error:
        answer.problem = str(error)
    return answer
