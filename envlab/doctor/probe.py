"""Looking at what may hang or crash: in processes of their own, all at once, each with a deadline.

A probe is a function of :mod:`envlab.doctor.child` that yields facts. What it has yielded
before it crashed or was too slow still counts.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from envlab.distributed.ranks import SKRL_LAUNCHER, TORCHRUN

GRACE_S = 2.0
"""How long a killed probe may take to be collected; one that waits for a dead disk never is."""


@dataclass(kw_only=True)
class Answer:
    """What a probe said."""

    facts: list[dict[str, Any]] = field(default_factory=list)
    """What it yielded, in order."""
    problem: str | None = None
    """Why it ended early: too slow, or the last line that it printed; null if it did not."""

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a name in whichever fact has it."""
        return next((fact[name] for fact in self.facts if name in fact), default)


@dataclass(frozen=True, kw_only=True)
class Probe:
    """A function of :mod:`envlab.doctor.child` to call in another process."""

    name: str
    """The function's name without ``probe_``."""
    deadline_s: float
    """After so many seconds it is killed, with all that it started."""
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables to set for it."""


def ask(probes: Sequence[Probe]) -> dict[str, Answer]:
    """Run probes at the same time; return their answers by name."""
    processes = [_start(probe) for probe in probes]
    pool = ThreadPoolExecutor(max(1, len(probes)))
    try:
        answers = list(pool.map(_listen, probes, processes))
    finally:
        for process in processes:
            if process.poll() is None:  # an interruption came first
                _kill(process)
        pool.shutdown()
    return {probe.name: answer for probe, answer in zip(probes, answers, strict=True)}


def _start(probe: Probe) -> subprocess.Popen[str]:
    """Start a probe, without the launcher's variables: some libraries join the ranks on import."""
    launchers = {*TORCHRUN, *SKRL_LAUNCHER, "LOCAL_WORLD_SIZE"}
    environment = {name: value for name, value in os.environ.items() if name not in launchers}
    return subprocess.Popen(
        [sys.executable, "-m", "envlab.doctor.child", probe.name, *probe.arguments],
        env=environment | dict(probe.environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )


def _listen(probe: Probe, process: subprocess.Popen[str]) -> Answer:
    """Return what a probe says until it ends or is too slow."""
    problem = None
    try:
        out, err = process.communicate(timeout=probe.deadline_s)
    except subprocess.TimeoutExpired:
        out, err = _kill(process)
        problem = f"no answer within {probe.deadline_s:.0f} s"
    code = process.returncode
    if problem is None and code < 0:
        problem = f"ended by {signal.Signals(-code).name}"
    elif problem is None and code > 0:
        problem = (err.strip().splitlines() or [f"exit code {code}"])[-1].strip()
    facts = [json.loads(line) for line in out.splitlines() if line.endswith("}")]
    return Answer(facts=facts, problem=problem)


def _kill(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Kill a probe and what it started; return what it had printed."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        process.kill()
    try:
        return process.communicate(timeout=GRACE_S)
    except subprocess.TimeoutExpired:  # it waits for a device that does not answer
        return "", ""
