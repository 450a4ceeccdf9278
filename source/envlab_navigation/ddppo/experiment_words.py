"""From an experiment to the words of a command line, which set its task and its length.

So all that flags and overrides offer, and refuse, holds for experiments too, and a run's manifest
records it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium

from envlab.arguments import ArgumentParser
from envlab.config import PositiveInt
from envlab.distributed.ranks import read_ranks
from envlab.errors import ConfigurationError
from envlab.registry import get_task
from envlab.training.flags import add_flags
from envlab_navigation.ddppo.experiment import ExperimentConfig, MachineParams, Mode
from envlab_navigation.ddppo.experiment_file import calling, load_experiment
from envlab_navigation.ddppo.flags import DdppoFlags
from envlab_navigation.plugins import DDPPO

if TYPE_CHECKING:
    from envlab_navigation.ddppo.pipeline import TrainingPipeline

logger = logging.getLogger(f"envlab.{__name__}")


def prepare(command: str, words: Sequence[str], num_nodes: int | None = None) -> list[str]:
    """Return the words of a command with those of an experiment.

    Args:
        command: ``train``, ``config``, ``play``, ``export`` or ``launch``, or for a validation
            ``valid`` or ``test``.
        words: The words after the library; without an experiment they are returned unchanged.
        num_nodes: Number of nodes of a launch; None if unknown.

    Raises:
        ConfigurationError: If the experiment cannot be loaded or does not fit the launch.
    """
    words = DDPPO.with_file_flag(words)
    parser = ArgumentParser(add_help=False)
    add_flags(parser, DdppoFlags, "experiment")
    for name in ("--task", "--experiment_name", "--num_envs", "--global_num_envs", "--device"):
        parser.add_argument(name)
    for name in ("--max_frames", "--max_iterations"):
        parser.add_argument(name)
    for name in ("--distributed", "--dry_run", "--eval", "--help", "-h"):
        parser.add_argument(name, action="store_true")
    flags: Any = parser.parse_known_args(words, DdppoFlags())[0]  # plus eval and help
    if flags.experiment is None:
        for name in ("config_kwargs", "machine_id"):
            if getattr(flags, name) is not None:
                raise ConfigurationError(
                    f"--{name} has no effect without an experiment. Name its file first: "
                    f"envlab {command} ddppo experiment.py ..."
                )
        return words
    experiment = experiment_of(flags)
    assert experiment is not None
    if num_nodes is not None:
        check_nodes(experiment, num_nodes, "were asked for")
    if flags.eval and command in ("train", "play"):  # AllenAct's main.py tests by this flag
        tag = flags.experiment_name or calling(flags.experiment_file, "in tag", experiment.tag)
        raise ConfigurationError(
            f"--eval has no effect on {command}. To test the checkpoints of a run, give its "
            f"directory: envlab validate logs/ddppo/{tag} {flags.experiment} --eval"
        )
    told = (
        _train_words(experiment, flags)
        if command in ("train", "config")
        else _identity(experiment, flags, _MODES[command])
    )
    return [*told, *words]  # of two overrides of the same value, the last one wins


_MODES: dict[str, Mode] = {
    "launch": "train",
    "play": "test",
    "export": "test",
    "test": "test",
    "valid": "valid",
}
"""Modes in which other commands than training use an experiment."""


def experiment_of(flags: DdppoFlags) -> ExperimentConfig | None:
    """Return the experiment that the flags name, the same object each time; None: none."""
    if flags.experiment is None:
        return None
    return load_experiment(flags.experiment, flags.config_kwargs, allenact=flags.allenact)


def pipeline_of_experiment(experiment: ExperimentConfig, file: Path) -> TrainingPipeline:
    """Return a new pipeline of an experiment.

    Raises:
        ConfigurationError: If it makes none.
    """
    from envlab_navigation.ddppo.pipeline import (
        TrainingPipeline,  # needs torch, unlike the rest of this module
    )

    made = calling(file, "in training_pipeline", experiment.training_pipeline)
    if not isinstance(made, TrainingPipeline):
        raise ConfigurationError(
            f"training_pipeline of {file} returns a {type(made).__name__}, but must return an "
            "envlab_navigation.ddppo.pipeline.TrainingPipeline."
        )
    return made


def _train_words(experiment: ExperimentConfig, flags: DdppoFlags) -> list[str]:
    """Return an experiment's flags and overrides, without those that are given."""
    pipeline = pipeline_of_experiment(experiment, flags.experiment_file)
    first = pipeline.pipeline_stages[0]
    ranks = read_ranks(flags.distributed, os.environ)
    params = check_machine(experiment, flags, ranks)
    given = flags.num_envs or (params and params.nprocesses[ranks["rank"]])
    words = _identity(experiment, flags, "train")
    words.append(f"agent.num_steps_per_env={first.num_steps}")
    if flags.max_frames is None and flags.max_iterations is None:
        words.append(f"--max_frames={pipeline.max_steps}")
    if flags.num_envs is None and flags.global_num_envs is None and given:
        words.append(f"--num_envs={given}")
    if flags.device is None and params is not None and set(params.devices) <= {-1, "cpu"}:
        words.append("--device=cpu")
    if _validates(experiment, flags.experiment_file):
        words.append("--validate")
    return words


def _validates(experiment: ExperimentConfig, file: Path) -> bool:
    """Return whether it is validated during training; 0 environments turn that off."""
    params = calling(file, "in machine_params", lambda: experiment.machine_params("valid"))
    return params is None or sum(params.nprocesses) > 0


def _identity(experiment: ExperimentConfig, flags: DdppoFlags, mode: Mode) -> list[str]:
    """Return the words of its task, its overrides, and its run directories."""
    file = flags.experiment_file
    words = []
    if flags.task is None:
        words.append(f"--task={task_of(experiment, file, mode)}")
    if flags.experiment_name is None:
        words.append(f"--experiment_name={calling(file, 'in tag', experiment.tag)}")
    overrides = calling(file, "in overrides", lambda: list(experiment.overrides(mode)))
    return words + overrides


def task_of(experiment: ExperimentConfig, file: Path, mode: Mode) -> str:
    """Return the id of an experiment's task, registered if the experiment makes environments."""
    kind = type(experiment)
    has_samplers = kind.make_sampler_fn is not ExperimentConfig.make_sampler_fn
    if experiment.TASK is not None and not has_samplers:
        _refuse_sampler_args(kind, file)
        task = get_task(experiment.TASK)
        play = task.id.replace("-v0", "-Play-v0")
        return task.id if mode == "train" or play not in gymnasium.registry else play
    if kind.make_env is ExperimentConfig.make_env and not has_samplers:
        raise ConfigurationError(
            f"The experiment in {file} has no environment: give its class a TASK, such as "
            "'Nav-ObjectNav-Depth-v0', a make_env or a make_sampler_fn."
        )
    tag = calling(file, "in tag", experiment.tag)
    name = f"Experiment-{tag}-v0" if mode == "train" else f"Experiment-{tag}-Play-v0"

    def make(cfg: Any, context: Any, render_mode: str | None = None, **kwargs: Any) -> Any:
        if has_samplers:
            from envlab_navigation.ddppo.task_sampler import TaskSamplerEnvs

            return TaskSamplerEnvs(experiment, mode, cfg, context, render_mode=render_mode)
        return calling(
            file,
            "in make_env",
            lambda: experiment.make_env(mode, num_envs=cfg.scene.num_envs, context=context),
        )

    expert = experiment.expert_entry_point
    gymnasium.registry.pop(name, None)  # from another file, in the same process
    gymnasium.register(
        id=name,
        entry_point=make,  # type: ignore[arg-type]
        disable_env_checker=True,
        order_enforce=False,
        kwargs={
            "env_cfg_entry_point": (
                "envlab.envs.gym_bridge:GymEnvCfg" if has_samplers else ExperimentEnvCfg
            ),
            "description": f"Of {file}.",
            **({} if expert is None else {"expert_entry_point": expert}),
        },
    )
    return name


def _refuse_sampler_args(kind: type[ExperimentConfig], file: Path) -> None:
    """Refuse arguments of samplers without samplers."""
    for name in ("train_task_sampler_args", "valid_task_sampler_args", "test_task_sampler_args"):
        if getattr(kind, name) is not getattr(ExperimentConfig, name):
            raise ConfigurationError(
                f"The experiment in {file} has {name}, but no make_sampler_fn that takes them, and "
                f"is trained in the task {kind.TASK}. Override values of the task (env.*) in "
                "overrides, or give it a make_sampler_fn."
            )


@dataclass(kw_only=True)
class ExperimentSceneCfg:
    """The number of environments (``env.scene.*``)."""

    num_envs: PositiveInt = 64
    """Environments per process."""


@dataclass(kw_only=True)
class ExperimentEnvCfg:
    """Configuration of environments that an experiment makes (``env.*``)."""

    seed: int | None = None
    """Base seed of the environments' random streams; null: the agent's."""
    scene: ExperimentSceneCfg = field(default_factory=ExperimentSceneCfg)


def check_nodes(experiment: ExperimentConfig, num_nodes: int, what: str) -> None:
    """Refuse an experiment for another number of nodes.

    Args:
        experiment: The experiment.
        num_nodes: How many there are.
        what: Verb of the nodes, such as ``joined``.

    Raises:
        ConfigurationError: If its ``distributed_nodes`` is another number.
    """
    expected = getattr(experiment, "distributed_nodes", None)
    if expected not in (None, num_nodes):
        nodes = "1 node" if num_nodes == 1 else f"{num_nodes} nodes"
        raise ConfigurationError(
            f"distributed_nodes is {expected}, but {nodes} {what}. Start it on as many, as by "
            "scripts/dmain.py --runs_on, or give "
            f"""--config_kwargs '{{"distributed_nodes": {num_nodes}}}'."""
        )


def check_machine(
    experiment: ExperimentConfig, flags: DdppoFlags, ranks: dict[str, int]
) -> MachineParams | None:
    """Return the experiment's parameters of the machines, if it has any.

    Raises:
        ConfigurationError: If they do not fit the nodes and processes that were started.
    """
    joined = max(1, ranks["world_size"] // ranks["local_world_size"])
    nodes = getattr(experiment, "distributed_nodes", None)
    machine_id = flags.machine_id
    count = nodes or joined
    if machine_id is not None and not 0 <= machine_id < count:
        raise ConfigurationError(
            f"--machine_id is {machine_id}, but must be from 0 to {count - 1}, because the number "
            f"of nodes is {count}."
        )
    is_looked_at = flags.dry_run and ranks["world_size"] == 1  # on a laptop, say
    if is_looked_at and count > 1:
        logger.warning("The experiment is for %d nodes; this shows one process of one.", count)
    if not is_looked_at:
        check_nodes(experiment, joined, "joined")
    if machine_id is None:
        machine_id = ranks["rank"] // ranks["local_world_size"]
    params = calling(
        flags.experiment_file,
        "in machine_params",
        lambda: experiment.machine_params("train", machine_id=machine_id),
    )
    if params is not None and not is_looked_at and len(params.devices) != ranks["world_size"]:
        raise ConfigurationError(
            f"machine_params of {flags.experiment} has {len(params.devices)} workers, one for "
            f"each of the devices {params.devices}, but {ranks['world_size']} processes were "
            "started. Start as many, by --nproc_per_node, or change the experiment's devices."
        )
    return params
