"""The state of each rank of a run, from the heartbeats that rank 0 writes every 5 s."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from envlab.distributed.timeouts import DEFAULT_TIMEOUT_S, LOST_AFTER_S
from envlab.foreign import parse_json, read_text

T = TypeVar("T", int, float)

MUTE_S = 15.0
"""Rank 0 counts as lost after three missing heartbeats."""
SLOW_S = 5.0
"""Time without progress that is worth a look; a long update takes as much."""


@dataclass(frozen=True, kw_only=True)
class RankRow:
    """A rank on the page."""

    rank: int
    host: str
    pid: int | None
    device: str
    phase: str
    iteration: int | None
    idle_s: float
    """Time without progress, in seconds."""
    cpu: float | None
    """Cores in use."""
    memory_mb: int | None
    gpu_memory_mb: int | None
    state: str
    """``ok``, ``slow``, ``lost``, ``ended`` or ``unknown``."""
    says: str
    """The problem, as a sentence that names the rank."""


def read_ranks(directory: Path, manifest: Mapping[str, Any], *, silent_s: float) -> list[RankRow]:
    """Return the ranks of a run; none without readable heartbeats.

    Args:
        directory: The run directory.
        manifest: Contents of ``run.json``.
        silent_s: Time since the run last gave a sign of life, in seconds.
    """
    try:
        values = parse_json(read_text(directory / "heartbeats.json"))
        timeout_s = float(values.get("timeout_s", DEFAULT_TIMEOUT_S))
        return [_rank(value, manifest, silent_s, timeout_s) for value in values["ranks"]]
    except (OSError, ArithmeticError, ValueError, LookupError, TypeError, AttributeError):
        return []


def _rank(
    told: Mapping[str, Any], manifest: Mapping[str, Any], silent_s: float, timeout_s: float
) -> RankRow:
    number, is_running = int(told["rank"]), manifest.get("status") == "running"
    idle_s = float(told["seconds_since_progress"]) + (silent_s if is_running else 0.0)
    who = f"Rank {number} (host {told['host']}, pid {told['pid']})"
    if is_running:
        state, says = _judge(told, who, idle_s=idle_s, silent_s=silent_s, timeout_s=timeout_s)
    elif re.search(rf"\bRank {number} \(host", str(manifest.get("error") or "")):
        state, says = "lost", f"{who} ended the run."
    else:
        state, says = "ended", ""
    phase = " ".join(filter(None, (str(told["phase"]), str(told.get("detail") or ""))))
    return RankRow(
        rank=number,
        host=str(told["host"]),
        pid=told["pid"],
        device=str(told.get("device", "")),
        phase=phase,
        iteration=told.get("iteration"),
        idle_s=idle_s,
        cpu=_number(float, told, "cpu"),
        memory_mb=_number(int, told, "memory_mb"),
        gpu_memory_mb=_number(int, told, "gpu_memory_mb"),
        state=state,
        says=says,
    )


def _number(kind: Callable[[Any], T], told: Mapping[str, Any], name: str) -> T | None:
    return None if told.get(name) is None else kind(told[name])


def _judge(
    told: Mapping[str, Any], who: str, *, idle_s: float, silent_s: float, timeout_s: float
) -> tuple[str, str]:
    """Return a running rank's state, and its problem."""
    process, unheard_s = told.get("process"), float(told.get("seconds_since_heard", 0.0))
    if process == "stopped":
        return "lost", f"{who} is stopped (by SIGSTOP), and made no progress for {idle_s:.0f} s."
    if process == "gone":
        return "lost", f"{who} is gone: its process has ended."
    if silent_s > MUTE_S:
        if told["rank"] != 0:
            return "unknown", ""
        return "lost", f"{who}, which writes the heartbeats, has not done so for {silent_s:.0f} s."
    if unheard_s > LOST_AFTER_S:
        return "lost", f"{who} has not been heard from for {unheard_s + silent_s:.0f} s."
    if told["phase"] == "reduce":  # it waits for the others
        return "ok", ""
    if idle_s > timeout_s:
        return "lost", f"{who} has made no progress for {idle_s:.0f} s."
    if idle_s - silent_s > SLOW_S:
        return "slow", f"{who} has made no progress for {idle_s:.0f} s."
    return "ok", ""
