"""The watchdog's output: the report on a stuck job, and the heartbeats until then."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import torch

from envlab.distributed.diagnosis import Diagnosis
from envlab.distributed.disk import describe, temporary_name
from envlab.distributed.heartbeat import Sighting
from envlab.distributed.processes import main_stack

logger = logging.getLogger(__name__)

MANY_RANKS = 16
"""With more ranks, the printed report leaves out those that merely wait; the file has all."""

NCCL_ADVICE = (
    "If the ranks wait in a collective of GPUs and none is to blame, NCCL itself may hang: start "
    "again with NCCL_P2P_DISABLE=1, then with NCCL_SHM_DISABLE=1 or NCCL_IB_DISABLE=1 "
    "(docs/distribute.md#when-nccl-hangs)."
)
"""Settings with which others' jobs ran on; see IsaacLab's issues 5195 and 2756."""


def compose_report(
    verdict: Diagnosis,
    sightings: Mapping[int, Sighting],
    stacks: Mapping[int, str],
    *,
    full: bool = False,
) -> str:
    """Return the report: which ranks are to blame, where each rank is, and stacks.

    Args:
        verdict: Why the job cannot continue.
        sightings: All ranks as seen by the reporter.
        stacks: Python stacks by rank, of those that could send them.
        full: Whether to show all threads of all ranks. Otherwise, all threads of the guilty ranks
            and the main thread of the first other rank.
    """
    lines = [f"error: {verdict.sentence(sightings)} All ranks end here.", "Ranks, -> to blame:"]
    others = [rank for rank in sightings if rank not in verdict.guilty]
    shown = sorted(sightings if full else [*verdict.guilty, *others][:MANY_RANKS])
    lines += [_line(sightings[rank], rank in verdict.guilty) for rank in shown]
    if len(shown) < len(sightings):
        lines.append(f"  and {len(sightings) - len(shown)} more")
    if any(seen.heartbeat.device.startswith("cuda") for seen in sightings.values()):
        lines.append(NCCL_ADVICE)
    if verdict.breaks_collectives and not full:
        return "\n".join(lines)
    for rank in verdict.guilty:
        text = stacks.get(rank) or _without_stacks(sightings[rank])
        lines += [f"Stacks of rank {rank}:", text]
    for rank in others if full else others[:1]:
        if rank in stacks:
            text = stacks[rank] if full else main_stack(stacks[rank]) + "\n"
            lines += [f"{'Stacks' if full else 'Main thread'} of rank {rank}:", text]
    return "\n".join(lines).rstrip()


def _without_stacks(seen: Sighting) -> str:
    if seen.process == "running":
        return "none: native code holds its interpreter; it prints them itself, below.\n"
    return "none: its process does not answer.\n"


def _line(seen: Sighting, is_guilty: bool) -> str:
    heartbeat = seen.heartbeat
    parts = [f"{'->' if is_guilty else '  '} rank {heartbeat.rank:<3} {heartbeat.place}"]
    if heartbeat.waits and heartbeat.waits != heartbeat.detail:
        parts.append(f"waits in {heartbeat.waits}")
    parts.append(f"no progress for {seen.idle_s:.1f} s")
    if seen.silent_s > 2.5:
        parts.append(f"silent for {seen.silent_s:.1f} s")
    if seen.process in ("gone", "stopped"):
        parts.append(f"process {seen.process}")
    return ", ".join([*parts, f"host {heartbeat.host}, pid {heartbeat.pid}"])


class HeartbeatFile:
    """``heartbeats.json`` of a run directory: the activity of each rank, for other programs.

    A disk that is full or refuses is no reason to end a run. The old file stays until the disk
    takes writes again, and warnings mark the beginning and the end of that.
    """

    def __init__(self, timeout_s: float) -> None:
        """Write nothing yet.

        Args:
            timeout_s: How long a rank may make no progress, written for readers.
        """
        self._timeout_s = timeout_s
        self._is_failing = False

    def write(self, directory: Path, sightings: Mapping[int, Sighting]) -> None:
        """Write the current state of all ranks."""
        path = directory / "heartbeats.json"
        temporary = temporary_name(path)
        try:
            temporary.write_text(json.dumps(self._values(sightings), indent=1) + "\n")
            temporary.replace(path)
        except OSError as error:
            if not self._is_failing:
                logger.warning(
                    "%s cannot be written (%s). The run continues; until it can, the file has an "
                    "earlier state.",
                    path,
                    describe(directory, error),
                )
            self._is_failing = True
            with contextlib.suppress(OSError):  # it is missing, or cannot be removed either
                temporary.unlink()
            return
        if self._is_failing:
            logger.warning("%s is written again.", path)
        self._is_failing = False

    def _values(self, sightings: Mapping[int, Sighting]) -> dict[str, Any]:
        ranks = [
            {
                "rank": rank,
                "host": seen.heartbeat.host,
                "pid": seen.heartbeat.pid,
                "phase": seen.heartbeat.phase,
                "detail": seen.heartbeat.detail,
                "iteration": seen.heartbeat.iteration,
                "frames": seen.heartbeat.frames,
                "device": seen.heartbeat.device,
                "cpu": seen.heartbeat.cpu,
                "memory_mb": seen.heartbeat.memory_mb,
                "gpu_memory_mb": seen.heartbeat.gpu_memory_mb,
                "seconds_since_progress": round(seen.idle_s, 1),
                "seconds_since_heard": round(seen.silent_s, 1),
                "process": seen.process,
            }
            for rank, seen in sorted(sightings.items())
        ]
        time = datetime.now().astimezone().isoformat(timespec="seconds")
        return {"time": time, "timeout_s": self._timeout_s, "ranks": ranks}


def write_nccl_trace(directory: Path, rank: int) -> None:
    """Write NCCL's flight recorder to ``nccl_rank<i>.json``: the last collectives, begun and ended.

    torch 2.13 keeps 2000 unless ``TORCH_FR_BUFFER_SIZE`` says otherwise; earlier versions may need
    that variable. Not tried with several GPUs.
    """
    dump = getattr(torch._C._distributed_c10d, "_dump_nccl_trace_json", None)  # only with NCCL
    if dump is None or not directory.is_dir():
        return
    try:
        (directory / f"nccl_rank{rank}.json").write_bytes(dump())
    except (OSError, RuntimeError, TypeError) as error:
        logger.warning("NCCL's trace cannot be written (%s).", error)
