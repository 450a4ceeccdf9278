"""A trial: a spec's sessions, started, watched, and summed up in one run directory.

``sessions/<number>/`` is a complete run directory. ``checkpoints`` links to those of the first
session, or with shared parameters, of the session that saved last. A record of the trial's
``metrics.jsonl`` is the mean of the sessions' records of one iteration, and counts the frames of
all of them.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing.connection
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.multiprocessing

from envlab.child import how_it_ended
from envlab.config import write_yaml
from envlab.distributed.context import DistributedContext
from envlab.distributed.interrupt import PREEMPTED_EXIT_CODE, Interrupted, InterruptFlag
from envlab.distributed.timeouts import STARTUP_TIMEOUT_S
from envlab.distributed.watchdog import FALLBACK_AFTER_S, HUNG_EXIT_CODE, STACKS_SIGNAL
from envlab.errors import EnvlabError
from envlab.learner import IterationRecord
from envlab.run.directory import Run
from envlab.run.records import cut_metrics, read_standing
from envlab.training.metrics import ProgressLine
from envlab.training.plan import Start, settle
from envlab.training.preparation import open_run
from envlab_populations.hogwild.graphs import draw_trial
from envlab_populations.hogwild.preparation import (
    Options,
    check_cores,
    choose_device,
    find_progress,
    last_saved,
    prepare_trial,
)
from envlab_populations.hogwild.records import Running, mean_record, newest_iteration
from envlab_populations.hogwild.session import SessionOrder, output_of, plan_session, run_session
from envlab_populations.hogwild.sharing import Shared
from envlab_populations.hogwild.translation import Plan

logger = logging.getLogger(f"envlab.{__name__}")

LOOK_S = 0.5
"""Seconds between two looks at the sessions."""
LEAVE_S = 60.0
"""Longest time in which a session that is asked to end may save and exit."""
LOGGED_LINES = 30
"""Lines of a failed session's output that are repeated."""


class SessionFailedError(EnvlabError):
    """A session died or hung; its output is in the log."""

    exit_code = HUNG_EXIT_CODE


def run_trial(plan: Plan, options: Options, flag: InterruptFlag) -> Run:
    """Run a trial to its end.

    Args:
        plan: What to train.
        options: How to run it.
        flag: Set if a signal ended the trial.

    Raises:
        EnvlabError: For bad input, before a run directory is made; or if a session failed.
    """
    device = choose_device(plan, options)
    context = replace(DistributedContext.single(device), num_threads=1)
    run_plan = settle(plan_session(plan, device=device, trial=options.trial), context)
    plan = replace(plan, agent=replace(plan.agent, seed=run_plan.agent_cfg.seed))
    check_cores(plan)
    start = Start()
    if options.resumes is not None:
        saved = find_progress(plan, options.resumes)
        start = Start(directory=options.resumes, saved=saved)
    run_plan = replace(run_plan, destination=options.destination, start=start)
    shared, baseline = prepare_trial(plan, run_plan, context, options)
    facts = {"distributed": plan.agent.distributed, "num_sessions": plan.agent.num_sessions}
    with open_run(run_plan, context, flag, facts) as run:
        sessions = run.directory / "sessions"
        if options.resumes is None:
            write_yaml(run.directory / "params" / "spec.yaml", plan.spec.values())
            run.checkpoints.rmdir()
            _link_checkpoints(run, sessions / "0")
        is_exact = plan.agent.distributed == "false"
        run.update(
            sessions=plan.agent.num_sessions,
            **({"replaced_env": plan.spec.replaced_env} if plan.spec.replaced_env else {}),
            max_frame=plan.max_frame,
            log_frequency=plan.log_frequency,
            reproducible=is_exact,
            random_baseline=baseline,
            global_num_envs=plan.agent.num_sessions * run_plan.env_cfg.scene.num_envs,
        )
        # If the trial was killed, sessions may have saved iterations of which it has no record.
        done = read_standing(run.directory).iteration or 0
        try:
            Trial(plan, options, run, context, shared, sessions, device, done).run()
        except Interrupted as interrupted:
            interrupted.directory = run.directory
            raise
        if shared is not None:
            _link_checkpoints(run, last_saved(sessions))
    _draw(run.directory)
    return run


class Trial:
    """Starts, watches and ends the sessions of a trial."""

    def __init__(
        self,
        plan: Plan,
        options: Options,
        run: Run,
        context: DistributedContext,
        shared: Shared | None,
        folder: Path,
        device: str,
        done: int,
    ) -> None:
        """Prepare the trial; it has records of ``done`` iterations."""
        self._plan, self._options, self._run, self._context = plan, options, run, context
        self._shared, self._folder, self._device = shared, folder, device
        self._frames = torch.zeros(plan.agent.num_sessions, dtype=torch.int64).share_memory_()
        self._sessions: list[Running] = []
        self._written = done

    def run(self) -> None:
        """Start the sessions, and wait for all of them.

        Raises:
            SessionFailedError: Naming those that failed.
        """
        line = ProgressLine(
            self._context, done=self._written, total=self._plan.agent.max_iterations
        )
        try:
            self._start()
            while any(session.process.is_alive() for session in self._sessions):
                self._wait()
                self._look()
                self._write(line)
                if self._failed() and not self._options.continues:
                    break
            self._look()
        finally:
            self._end()
            self._write(line)
            line.close()
        failed = self._failed()
        if failed:
            raise SessionFailedError(" ".join(one.failure for one in failed))

    def _start(self) -> None:
        """Start a process for each session, on a separate core if there are enough."""
        cores = sorted(os.sched_getaffinity(0))
        start = torch.multiprocessing.get_context("spawn").Process
        pinned = self._plan.agent.num_sessions <= len(cores)
        for number in range(self._plan.agent.num_sessions):
            directory = self._folder / str(number)
            order = SessionOrder(
                plan=self._plan,
                number=number,
                directory=directory,
                device=self._device,
                frames=self._frames,
                shared=self._shared,
                core=cores[number] if pinned else None,
                resumes=self._options.resumes is not None,
                timeout_s=self._options.timeout_s,
                verbose=self._options.verbose,
            )
            process = start(target=run_session, args=(order,), name=f"session {number}")
            running = Running(number=number, process=process, directory=directory)
            if order.resumes:
                # Otherwise the session would do it while its records are read here.
                cut_metrics(directory, newest_iteration(directory))
                running.read_records()
            process.start()
            self._sessions.append(running)

    def _wait(self) -> None:
        alive = [
            session.process.sentinel for session in self._sessions if session.process.is_alive()
        ]
        multiprocessing.connection.wait(alive, timeout=LOOK_S)

    def _look(self) -> None:
        """Record dead sessions, and end hanging ones."""
        now = time.monotonic()
        for one in self._sessions:
            code, frames = one.process.exitcode, int(self._frames[one.number])
            if frames != one.frames:
                one.frames, one.moved_at = frames, now
            if one.failure:
                continue
            if code is not None and code != 0:
                one.failure = f"Session {one.number} (pid {one.process.pid}) {_how(code)}."
                self._tell(one)
            patience = self._options.timeout_s if one.frames else STARTUP_TIMEOUT_S
            if code is None and now - one.moved_at > patience + FALLBACK_AFTER_S:
                one.failure = (
                    f"Session {one.number} (pid {one.process.pid}) made no progress for "
                    f"{now - one.moved_at:.0f} s, at {frames} frames."
                )
                _kill(one.process)
                self._tell(one)

    def _tell(self, one: Running) -> None:
        """Log the end of a session's output, which has its traceback or stacks."""
        path = output_of(one.directory)
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        output = "\n".join(f"  {line}" for line in lines[-LOGGED_LINES:])
        others = "The others continue." if self._options.continues else "The others end."
        logger.error("%s %s Its output (%s) ends with:\n%s", one.failure, others, path, output)

    def _failed(self) -> list[Running]:
        return [session for session in self._sessions if session.failure]

    def _end(self) -> None:
        """Ask running sessions to save and exit; end those that do not."""
        alive = [session.process for session in self._sessions if session.process.is_alive()]
        for process in alive:
            process.terminate()
        deadline = time.monotonic() + LEAVE_S
        for process in alive:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                _kill(process)

    def _write(self, line: ProgressLine) -> None:
        """Write a record of each iteration that all sessions without a failure have finished."""
        for one in self._sessions:
            one.read_records()
        while True:
            done = [session for session in self._sessions if len(session.records) > self._written]
            if not done or any(
                not session.failure and session not in done for session in self._sessions
            ):
                return
            record = mean_record([one.records[self._written] for one in done])
            # Earlier work of sessions that failed still counts.
            failed = [
                session for session in self._sessions if session not in done and session.records
            ]
            record["frames"] += sum(one.records[-1]["frames"] for one in failed)
            self._written += 1
            self._run.append_metrics(record)
            self._run.update(
                **{name: record[name] for name in ("iteration", "frames", "mean_return")}
            )
            line.show(IterationRecord(**record))


def _link_checkpoints(run: Run, session: Path) -> None:
    """Have the trial's ``checkpoints`` link to a session's."""
    run.checkpoints.unlink(missing_ok=True)
    run.checkpoints.symlink_to(Path("sessions", session.name, "checkpoints"))


def _draw(directory: Path) -> None:
    """Draw a trial's graphs; if that fails, log the reason."""
    try:
        draw_trial(directory)
    except EnvlabError as error:
        logger.warning("The trial has no graphs. %s", error)


def _how(code: int) -> str:
    if code == HUNG_EXIT_CODE:
        return "hung, and its watchdog ended it"
    if code == PREEMPTED_EXIT_CODE:
        return "was ended by a signal, and saved its state"
    return how_it_ended(code)


def _kill(process: Any) -> None:
    """End a process that does not exit; it prints its stacks if it can."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, STACKS_SIGNAL)
        time.sleep(1.0)
    process.kill()
    process.join()
