"""The common part of play scripts: checkpoint, environment, returns, export, video."""

from __future__ import annotations

import dataclasses
import functools
import logging
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from envlab.config import Override, to_dict
from envlab.distributed.context import DistributedContext
from envlab.distributed.program import configure_logging
from envlab.distributed.seeding import evaluation_seed, seed_everything
from envlab.envs import multi_agent_to_single_agent
from envlab.envs.joint_order import Convention
from envlab.foreign import printable
from envlab.learner import Player
from envlab.libraries import Library
from envlab.run.checkpoints import of_leader
from envlab.run.directory import LOG_ROOT, refuse_links
from envlab.run.packing import EXPORTED_FROM
from envlab.run.pretrained import SELECTOR
from envlab.run.records import keep_evaluation
from envlab.training.continuation import Changes, listing, task_changes
from envlab.training.deployment import NotDeployable, write_deployment
from envlab.training.evaluation import Evaluation, evaluate, write_json
from envlab.training.flags import Flags
from envlab.training.inputs import run_and_name
from envlab.training.opening import check_origin, open_checkpoint
from envlab.training.plan import RunPlan, agree_on_seed, plan_run
from envlab.training.play_watched import NewerPolicies, label_of, play_watched
from envlab.training.preparation import make_env
from envlab.training.video import start_recording
from envlab.training.viewing import NUM_WATCHED, Pace, Viewer, start_viewing

logger = logging.getLogger(__name__)

NUM_ENVS = 64
NUM_ENVS_EXPORT = 2
"""Enough to build the networks: no environment is stepped."""


def run_playing(library: Library, flags: Flags, overrides: Sequence[Override]) -> int:
    """Run ``play.py``.

    Returns:
        The exit code.

    Raises:
        EnvlabError: For bad input.
    """
    configure_logging(verbose=flags.verbose)
    num_envs = NUM_ENVS if flags.viz is None else NUM_WATCHED
    opened = open_policy(library, flags, overrides, num_envs)
    folder = os.path.relpath(opened.checkpoint.parent)
    print(f"Playing {printable(os.path.join(folder, opened.label))}")
    num_envs = opened.plan.env_cfg.scene.num_envs
    episodes_per_env = math.ceil((flags.num_episodes or num_envs) / num_envs)
    viewer: Viewer | None = None
    try:
        title = f"{opened.plan.task.id}, played"
        viewer = start_viewing(flags, opened.env, title=title, is_played=True)
        if viewer is not None and flags.num_episodes is None:
            _play_watched(opened, viewer)
        else:
            _play(opened, episodes_per_env, viewer)
        if opened.env.action_use is not None:
            opened.env.action_use.report()
        if not flags.no_export:
            export_opened(opened, opened.directory / "exported")
    finally:
        if viewer is not None:
            viewer.close()
        opened.env.close()
    return 0


def run_export(library: Library, flags: Flags, overrides: Sequence[Override]) -> int:
    """Run ``envlab export``: write play's files without playing, in any joint order.

    Returns:
        The exit code.

    Raises:
        EnvlabError: For bad input, or a policy that cannot be exported as asked.
    """
    configure_logging(verbose=flags.verbose)
    opened = open_policy(library, flags, overrides, NUM_ENVS_EXPORT)
    folder = "exported" if flags.joint_order == "envlab" else f"exported_{flags.joint_order}"
    try:
        export_opened(opened, opened.directory / folder, flags.joint_order)
    finally:
        opened.env.close()
    return 0


@dataclass(kw_only=True)
class OpenedPolicy:
    """A policy in its environment."""

    plan: RunPlan
    env: Any
    player: Player
    directory: Path
    """The run's directory, to write to."""
    checkpoint: Path
    """The policy's file."""
    label: str
    """The viewer's words on it."""
    iteration: int
    """The iteration of training that it is of."""
    frames: int
    """Environment steps of all processes until then."""
    wall_s: float
    """Seconds of training until then."""

    def team(self) -> Any:
        """Return the environment for one policy that sees all agents, with the team's returns."""
        is_team = self.plan.agent_cfg.is_multi_agent
        return multi_agent_to_single_agent(self.env) if is_team else self.env


def open_policy(
    library: Library,
    flags: Flags,
    overrides: Sequence[Override],
    num_envs: int,
    *,
    renders: bool = False,
) -> OpenedPolicy:
    """Load a checkpoint, and make up to ``num_envs`` environments, or as many as the flags say.

    With ``renders``, ``env.render()`` makes pictures, regardless of the flags.
    """
    plan = plan_run(flags, overrides, library)
    path, values, run_directory = open_checkpoint(
        plan,
        functools.partial(_check_playable, plan),
        tasks={plan.task.id, plan.task.trained_id},
    )
    if (run_directory / "params" / "env.yaml").is_file():
        plan = plan_run(flags, overrides, library, run_directory)
        _tell_changes(plan, run_directory)
    values = of_leader(values)
    if flags.checkpoint == SELECTOR:  # in a package, where nothing may be written
        experiment = plan.agent_cfg.experiment_name
        run_directory = Path(LOG_ROOT, library.name, experiment, SELECTOR)
    elif (run_directory / "run.json").is_file():
        refuse_links(run_directory)  # policies and videos are written into it
    num_envs = flags.num_envs or min(num_envs, flags.num_episodes or num_envs)
    context = DistributedContext.single(flags.device)
    seed = evaluation_seed(agree_on_seed(plan.agent_cfg.seed, context))
    plan = plan.in_env(num_envs, seed)
    seed_everything(seed)
    env = make_env(plan, context, renders=renders)
    player = library.load("player")(plan, env, context, values)
    return OpenedPolicy(
        plan=plan,
        env=env,
        player=player,
        directory=run_directory,
        checkpoint=path,
        label=label_of(path, values),
        iteration=int(values["iteration"]),
        frames=int(values["frames"]),
        wall_s=float(values["metrics"].get("wall_s") or 0.0),
    )


def export_opened(opened: OpenedPolicy, directory: Path, order: Convention = "envlab") -> None:
    """Write the policy, and the files that it needs to run elsewhere.

    Raises:
        NotDeployable: If another order of joints is requested, but its joints are not known.
    """
    task, run = opened.plan.task, os.path.relpath(opened.directory)
    facts = {"task": task.id, "library": opened.plan.library.name, "run": run}
    written = opened.player.export(directory)
    try:
        if directory / "policy.onnx" in written:
            written += write_deployment(opened.env, directory, facts, order)
        elif order != "envlab":
            raise NotDeployable(
                "Only a policy.onnx can have another order of joints, and none was written. Leave "
                "--joint_order out."
            )
    except NotDeployable as obstacle:
        if order != "envlab":
            for path in written:  # in our order, under a name that says otherwise
                path.unlink()
            raise
        print(f"No deploy.yaml: {obstacle}")
    if order != "envlab":  # TorchScript's still has our order
        (directory / "policy.pt").unlink()
    write_json(directory / EXPORTED_FROM, {"iteration": opened.iteration})
    for path in written:
        if path.is_file():
            print(f"Exported {os.path.relpath(path)}")


def _tell_changes(plan: RunPlan, run: Path) -> None:
    """Say where the environment is not the task's, or where the policy's training was not."""
    if changes := task_changes(to_dict(plan.env_cfg, "env"), plan.task):
        logger.info(
            "This environment differs from %s, so its returns are not the task's. Its settings, "
            "with the task's in brackets: %s.",
            *(plan.task.id, listing(changes)),
        )
        return
    is_own_task = plan.task.id == plan.task.trained_id  # and not its variant to play
    if plan.flags.checkpoint != SELECTOR or not is_own_task:
        return
    if changes := changes_in_training(plan.library, plan.flags, run):
        logger.info(
            "The policy plays %s unchanged, but was trained in an environment with other settings: "
            "%s. --as_trained uses those.",
            *(plan.task.id, listing(changes)),
        )


def changes_in_training(library: Library, flags: Flags, policy: Path) -> Changes:
    """Return the settings in which an installed policy's training was not the task as it is.

    Args:
        library: The policy's.
        flags: Flags that play it in its own task.
        policy: Its folder.
    """
    trained = dataclasses.replace(flags, as_trained=True)
    plan = plan_run(trained, (), library, policy)
    return task_changes(to_dict(plan.env_cfg, "env"), plan.task)


def _check_playable(plan: RunPlan, values: Mapping[str, Any], path: Path) -> None:
    """Refuse a checkpoint of another task, except the one that this is the play variant of."""
    trained = plan.task.trained_id
    played = trained if values.get("task") == trained else plan.task.id
    check_origin(values, path, plan=plan, task_id=played)


def _play_watched(opened: OpenedPolicy, viewer: Viewer) -> None:
    """Play until the visitor ends it, moving on to newer checkpoints of ``latest`` or ``best``."""
    plan, env = opened.plan, opened.env
    viewer.label, selector = opened.label, run_and_name(plan.flags)[1]

    def make(values: dict[str, Any]) -> Player:
        values = of_leader(values)
        player: Player = plan.library.load("player")(plan, env, env.context, values)
        return player

    newer = None
    if selector in ("latest", "best"):
        accept = functools.partial(_check_playable, plan)
        newer = NewerPolicies(opened.checkpoint.parent, selector, accept, make, viewer)
    with torch.inference_mode():
        play_watched(opened.team(), opened.player, viewer, newer)


def _play(opened: OpenedPolicy, episodes_per_env: int, viewer: Viewer | None) -> None:
    """Run the episodes, show and record them if asked, and print the returns."""
    plan, run_directory, player = opened.plan, opened.directory, opened.player
    env = opened.team()
    recorder = start_recording(plan.flags, env, run_directory / "videos" / "play")
    after_step: list[Callable[[], None]] = [] if recorder is None else [recorder.after_step]
    if viewer is not None:
        after_step.append(viewer.after_step)
    elif plan.flags.real_time:
        after_step.append(Pace(env.step_dt))
    try:
        with torch.inference_mode():
            evaluation = evaluate(env, player.act, episodes_per_env, after_step)
    finally:
        if recorder is not None:
            recorder.close()
    for line in evaluation.lines(env.max_episode_length):
        print(line)
    if plan.flags.json is not None:
        played = {"task": plan.task.id, "run": os.path.relpath(run_directory)}
        write_json(plan.flags.json, played | evaluation.as_dict())
    if path := _keep(opened, evaluation):
        print(f"Evaluation {os.path.relpath(path)}")
    for video in [] if recorder is None else recorder.paths:
        print(f"Video {os.path.relpath(video)}")


def _keep(opened: OpenedPolicy, evaluation: Evaluation) -> Path | None:
    """Save an evaluation with the checkpoint, if it is of the task as the run has it."""
    plan, folder = opened.plan, opened.checkpoint.parent
    is_run = folder.name == "checkpoints" and (folder.parent / "run.json").is_file()
    is_task = plan.task.id == plan.task.trained_id
    if not is_run or not is_task or task_changes(to_dict(plan.env_cfg, "env"), plan.task):
        return None
    counts = {"iteration": opened.iteration, "frames": opened.frames, "wall_s": opened.wall_s}
    values = {"task": plan.task.id, **counts, **evaluation.as_dict()}
    try:
        return keep_evaluation(folder, values)
    except OSError as error:
        logger.warning("The evaluation is not kept in %s: %s.", folder, error.strerror or error)
        return None
