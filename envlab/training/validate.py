"""``envlab validate``: judges a run's checkpoints by whole episodes unseen in training."""

from __future__ import annotations

import argparse
import logging
import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tabulate import tabulate

from envlab.arguments import ArgumentParser, positive
from envlab.errors import CheckpointError, ConfigurationError, EnvlabError
from envlab.foreign import printable
from envlab.libraries import get_library
from envlab.registry import get_task, list_tasks
from envlab.run.manifest import read_manifest, read_manifests
from envlab.run.records import Records, line_of
from envlab.training.arguments import play_parser
from envlab.training.flags import whole_number

logger = logging.getLogger(__name__)

FILES = {"valid": "validation.jsonl", "test": "test.jsonl"}
"""Files of results in the run directory, by purpose."""
POLL_S = 2.0
NUM_EPISODES, NUM_ENVS = 100, 16
SHOWN = ("success", "spl", "mean_return", "mean_episode_length")


def main(arguments: Sequence[str]) -> int:
    """Run ``envlab validate RUN``, and return 0.

    Raises:
        EnvlabError: If there is no such run, or it has no checkpoints.
    """
    flags, words = _parse(arguments)
    validator = Validator(_newest_run(Path(flags.run)), flags, words)
    if flags.watch:
        validator.watch(validator.has_ended)
    else:
        validator.evaluate_all(flags.approx_ckpt_step_interval)
    print(validator.table())
    return 0


def validate_beside_training(connection: Connection, arguments: Sequence[str]) -> None:
    """Judge a run's newest checkpoint until the training reports that there will be no other."""
    os.nice(10)  # the training comes first
    try:
        flags, words = _parse(arguments)
        Validator(Path(flags.run), flags, words).watch(connection.poll)
    except EnvlabError as error:
        print(f"error: {error}", file=sys.stderr)  # the training repeats it, but only at its end
        raise


def _parse(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = ArgumentParser(
        prog="envlab validate",
        description="Evaluate a run's checkpoints over whole episodes; if the task has splits, of "
        "'val', or of 'test' with --eval.",
        epilog="What follows may be the experiment's file with --config_kwargs, --trust MODULE, "
        "and overrides (env.episode_length_s=20).",
    )
    parser.add_argument(
        "run", metavar="RUN", help="the run directory, or a folder with runs: the newest"
    )
    parser.add_argument(
        "--watch", action="store_true", help="wait for checkpoints, and judge the newest, until "
        "the run ends"
    )  # fmt: skip
    parser.add_argument(
        "--eval", action="store_true", help="test: the split 'test', written to test.jsonl"
    )
    parser.add_argument(
        "--approx_ckpt_step_interval",
        type=whole_number,
        default=0,
        metavar="N",
        help="skip checkpoints that are fewer frames than this after the last evaluated one",
    )
    for name, default, kind in (
        ("num_episodes", NUM_EPISODES, positive),
        ("num_envs", NUM_ENVS, positive),
        ("seed", 0, int),
    ):
        parser.add_argument(
            f"--{name}", type=kind, default=default, metavar="N", help=f"default: {default}"
        )
    parser.add_argument("--task", metavar="ID", help="default: the run's, or that for playing")
    flags, words = parser.parse_known_args(list(arguments))
    if flags.watch and flags.approx_ckpt_step_interval:
        raise ConfigurationError(
            "--approx_ckpt_step_interval has no effect with --watch, which judges the newest "
            "checkpoint only. Leave one of them out."
        )
    return flags, words


def _newest_run(place: Path) -> Path:
    """Return a run directory, or the newest one in a folder."""
    if (place / "run.json").is_file():
        return place
    return list(read_manifests(place) or [place])[-1]


class Validator:
    """Judges checkpoints of one run, always by the same episodes, and records each once.

    A line of ``validation.jsonl`` has the checkpoint's iteration, frames and wall time, mean return
    and length, and the task's own measures with the bounds of their 95 % intervals.
    TensorBoard's curves are in ``validation/`` next to it.
    """

    def __init__(self, directory: Path, flags: argparse.Namespace, words: Sequence[str]) -> None:
        """Build the environments.

        Raises:
            EnvlabError: If there is no such run, or it cannot be composed.
        """
        from envlab.distributed.context import DistributedContext
        from envlab.distributed.program import configure_logging
        from envlab.distributed.seeding import evaluation_seed, seed_everything
        from envlab.envs import multi_agent_to_single_agent
        from envlab.run.checkpoints import Checkpoints
        from envlab.training.preparation import make_env

        self._directory, self._flags = directory, flags
        self._seed = evaluation_seed(flags.seed)
        self._mode = "test" if flags.eval else "valid"
        manifest = read_manifest(directory)
        self._library = get_library(manifest["library"])
        self._plan = self._compose(manifest, words)
        configure_logging(verbose=self._plan.flags.verbose)
        self._context = DistributedContext.single(self._plan.flags.device)
        seed_everything(self._seed)
        self._env = make_env(self._plan, self._context)
        if self._plan.agent_cfg.is_multi_agent:
            self._env = multi_agent_to_single_agent(self._env)
        self._checkpoints = Checkpoints(directory / "checkpoints")
        self._path = directory / FILES[self._mode]
        judged = Records(self._path)
        self._how = {
            "task": self._plan.task.id,
            "num_episodes": flags.num_episodes,
            "seed": flags.seed,
            "overrides": [override.input_line for override in self._plan.overrides],
        }
        self._records = {record["iteration"]: record for record in judged.read()}
        for record in self._records.values():
            if (how := record.get("how", self._how)) != self._how:
                raise ConfigurationError(
                    f"{self._path} has results of other episodes ({_assigned(how)}) than these "
                    f"({_assigned(self._how)}), which cannot be compared. Rename the file to keep "
                    "them, or give the same settings."
                )
        if judged.is_cut:  # the next record would become part of that line
            os.truncate(self._path, judged.end)
        self._events: Any = None

    def evaluate_all(self, interval: int) -> None:
        """Judge all checkpoints not yet judged, at least ``interval`` frames apart.

        Raises:
            CheckpointError: If there is none.
        """
        iterations = self._checkpoints.iterations()
        if not iterations:
            raise CheckpointError(
                f"There is no checkpoint in {self._checkpoints.folder}. Train first."
            )
        last = -math.inf
        for iteration in iterations:
            record = self._records.get(iteration)
            values = None if record is not None else self._load(iteration)
            frames = (record or values or {}).get("frames")
            if frames is None or frames < last + interval:
                continue
            last = frames
            if values is not None:
                self._evaluate(iteration, values)

    def watch(self, has_ended: Any) -> None:
        """Judge the newest checkpoint whenever there is a new one, until ``has_ended()``."""
        while True:
            is_last = has_ended()
            newest = max(self._checkpoints.iterations(), default=None)
            if newest is not None and newest not in self._records:
                values = self._load(newest)
                if values is not None:
                    self._evaluate(newest, values)
                    continue
            if is_last:
                return
            time.sleep(POLL_S)

    def has_ended(self) -> bool:
        """Return whether the run's manifest records its end."""
        return read_manifest(self._directory).get("status") != "running"

    def table(self) -> str:
        """Return all results for a person, the best marked by a star."""
        records = sorted(self._records.values(), key=lambda record: record["frames"])
        if not records:
            return "No checkpoint was judged."
        shown = [name for name in SHOWN if any(name in record for record in records)]
        best = max(records, key=lambda record: [record.get(name) or -math.inf for name in shown])
        rows = [
            [
                "*" if record is best else "",
                record["iteration"],
                f"{record['frames']:,}",
                *(_text(record, name) for name in shown),
            ]
            for record in records
        ]
        names = {"spl": "SPL", "mean_return": "return", "mean_episode_length": "length"}
        heads = ["", "iteration", "frames", *(names.get(name, name) for name in shown)]
        file = self._checkpoints.path(best["iteration"])
        lines = tabulate(rows, headers=heads, disable_numparse=True)
        return printable(f"{lines}\nBest by {shown[0].replace('_', ' ')}: {os.path.relpath(file)}")

    def _compose(self, manifest: Mapping[str, Any], words: Sequence[str]) -> Any:
        from envlab.training.inputs import check_task, trust_of
        from envlab.training.plan import plan_run

        given = [*words, f"--num_envs={self._flags.num_envs}"]
        if self._flags.task is not None:
            given.append(f"--task={self._flags.task}")
        if self._library.prepare is not None:
            given = self._library.load("prepare")(self._mode, given)
        is_named_by_run = not any(word.startswith("--task=") for word in given)
        if is_named_by_run:
            given.append(f"--task={judged_in(self._directory, str(manifest['task']), self._mode)}")
        flags, overrides = play_parser(self._library).parse_with_overrides(given)
        if is_named_by_run:
            check_task(flags.task, trust_of(flags.trust))
        plan = plan_run(flags, overrides, self._library, self._directory)
        num_envs = min(flags.num_envs, self._flags.num_episodes)
        split = getattr(plan.env_cfg, "TEST_SPLIT", {}) if self._mode == "test" else {}
        return plan.in_env(num_envs, self._seed, **split)

    def _load(self, iteration: int) -> dict[str, Any] | None:
        """Return a checkpoint's contents; None if it cannot be read or no longer exists."""
        from envlab.run.checkpoints import check_header, read_checkpoint

        path = self._checkpoints.path(iteration)
        try:
            values = read_checkpoint(path)
            check_header(values, path)
        except CheckpointError as error:
            if path.is_file():
                logger.warning("Skipped a checkpoint: %s", error)
            return None
        return dict(values)

    def _evaluate(self, iteration: int, values: dict[str, Any]) -> None:
        """Run the episodes with a checkpoint, and record the results."""
        import torch

        from envlab.run.checkpoints import of_leader
        from envlab.training.evaluation import evaluate

        self._env.reset(seed=self._seed)  # the same episodes for every checkpoint
        player = self._library.load("player")(
            self._plan, self._env, self._context, of_leader(values)
        )
        episodes_per_env = math.ceil(self._flags.num_episodes / self._env.num_envs)
        with torch.inference_mode():
            result = evaluate(self._env, player.act, episodes_per_env)
        record: dict[str, Any] = {
            "how": self._how,
            "iteration": iteration,
            "frames": values["frames"],
            "wall_s": values["metrics"].get("wall_s", 0.0),
            "num_episodes": len(result.returns),
            "mean_return": float(result.returns.mean()),
            "mean_episode_length": float(result.lengths.float().mean()),
        }
        if result.measures is not None:
            summary = result.measures.summarise(result.episodes)["all"]
            for name in result.measures.MEASURES:
                mean, low, high = summary[name]
                record |= {name: mean, f"{name}_low": low, f"{name}_high": high}
        elif result.success is not None:
            record["success"] = float(result.success.mean())
        self._records[iteration] = record
        self._write(record)
        logger.info("Iteration %d: %s", iteration, _line(record))

    def _write(self, record: dict[str, Any]) -> None:
        from envlab.run.event_file import EventFile

        with self._path.open("ab") as file:
            file.write(line_of(record))
        if self._events is None:
            folder = self._directory / self._path.stem
            folder.mkdir(exist_ok=True)
            self._events = EventFile(folder)
        counts = ("how", "iteration", "frames", "wall_s", "num_episodes")
        scalars = {f"{self._path.stem}/{k}": v for k, v in record.items() if k not in counts}
        self._events.add(record["frames"], scalars)
        self._events.flush()


def _assigned(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _text(record: Mapping[str, Any], name: str) -> str:
    value = record.get(name)
    if value is None:
        return "-"
    low, high = record.get(f"{name}_low"), record.get(f"{name}_high")
    text = f"{value:.3f}" if name in ("success", "spl") else f"{value:.1f}"
    return text if low is None or high is None else f"{text} ({low:.2f} to {high:.2f})"


def _line(record: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {record[name]:.3f}" for name in SHOWN if name in record)


def judged_in(directory: Path, trained: str, mode: str = "valid") -> str:
    """Return the id of the task's variant for playing, if the run has the task's own settings.

    Settings of the run alone, such as the actions' scale, are not in that variant. If policies of
    the run have been judged before, for example during its training, the task is the same again.
    """
    from envlab.config import load_yaml
    from envlab.training.continuation import listing, task_changes

    for name in (FILES[mode], FILES["valid"]):
        for record in Records(directory / name).read():
            if how := record.get("how"):
                return str(how["task"])
    variants = [task.id for task in list_tasks() if task.trained_id == trained != task.id]
    if not variants:
        return trained
    env = load_yaml(directory / "params" / "env.yaml")
    changes = task_changes(env, get_task(trained))
    if not changes:
        return variants[0]
    logger.info(
        "The policies are judged in %s, as they were trained, and not in %s: the run has %s.",
        *(trained, variants[0], listing(changes)),
    )
    return trained
