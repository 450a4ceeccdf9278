"""The watchdog: ends a stuck job, and reports which rank is to blame and where it was.

A thread in each process looks once a second at the heartbeats of all ranks
(:mod:`envlab.distributed.exchange`) and diagnoses them (:mod:`envlab.distributed.diagnosis`).
Neither waits for the main thread, which may be in native code that never returns. The first rank to
reach a verdict notifies the others; all send their Python stacks, one rank prints the report, and
each process exits with :data:`HUNG_EXIT_CODE`.
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic, sleep

from torch.optim.optimizer import register_optimizer_step_post_hook

from envlab.distributed import last_resort
from envlab.distributed.context import DistributedContext
from envlab.distributed.diagnosis import Diagnosis, diagnose
from envlab.distributed.exchange import PAUSE_S, Exchange
from envlab.distributed.heartbeat import Heartbeat, Sighting, process_state
from envlab.distributed.processes import all_stacks
from envlab.distributed.progress import is_broken_collective, one_line
from envlab.distributed.ranks import MeetingPoint
from envlab.distributed.report import HeartbeatFile, compose_report, write_nccl_trace
from envlab.distributed.timeouts import (
    DEFAULT_TIMEOUT_S,
    HICCUP_S,
    LOST_AFTER_S,
    STARTUP_TIMEOUT_S,
)

logger = logging.getLogger(__name__)

HUNG_EXIT_CODE = 70
"""``EX_SOFTWARE`` of sysexits.h: this or another rank hung, failed or died."""
TICK_S = 1.0
HEARTBEATS_EVERY_S = 5.0
EXPLAIN_S = 3.0
"""How long a rank whose collective broke looks for the rank that broke it."""
GRACE_S = 5.0
"""How long the main thread may take to end after another rank failed or died."""
STACKS_SIGNAL = signal.SIGUSR2
"""Makes a process print its stacks without its interpreter's help."""
FALLBACK_AFTER_S = 15.0
"""How long after the timeout a process takes its last resort, unless others end it."""
STACKS_WAIT_S = 3.0
REPORT_WAIT_S = 6.0

EndRun = Callable[[Path, str, str], None]
"""Records in a run directory that the run failed: directory, sentence, report."""


class Watchdog:
    """Watches all ranks from one of them, from its construction to :meth:`close`."""

    def __init__(
        self,
        context: DistributedContext,
        *,
        end_run: EndRun,
        meeting_point: MeetingPoint | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        has_launcher: bool = False,
    ) -> None:
        """Meet the other ranks; every rank must call this.

        Args:
            context: The process's context, whose progress is watched.
            end_run: Records the end in the run directory, on one rank.
            meeting_point: Where the ranks' store is; without it, this rank watches only itself.
            timeout_s: How long a rank may make no progress.
            has_launcher: Whether a launcher started this process, which then ends with it.
        """
        self.context, self.progress, self._timeout_s = context, context.progress, timeout_s
        self._launcher = os.getppid() if has_launcher else None
        self._end_run, self._heartbeats = end_run, HeartbeatFile(timeout_s)
        self.exchange: Exchange | None = None
        self._ticked_at = monotonic()
        if context.is_distributed and meeting_point is not None:
            self.exchange = Exchange(context, self.heartbeat, meeting_point)
        self._stopping, self._ending = threading.Event(), threading.Event()
        self._is_leaving = False
        self._ticked_at = self._warm_at = monotonic()
        self._fatal_since: float | None = None
        self._written_at = 0.0
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
        self.progress.lost_peer = self.lost_peer
        if self.exchange is not None:
            self.exchange.start()
        self._thread.start()
        with contextlib.suppress(*last_resort.NO_STDERR):
            faulthandler.register(STACKS_SIGNAL)
        self._hook = register_optimizer_step_post_hook(lambda *_: self.progress.mark())

    def close(self) -> None:
        """Stop watching; never returns if the end has begun."""
        self._block_if_shutting_down()
        self._stopping.set()
        self._thread.join(STACKS_WAIT_S)  # else it might arm the last resort again
        self._block_if_shutting_down()
        self._hook.remove()
        if self.exchange is not None:
            self.exchange.stop()
        last_resort.disarm()
        faulthandler.unregister(STACKS_SIGNAL)
        self.progress.lost_peer = lambda error, may_wait: None

    def lost_peer(self, error: BaseException, may_wait: bool = True) -> str | None:
        """Return which other rank failed or died, if that caused an error of the main thread.

        It may take up to 3 s if ``may_wait``, because the news may arrive after the error.
        """
        self._block_if_shutting_down()
        if self.exchange is None or not is_broken_collective(error):
            return None
        deadline = monotonic() + (EXPLAIN_S if may_wait else 0.0)
        while True:
            self._block_if_shutting_down()
            self.exchange.flush()
            sightings = self.exchange.sightings()
            verdict = self._judge(sightings)
            others = {} if verdict is None else dict(verdict.guilty)
            others.pop(self.context.rank, None)
            if verdict is not None and others and verdict.kind != "stalled":
                self._is_leaving = True
                return Diagnosis(kind=verdict.kind, guilty=others).sentence(sightings)
            if monotonic() > deadline:
                return self._left_peers(sightings) if may_wait else None
            sleep(0.1)

    def _block_if_shutting_down(self) -> None:
        """Do not return if the end has begun, here or elsewhere, and includes this process."""
        text = "" if self.exchange is None else self.exchange.verdict
        if self._ending.is_set() or (text and not self._leaves_before(Diagnosis.from_json(text))):
            sleep(STACKS_WAIT_S + REPORT_WAIT_S + GRACE_S)

    def _leaves_before(self, verdict: Diagnosis) -> bool:
        """Return whether the main thread knows of a verdict and will exit without help.

        If it has raised an error, it first closes what is open, such as an upload, and reports it.
        """
        has_failed = bool(self.progress.failure)
        if has_failed and self._fatal_since is not None:
            has_failed = monotonic() - self._fatal_since <= self._timeout_s
        return verdict.breaks_collectives and (self._is_leaving or has_failed)

    def _left_peers(self, sightings: Mapping[int, Sighting]) -> str | None:
        left = [
            seen.heartbeat.name
            for rank, seen in sightings.items()
            if rank != self.context.rank and seen.heartbeat.phase == "close"
        ]
        return f"{' and '.join(left)} left before the others; see its output." if left else None

    def speaks(self) -> bool:
        """Return whether this rank, as the first one alive, reports which rank was lost."""
        sightings = self._sightings()
        return self._reporter(sightings, self._judge(sightings)) == self.context.rank

    def tell_failure(self, error: BaseException) -> None:
        """Notify the others how this process failed, and give the news a moment to spread."""
        self.progress.failure = self.progress.failure or one_line(error)
        if self.exchange is not None and not getattr(error, "same_on_all_ranks", False):
            self.exchange.flush()
            sleep(1.2 * self.exchange.interval_s)

    def heartbeat(self, number: int) -> Heartbeat:
        self._forgive_pause()
        rank, device = self.context.rank, str(self.context.device)
        return Heartbeat.of(self.progress, rank, number, device)

    def _forgive_pause(self) -> None:
        """Restart all clocks if this process, or the machine, was suspended."""
        if monotonic() - self._ticked_at > TICK_S + PAUSE_S:
            self.progress.mark()
            if self.exchange is not None:
                self.exchange.forgive()

    def _sightings(self) -> dict[int, Sighting]:
        self._forgive_pause()
        if self.exchange is not None:
            return self.exchange.sightings()
        return {self.context.rank: Sighting(heartbeat=self.heartbeat(0), process="running")}

    def _judge(self, sightings: Mapping[int, Sighting]) -> Diagnosis | None:
        exchange, now = self.exchange, monotonic()
        if not any(seen.heartbeat.is_warm for seen in sightings.values()):
            self._warm_at = now
        if exchange is not None and exchange.is_deaf:
            return self._judge_deaf(sightings, now - self._warm_at)
        return diagnose(
            sightings,
            self.context.rank,
            timeout_s=self._timeout_s,
            warm_for_s=now - self._warm_at,
            store="" if exchange is None else exchange.address,
            store_silent_s=0.0 if exchange is None else exchange.silent_s,
        )

    def _judge_deaf(self, sightings: Mapping[int, Sighting], warm_for_s: float) -> Diagnosis | None:
        """Judge without news of the others, by the state of the processes on this machine."""
        rank = self.context.rank
        known = {
            other: seen
            for other, seen in sightings.items()
            if other == rank or seen.process == "gone"
        }
        if len(known) == 1 and known[rank].heartbeat.waits:
            return None  # for a rank that may be at work
        return diagnose(known, rank, timeout_s=self._timeout_s, warm_for_s=warm_for_s)

    def _run(self) -> None:
        while not self._stopping.wait(TICK_S):
            self.look()

    def look(self) -> None:
        """Look at all ranks, once a second; end the process if the job is stuck."""
        self._forgive_pause()
        self._say_pause(monotonic() - self._ticked_at)
        self._ticked_at = monotonic()
        self._arm_fallback()
        self._check_launcher()
        sightings = self._sightings()
        self._write_heartbeats(sightings)
        if self.exchange is not None and self.exchange.verdict:
            self._end(Diagnosis.from_json(self.exchange.verdict), sightings)
        verdict = self._judge(sightings)
        if verdict is None:
            self._fatal_since = None
            return
        self._fatal_since = self._fatal_since or monotonic()
        if not verdict.breaks_collectives or monotonic() - self._fatal_since > GRACE_S:
            self._end(verdict, sightings)

    def _arm_fallback(self) -> None:
        """Have the process end even if native code holds the interpreter, stopping this thread."""
        if self.exchange is not None:
            last_resort.arm(self._fallback_s)

    @property
    def _fallback_s(self) -> float:
        is_warm = self.progress.is_warm
        limit = self._timeout_s if is_warm else max(self._timeout_s, STARTUP_TIMEOUT_S)
        return limit + FALLBACK_AFTER_S

    def _say_pause(self, seconds: float) -> None:
        """Log that this process was suspended for longer than the others wait."""
        if self.exchange is not None and seconds > self._fallback_s:
            logger.warning(
                "Rank %d continues after a suspension of %.0f s.", self.context.rank, seconds
            )

    def _check_launcher(self) -> None:
        """End like a preempted run if the launcher has exited: no other process would end us."""
        if self._launcher is None or os.getppid() == self._launcher:
            return
        logger.warning("The launcher (pid %d) has exited; ending.", self._launcher)
        self._launcher = None
        os.kill(os.getpid(), signal.SIGTERM)

    def _write_heartbeats(self, sightings: Mapping[int, Sighting]) -> None:
        directory = self.progress.directory
        if directory is None or not self.context.is_main:
            return
        if monotonic() - self._written_at < HEARTBEATS_EVERY_S:
            return
        self._written_at = monotonic()
        in_background(self._heartbeats.write, directory, sightings)

    def _end(self, verdict: Diagnosis, sightings: dict[int, Sighting]) -> None:
        """Report and exit; returns only if the main thread is about to leave."""
        if self._leaves_before(verdict):
            return
        self._ending.set()
        stacks = {self.context.rank: all_stacks()}
        reporter = self._reporter(sightings, verdict)
        if self.exchange is not None:
            self.exchange.post("stacks", stacks[self.context.rank])
            self.exchange.post("verdict", verdict.to_json())
            self._wait(lambda exchange: bool(exchange.verdict), STACKS_WAIT_S)
            if self.exchange.verdict:
                verdict = Diagnosis.from_json(self.exchange.verdict)
                reporter = self._reporter(sightings, verdict)
        if self.context.device.type == "cuda" and (directory := self.progress.directory):
            in_background(write_nccl_trace, directory, self.context.rank).join(STACKS_WAIT_S)
        if reporter == self.context.rank:
            self._report(verdict, sightings, stacks)
        else:
            self._wait(lambda exchange: exchange.is_reported, REPORT_WAIT_S)
        self._kill_mute(verdict, sightings)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # closed
                stream.flush()
        os._exit(HUNG_EXIT_CODE)

    def _report(
        self, verdict: Diagnosis, sightings: dict[int, Sighting], stacks: dict[int, str]
    ) -> None:
        """Print the report, and record it in the run directory."""
        if self.exchange is not None:
            mute = set(verdict.guilty) if verdict.kind in ("gone", "lost") else set()
            mute |= {rank for rank, seen in sightings.items() if seen.silent_s > LOST_AFTER_S / 2}
            wanted = sightings.keys() - mute
            self._wait(lambda exchange: exchange.stacks.keys() >= wanted, STACKS_WAIT_S)
            stacks |= self.exchange.stacks
        sentence = verdict.sentence(sightings)
        print(compose_report(verdict, sightings, stacks), file=sys.stderr, flush=True)
        if (directory := self.progress.directory) is not None:
            full = compose_report(verdict, sightings, stacks, full=True)
            in_background(self._end_run, directory, sentence, full).join(STACKS_WAIT_S)
        if self.exchange is not None:
            self.exchange.post("reported", "yes")
            self._wait(lambda exchange: exchange.is_reported, 1.0)

    def _wait(self, condition: Callable[[Exchange], bool], seconds: float) -> None:
        deadline = monotonic() + seconds
        while self.exchange is not None and self.exchange.is_alive() and monotonic() < deadline:
            if condition(self.exchange):
                return
            sleep(0.05)

    def _reporter(self, sightings: Mapping[int, Sighting], verdict: Diagnosis | None) -> int:
        """Return the first rank that can report."""
        mute = verdict.guilty if verdict is not None and verdict.kind != "stalled" else {}
        is_blind = self.exchange is not None and self.exchange.silent_s > LOST_AFTER_S / 2
        able = [
            rank
            for rank, seen in sightings.items()
            if rank not in mute
            and seen.heartbeat.phase != "close"
            and (seen.silent_s < LOST_AFTER_S / 2 or (is_blind and seen.process == "running"))
            and seen.process not in ("stopped", "gone")
        ]
        return min(able, default=self.context.rank)

    def _kill_mute(self, verdict: Diagnosis, sightings: Mapping[int, Sighting]) -> None:
        """Kill guilty processes on this machine that cannot end by themselves.

        torchrun would wait 30 s for them. Those that are not stopped print their stacks first.
        """
        for rank in verdict.guilty.keys() - {self.context.rank}:
            seen = sightings[rank]
            state = process_state(seen.heartbeat)
            is_mute = seen.silent_s > HICCUP_S
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if state == "running" and is_mute:
                    os.kill(seen.heartbeat.pid, STACKS_SIGNAL)
                    sleep(0.5)
                if state == "stopped" or (state == "running" and is_mute):
                    os.kill(seen.heartbeat.pid, signal.SIGKILL)


def in_background(function: Callable[..., None], *arguments: object) -> threading.Thread:
    """Run in a thread a function that may never return, such as a write to a dead file server."""
    thread = threading.Thread(target=function, args=arguments, name="watchdog writer", daemon=True)
    thread.start()
    return thread
