"""Running an experiment: each run by ``envlab train``, on its own cores, until it has a record.

A run that was killed is resumed, and one with a record is not run again, so that the same command
continues an experiment after any interruption.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from envlab.errors import ConfigurationError, EnvlabError
from envlab.registry import get_task
from envlab.run.compare.results import RunResult, find_results, join_resumed, with_values
from envlab.run.manifest import write_json
from envlab.run.records import METRICS, line_of
from envlab.tools.evidence.experiment import PLAYED, Contender, Experiment

MANIFEST = "run.json"
ENVLAB = ("-m", "envlab.cli")
NUM_POINTS = 40
"""Most lines of a recorded curve, enough for a picture. Each has the mean since the one before."""
KEPT = (
    *("version", "task", "library", "algorithm", "ml_framework", "seed", "created_at", "status"),
    *("num_envs", "global_num_envs", "world", "grad_sync", "versions", "git", "overrides"),
)
"""Kept parts of a manifest; the rest is about files and processes of a machine."""


class RunError(EnvlabError):
    """A run of an experiment failed."""


def check_seeds(experiment: Experiment, records: Path) -> None:
    """Refuse seeds that are added after a look at the others, unless the file declares it.

    Adding seeds until there is a verdict produces false verdicts more often than the test's level.

    Raises:
        ConfigurationError: If records were made for fewer seeds, which ``first_seeds`` lacks.
    """
    known = experiment.first_seeds or experiment.seeds
    for path in sorted((records / experiment.name).glob(f"*/*/{MANIFEST}")):
        then = json.loads(path.read_text()).get("seeds")
        if then is not None and then < known:
            raise ConfigurationError(
                f"The experiment {experiment.name!r} has {experiment.seeds} seeds, but {path} was "
                f"made for {then}: seeds added after a look make a chance verdict more likely. "
                f"Declare 'first_seeds: {then}' in its file; the test accounts for it."
            )


def remaining(experiment: Experiment, records: Path) -> list[tuple[Contender, int]]:
    """Return the runs that have no record yet, in the order of running them."""
    return [
        (contender, seed)
        for contender, seed in experiment.runs()
        if not (experiment.record(contender, seed, records) / MANIFEST).is_file()
    ]


def run(
    experiment: Experiment,
    contender: Contender,
    seed: int,
    *,
    programs: Path,
    logs: Path,
    records: Path,
) -> None:
    """Train, or resume a training; play, if the experiment requests it; write the record.

    Args:
        experiment: The experiment.
        contender: The contender to train.
        seed: The seed.
        programs: Folder of the experiments, and of peers' programs.
        logs: Folder of all experiments' runs.
        records: Folder of all experiments' records.

    Raises:
        EnvlabError: If the training or the play fails, or has no value of the metric.
    """
    folder = logs / experiment.name / contender.name / str(seed)
    folder.mkdir(parents=True, exist_ok=True)
    here = shlex.quote(str(programs.resolve()))
    library, *words = shlex.split(contender.words.replace("{here}", here))
    budget = [f"--seed={seed}", f"--max_frames={experiment.frames}"]
    record = experiment.record(contender, seed, records)
    if program := contender.program():
        words += [f"--task={experiment.task}", *budget, f"--num_episodes={experiment.episodes}"]
        _call([str((programs / program).resolve()), *words], folder)
        _record(experiment, folder, record)
        return
    is_trial = library == "lab"
    common = [f"--task={experiment.task}", "--headless"]
    if not _finished(folder, experiment):
        is_begun = next(folder.glob("logs/*/*/*/checkpoints/*"), None) is not None
        if is_trial:
            mode = "train@latest" if is_begun else "train"
            values = (f"meta.random_seed={seed}", f"env.max_frame={experiment.frames}")
            budget = [word for value in values for word in ("-s", value)]
            _call([*ENVLAB, "lab", "run", *words[:2], mode, *words[2:], *budget], folder)
        else:
            resume = ["--resume"] if is_begun else []
            _call([*ENVLAB, "train", library, *common, *words, *budget, *resume], folder)
    if experiment.episodes:
        chosen = [word for word in words if word.startswith(("--algorithm", "--ml_framework"))]
        if is_trial:
            of = _finished(folder, experiment)[-1].manifest
            library = of["library"]
            chosen = [f"--algorithm={of['algorithm']}", f"--experiment_name={words[1]}"]
        num_envs = min(64, experiment.episodes)
        played = [f"--num_episodes={experiment.episodes}", f"--num_envs={num_envs}"]
        played.append(f"--json={PLAYED}")
        chosen += ["--checkpoint=latest", *played, *shlex.split(contender.play)]
        _call([*ENVLAB, "play", library, *common, *chosen], folder)
    _record(experiment, folder, record)


def _record(experiment: Experiment, folder: Path, record: Path) -> None:
    finished = with_values(_finished(folder, experiment), experiment.metric)
    write_record(experiment, finished[-1], folder, record)


def _finished(folder: Path, experiment: Experiment) -> list[RunResult]:
    """Return the runs that ended, each with what it was resumed from."""
    runs = [str(path) for path in folder.glob("logs/*/*/*") if (path / MANIFEST).is_file()]
    # Of a training that was killed before its first checkpoint, another run may be left.
    joined = join_resumed(find_results(runs, experiment.metric))
    return [run for run in joined if run.manifest.get("status") == "finished"]


def write_record(experiment: Experiment, result: RunResult, folder: Path, record: Path) -> None:
    """Write a run's record: its curve in few points, and then its manifest.

    A value that stays until more frames were collected, as between the rollouts of cloning, is one
    point.

    Raises:
        EnvlabError: If the compared value was not measured, or another seed's curve is the same.
    """
    record.mkdir(parents=True, exist_ok=True)
    has_value = result.has_value.nonzero()[0]
    _, firsts = np.unique(result.frames[has_value], return_index=True)
    parts = np.array_split(has_value[firsts], min(NUM_POINTS, len(firsts)))
    lines = [
        line_of(
            {
                "iteration": int(part[-1]) + 1,
                "frames": int(result.frames[part[-1]]),
                "wall_s": round(float(result.wall_s[part[-1]]), 1),
                experiment.metric: round(float(result.values[part].mean()), 4),
            }
        )
        for part in parts
    ]
    (record / METRICS).write_bytes(b"".join(lines))
    for other in sorted(path.parent for path in record.parent.glob(f"*/{MANIFEST}")):
        if other != record and _curve(other, experiment) == _curve(record, experiment):
            raise RunError(
                f"The curves of {experiment.name!r} in {str(other)!r} and {str(record)!r} are the "
                "same, so the program ignores its seed. Correct that, and remove the records."
            )
    if experiment.episodes:
        played = json.loads((folder / PLAYED).read_text())
        experiment.measured(played)  # there is no record without it
        names = {"num_episodes", "return", "place", "measures", experiment.measure.split(".")[0]}
        write_json(record / PLAYED, {name: played[name] for name in sorted(names & set(played))})
    kept = {name: result.manifest.get(name) for name in KEPT} | {"seeds": experiment.seeds}
    device = (kept["world"] or {}).get("device", "cpu")  # a peer's program may say none
    write_json(record / MANIFEST, kept | {"processor": processor(device)})


def _curve(record: Path, experiment: Experiment) -> list[float]:
    with (record / METRICS).open() as lines:
        return [json.loads(line)[experiment.metric] for line in lines]


@contextmanager
def own_cores(first: int | None, count: int) -> Iterator[None]:
    """Run only on some cores, like all processes started from here.

    Args:
        first: The first of them; None: the last ones that this process may use.
        count: Number of cores.

    Raises:
        ConfigurationError: If this process may not use them.
    """
    free = sorted(os.sched_getaffinity(0))
    wanted = free[-count:] if first is None else list(range(first, first + count))
    if len(wanted) < count or not set(wanted) <= set(free):
        raise ConfigurationError(
            f"--core asks for {count} cores from {wanted[0]} on, but there are {free}. Give "
            "a lower one."
        )
    os.sched_setaffinity(0, wanted)
    try:
        yield
    finally:
        os.sched_setaffinity(0, free)


def physics(task: str, manifest: Mapping[str, Any]) -> str:
    """Return what simulated a run: a backend's name, or where the task brings its own, that.

    Args:
        task: Id of the task.
        manifest: The run's.
    """
    if get_task(task).kind == "gymnasium":
        return "Gymnasium"
    if get_task(task).kind == "NavEnv":
        return "houses"
    keys = dict(str(word).split("=", 1) for word in manifest.get("overrides") or ())
    device = str((manifest.get("world") or {}).get("device", "cpu"))  # a peer's may say none
    usual = "mujoco_warp" if device.startswith("cuda") else "mujoco"
    return keys.get("env.sim.backend", usual)


def processor(device: str) -> str:
    """Return the system's name of the processor, or of the GPU if the device is one."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.get_device_name(device)
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def _call(words: Sequence[str], folder: Path) -> None:
    """Run Python in a folder, and append its output to a file in it."""
    output = folder / "output.txt"
    with (
        output.open("ab") as file,
        subprocess.Popen(
            [sys.executable, *words], cwd=folder, stdout=file, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            code = process.wait()
        except SystemExit:  # by a signal to this process alone; Ctrl-C reaches both
            process.terminate()
            raise
    if code:
        raise RunError(
            f"'python {shlex.join(words)}' ended with exit code {code}; {output} says "
            "why. Correct it, and run the same command again."
        )
