"""An experiment: trials of values that Optuna picks, several at a time, each in its own process.

``trials/<number>/`` is a trial's run directory. ``experiment.db`` holds the chosen values and the
results: an interrupted experiment resumes from it, including running trials.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import check_distribution_compatibility
from optuna.trial import TrialState

from envlab.child import Child, end_all
from envlab.distributed.interrupt import Interrupted, interruptible
from envlab.distributed.limits import usable_cores
from envlab.distributed.program import configure_logging
from envlab.errors import ConfigurationError, EnvlabError
from envlab.run.directory import LOG_ROOT, hold_lock
from envlab.run.manifest import read_manifest
from envlab.run.records import cut_metrics
from envlab_populations.hogwild.figures import curve_of, moving_average
from envlab_populations.hogwild.preparation import Options
from envlab_populations.hogwild.records import Running, newest_iteration
from envlab_populations.hogwild.search import Search
from envlab_populations.hogwild.session import output_of, redirect_output
from envlab_populations.hogwild.translation import Plan
from envlab_populations.hogwild.trial import LEAVE_S, LOGGED_LINES, LOOK_S, run_trial

logger = logging.getLogger(f"envlab.{__name__}")

DATABASE = "experiment.db"


@dataclass(kw_only=True)
class RunningTrial(Running):
    """A trial's process, as the experiment sees it."""

    trial: optuna.trial.Trial
    plan: Plan
    slot: int
    """Its slot among the trials that run at the same time."""
    reported: int = 0
    """Frames of the last point that was reported to Optuna."""
    value: float | None = None
    """Mean return of the last 100 points."""
    is_pruned: bool = False


class Experiment:
    """All trials of a search."""

    def __init__(self, search: Search, options: Options, directory: Path) -> None:
        """Prepare the experiment without starting trials.

        Args:
            search: What to search.
            options: How to run each trial.
            directory: The experiment's directory; an unfinished experiment is resumed.
        """
        self.search, self.directory, self._options = search, directory, options
        self.lock = hold_lock(directory)
        self.study = open_study(directory, search)
        self._running: list[RunningTrial] = []
        self._num_slots = max(1, usable_cores() // search.num_cores)

    def run(self) -> None:
        """Run the wanted number of trials; a signal makes running ones save and end."""
        waiting = [trial for trial in self.study.trials if trial.state == TrialState.RUNNING]
        try:
            while True:
                while len(self._running) < self._num_slots and (waiting or self._wants_more()):
                    self._start(waiting.pop(0) if waiting else None)
                if not self._running:
                    break
                time.sleep(LOOK_S)
                for one in list(self._running):
                    self.look(one)
        finally:
            self._end()

    def _wants_more(self) -> bool:
        return len(self.study.trials) < self.search.num_trials

    def _start(self, begun: optuna.trial.FrozenTrial | None) -> None:
        """Start a new trial, or resume an earlier one."""
        if begun is None:
            trial = self.study.ask(dict(self.search.ranges))
        else:
            trial = optuna.trial.Trial(self.study, begun._trial_id)
        directory = self.directory / "trials" / str(trial.number)
        slot = min(set(range(self._num_slots)) - {one.slot for one in self._running})
        try:
            plan = self.search.plan(trial.params)
        except EnvlabError as error:  # values that can be trained, but not together
            self.study.tell(trial.number, state=TrialState.FAIL)
            logger.error("Trial %d cannot be run; the others continue. %s", trial.number, error)
            return
        one = RunningTrial(
            number=trial.number,
            process=None,
            directory=directory,
            trial=trial,
            plan=plan,
            slot=slot,
            reported=0 if begun is None else begun.last_step or 0,
        )
        if begun is not None and _is_finished(directory):
            self._report(one)
            self._finish(one, 0)
            return
        saved = None if begun is None else _saved_iteration(plan, directory)
        resumes = None if saved is None else directory
        if saved is None:
            shutil.rmtree(directory, ignore_errors=True)
        else:  # otherwise the trial would do it while its records are read here
            cut_metrics(directory, saved)
        options = replace(self._options, trial=trial.number, destination=directory, resumes=resumes)
        one.process = Child(
            "envlab_populations.hogwild.experiment:run_trial_alone",
            *(plan, options, self._cores(slot)),
            kill_signal=signal.SIGTERM,  # so that it saves
        )
        self._running.append(one)
        how = "starts" if resumes is None else "resumes"
        logger.info("Trial %d %s: %s.", trial.number, how, self._values(one))

    def _cores(self, slot: int) -> Sequence[int]:
        """Return the cores of a slot; all, if there are too few to divide."""
        cores, count = sorted(os.sched_getaffinity(0)), self.search.num_cores
        return cores[slot * count : (slot + 1) * count] if count <= len(cores) else cores

    def look(self, one: RunningTrial) -> None:
        """Report a trial's new points to Optuna, and end the trial if it falls behind."""
        code = one.process.exit_code  # before its last records are read
        self._report(one)
        if code is not None:
            self._running.remove(one)
            self._finish(one, code)

    def _report(self, one: RunningTrial) -> None:
        one.read_records()
        sessions = one.plan.agent.num_sessions
        curve = curve_of(one.records, one.plan.log_frequency * sessions)
        for frame, value in zip(curve.frames, moving_average(curve.returns), strict=True):
            if one.is_pruned:
                return
            one.value = float(value)
            if frame <= one.reported:
                continue
            one.reported = int(frame)
            one.trial.report(one.value, one.reported)
            if one.process and self.search.grace_period and one.trial.should_prune():
                one.is_pruned = True
                one.process.ask_to_end()

    def _finish(self, one: RunningTrial, code: int) -> None:
        """Report a trial's end to Optuna."""
        value = "unknown" if one.value is None else f"{one.value:.2f}"
        reached = f"mean return {value} after {one.reported:,} frames"
        if one.is_pruned:
            self.study.tell(one.number, state=TrialState.PRUNED)
            logger.info("Trial %d was ended early, with %s.", one.number, reached)
        elif code == 0 and one.value is not None:
            self.study.tell(one.number, one.value)
            logger.info("Trial %d has finished, with %s.", one.number, reached)
        else:
            self.study.tell(one.number, state=TrialState.FAIL)
            path = output_of(one.directory)
            lines = path.read_text(errors="replace").splitlines() if path.exists() else []
            output = "\n".join(f"  {line}" for line in lines[-LOGGED_LINES:])
            why = f"ended with code {code}" if code else "has no episode that ended"
            logger.error(
                "Trial %d (%s) %s. The others continue. Its output (%s) ends with:\n%s",
                *(one.number, self._values(one), why, path, output),
            )

    def _values(self, one: RunningTrial) -> str:
        return ", ".join(self.search.settings(one.trial.params))

    def _end(self) -> None:
        """Ask running trials to save and exit; end those that do not."""
        end_all((one.process for one in self._running), 2.0 * LEAVE_S)


def find_experiment(name: str, place: str) -> Path:
    """Return the directory of an experiment: a place, or ``latest`` of those of a spec's name.

    Raises:
        ConfigurationError: If there is none.
    """
    folder = Path(LOG_ROOT, "hogwild", name) if place == "latest" else Path(place)
    found = sorted(folder.glob(f"*/{DATABASE}" if place == "latest" else DATABASE))
    if not found:
        raise ConfigurationError(
            f"There is no experiment to resume in {folder}. Start one by the mode search."
        )
    return found[-1].parent.absolute()


def open_study(directory: Path, search: Search) -> optuna.Study:
    """Return the study of an experiment's directory, new or saved.

    Values are picked by TPE (Bergstra et al. 2011), and trials end early by ASHA (Li et al., "A
    System for Massively Parallel Hyperparameter Tuning", 2020), both as Optuna 5.0 has them.

    Raises:
        ConfigurationError: If its trials were picked from other values.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    pruner: Any = optuna.pruners.NopPruner()
    if search.grace_period:
        pruner = optuna.pruners.SuccessiveHalvingPruner(
            min_resource=search.grace_period, reduction_factor=search.reduction_factor
        )
    study = optuna.create_study(
        study_name=search.spec.name,
        storage=f"sqlite:///{directory / DATABASE}",
        direction="maximize",
        pruner=pruner,
        load_if_exists=True,
    )
    _check_ranges(study, search, directory)
    # A sampler's generator is not kept: a resumed one must not draw the same values again.
    study.sampler = optuna.samplers.TPESampler(
        seed=search.seed + len(study.trials), constant_liar=True
    )
    return study


def _check_ranges(study: optuna.Study, search: Search, directory: Path) -> None:
    """Refuse ranges that Optuna cannot compare with those of existing trials."""
    for one in study.trials[:1]:
        try:
            for path in {**one.distributions, **search.ranges}:
                check_distribution_compatibility(one.distributions[path], search.ranges[path])
        except (KeyError, ValueError):
            raise ConfigurationError(
                f"The experiment in {directory} was started with another range of {path!r}. "
                "Start a new one by the mode search, or leave the ranges unchanged."
            ) from None


def run_trial_alone(
    connection: Connection, plan: Plan, options: Options, cores: Sequence[int]
) -> None:
    """Run a trial to its end in this process, whose exit code is the result."""
    os.sched_setaffinity(0, cores)
    assert options.destination is not None
    redirect_output(output_of(options.destination))
    configure_logging(verbose=options.verbose)
    code = 0
    try:
        with interruptible() as flag:
            run_trial(plan, options, flag)
    except EnvlabError as error:
        print(f"error: {error}", file=sys.stderr)
        code = error.exit_code
    except Interrupted as interrupted:
        code = interrupted.exit_code
    sys.exit(code)


def _is_finished(directory: Path) -> bool:
    try:
        return read_manifest(directory).get("status") == "finished"
    except EnvlabError:
        return False


def _saved_iteration(plan: Plan, directory: Path) -> int | None:
    """Return the iteration that all sessions of a trial have saved; None if any has not."""
    sessions = [directory / "sessions" / str(one) for one in range(plan.agent.num_sessions)]
    try:
        read_manifest(directory)
        return min(newest_iteration(session) for session in sessions)
    except EnvlabError:
        return None
