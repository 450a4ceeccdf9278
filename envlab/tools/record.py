"""``envlab record``: a policy's episodes as a dataset, LeRobot's or in HDF5 as Isaac Lab's.

The policy is a trained one, the task's scripted one, or a person.
"""

from __future__ import annotations

import importlib
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from envlab.arguments import ArgumentParser, positive
from envlab.config import Override, compose, merge
from envlab.distributed.context import DistributedContext
from envlab.envs import ManagerEnv
from envlab.envs.managers.recorder import RecorderManager
from envlab.envs.mdp.recorders import ActionStateRecorderManagerCfg
from envlab.envs.wrappers.lerobot import LeRobotVectorEnvWrapper
from envlab.errors import ConfigurationError
from envlab.libraries import Library, get_library
from envlab.registry import SCRIPTED, get_task, load_env_cfg, scripted_policy
from envlab.task import Task
from envlab.tools import record_hand
from envlab.training.arguments import agent_parser, play_parser
from envlab.training.flags import Flags
from envlab.training.plan import without_recorders
from envlab.training.play import NUM_ENVS, OpenedPolicy, open_policy

NUM_EPISODES = 10
"""Default of ``--num_episodes``."""
HAND = "hand"
"""Word in place of a library for a person."""
NAMES = {"agent_pos": "observation.state", "pixels": "observation.image"}
"""LeRobot's names in datasets for observations of its environments."""


def main(arguments: Sequence[str]) -> int:
    """Write a dataset, and return 0.

    Raises:
        EnvlabError: For bad input, before anything is written.
    """
    flags, others = _parser().parse_known_args(list(arguments))
    if flags.output.exists():
        raise ConfigurationError(
            f"--output={flags.output} already exists. Name a folder that is not."
        )
    if flags.library == SCRIPTED:
        return _record_scripted(flags, others)
    if flags.library == HAND:
        return _record_by_hand(flags, others)
    library = get_library(flags.library)
    playing, overrides = play_parser(library).parse_with_overrides(others)
    if flags.format == "hdf5":
        return _record_hdf5(flags, library, playing, overrides)
    if flags.succeeded_only:
        raise ConfigurationError(
            "--succeeded_only has no effect on LeRobot's format. Leave it out, or add "
            "--format=hdf5."
        )
    return _record_lerobot(flags, library, playing, overrides)


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="envlab record",
        description="Write a policy's episodes as a dataset; other flags are those of play.",
    )
    parser.add_argument(
        "library",
        help=f"the library that trained the policy; {SCRIPTED}: the task's own; {HAND}: you, by "
        "keyboard or gamepad in the viewer",
    )
    parser.add_argument(
        "--format",
        choices=["lerobot", "hdf5"],
        default="lerobot",
        help="of the dataset (default: lerobot)",
    )
    parser.add_argument(
        "--output",
        required=True,
        type=Path,
        metavar="PATH",
        help="a new folder, or for hdf5 a new file NAME.hdf5",
    )
    parser.add_argument(
        "--succeeded_only", action="store_true", help="keep only episodes that succeed (hdf5)"
    )
    parser.add_argument(
        "--obs_type",
        choices=["state", "pixels", "pixels_agent_pos"],
        default="pixels_agent_pos",
        help="observations to keep, by LeRobot's names (default: both)",
    )
    parser.add_argument("--height", type=int, default=240, help="of pictures (default: 240)")
    parser.add_argument("--width", type=int, default=320, help="of pictures (default: 320)")
    return parser


def _record_lerobot(
    flags: Namespace, library: Library, playing: Flags, overrides: Sequence[Override]
) -> int:
    lerobot_dataset = _import_datasets()
    opened = open_policy(library, playing, overrides, 1, renders=True)
    try:
        if opened.env.num_envs != 1:
            raise ConfigurationError(
                f"--num_envs={opened.env.num_envs}, but episodes are recorded one after another. "
                "Leave it out."
            )
        task = opened.plan.task
        env = LeRobotVectorEnvWrapper(
            opened.env,
            task=task.id,
            task_description=task.description,
            obs_type=flags.obs_type,
            height=flags.height,
            width=flags.width,
        )
        dataset = lerobot_dataset.create(
            repo_id=f"envlab/{flags.output.name}",
            fps=frames_per_second(opened.env.step_dt),
            features=features_of(env),
            root=flags.output,
            robot_type=task.trained_id,
            use_videos=True,
        )
        num_episodes = playing.num_episodes or NUM_EPISODES
        with torch.inference_mode():
            num_frames = record(opened, env, dataset, num_episodes)
        dataset.finalize()
    finally:
        opened.env.close()
    print(f"Wrote {flags.output}: {num_episodes} episodes, {num_frames} frames")
    return 0


def _record_hdf5(
    flags: Namespace, library: Library, playing: Flags, overrides: Sequence[Override]
) -> int:
    _check_hdf5(flags)
    opened = open_policy(library, playing, overrides, 1)

    def act() -> torch.Tensor:
        return opened.player.act(opened.env.obs_buf)

    num_episodes = playing.num_episodes or NUM_EPISODES
    return _write_hdf5(flags, opened.plan.task, opened.env, act, num_episodes)


def _record_scripted(flags: Namespace, words: Sequence[str]) -> int:
    playing, overrides = _agent_words(flags, words)
    task = get_task(playing.task)
    policy = scripted_policy(task)
    cfg = compose({"env": load_env_cfg(task)}, overrides)["env"]
    num_envs = playing.num_envs or min(NUM_ENVS, playing.num_episodes)
    cfg = merge(without_recorders(cfg), {"scene": {"num_envs": num_envs}}, "env")
    env = task.make(cfg, context=DistributedContext.single(playing.device), seed=playing.seed)
    return _write_hdf5(flags, task, env, policy(env).act, playing.num_episodes)


def _record_by_hand(flags: Namespace, words: Sequence[str]) -> int:
    playing, overrides = _agent_words(flags, ["--viz=web", *words])
    task = get_task(playing.task)
    env = record_hand.make_env(task, playing, overrides)
    try:
        cfg = _recorded(flags, task)
        num_kept = record_hand.record_hand(task, env, playing, cfg, playing.num_episodes)
    finally:
        env.close()
    print(f"Wrote {flags.output}: {num_kept} episodes" if num_kept else "Wrote nothing: none kept")
    return 0


def _agent_words(flags: Namespace, words: Sequence[str]) -> tuple[Any, list[Override]]:
    """Return the flags of a recording without a trained policy, and the overrides."""
    if flags.format != "hdf5":
        raise ConfigurationError(
            f"--format is {flags.format}, but episodes of a {flags.library} policy are recorded in "
            "HDF5 alone. Add --format=hdf5."
        )
    _check_hdf5(flags)
    parser = agent_parser(flags.library)
    parser.add_argument("--num_episodes", type=positive, default=NUM_EPISODES, help="at least")
    playing, overrides = parser.parse_with_overrides(words)
    if playing.num_steps is not None:
        raise ConfigurationError(
            f"--num_steps={playing.num_steps} has no effect on whole episodes. Leave it out, or "
            "give --num_episodes."
        )
    return playing, overrides


def _recorded(flags: Namespace, task: Task) -> ActionStateRecorderManagerCfg:
    return ActionStateRecorderManagerCfg(
        dataset_export_dir_path=str(flags.output.parent),
        dataset_filename=flags.output.stem,
        env_name=task.trained_id,
        dataset_export_mode="succeeded_only" if flags.succeeded_only else "all",
    )


def _check_hdf5(flags: Namespace) -> None:
    if flags.output.suffix != ".hdf5":
        raise ConfigurationError(
            f"--output={flags.output}, but a file in HDF5 is called NAME.hdf5. Call it so."
        )


def _write_hdf5(
    flags: Namespace, task: Task, env: Any, act: Callable[[], torch.Tensor], num_episodes: int
) -> int:
    try:
        if not isinstance(env, ManagerEnv):
            raise ConfigurationError(
                f"--format=hdf5 records manager-based tasks, but {task.id} is a {task.kind} task. "
                "Record a trained policy of it in LeRobot's format, --format=lerobot."
            )
        recorder = env.recorder_manager = RecorderManager(_recorded(flags, task), env)
        with torch.inference_mode():
            env.reset()
            while recorder.num_episodes < num_episodes:
                env.step(act())
    finally:
        env.close()
    print(f"Wrote {flags.output}: {recorder.num_episodes} episodes")
    return 0


def frames_per_second(step_dt: float) -> int:
    """Return the control steps of a second.

    Raises:
        ConfigurationError: If it is not a whole number, which LeRobot needs.
    """
    fps = round(1.0 / step_dt)
    if abs(fps * step_dt - 1.0) > 1e-3:
        raise ConfigurationError(
            f"A step lasts {step_dt:g} s, but LeRobot requires a whole number of steps per second. "
            "Change env.decimation or env.sim.dt."
        )
    return fps


def features_of(env: LeRobotVectorEnvWrapper) -> dict[str, dict[str, Any]]:
    """Return the contents of a frame, by LeRobot's names, for ``LeRobotDataset.create``."""
    features: dict[str, dict[str, Any]] = {}
    for name, space in env.observed.items():
        if name == "pixels":
            names = ["height", "width", "channels"]
            features[NAMES[name]] = {"dtype": "video", "shape": space.shape, "names": names}
        else:
            features[NAMES[name]] = {"dtype": "float32", "shape": space.shape, "names": None}
    shape = env.single_action_space.shape or (1,)
    return {
        **features,
        "action": {"dtype": "float32", "shape": shape, "names": None},
        "next.reward": {"dtype": "float32", "shape": (1,), "names": None},
        "next.done": {"dtype": "bool", "shape": (1,), "names": None},
    }


def record(
    opened: OpenedPolicy, env: LeRobotVectorEnvWrapper, dataset: Any, num_episodes: int
) -> int:
    """Play whole episodes, and add each frame to a dataset; return the number of frames.

    A frame contains an observation, the policy's action, and the result of the step.
    """
    observed, _ = env.reset()
    num_ended = num_frames = 0
    while num_ended < num_episodes:
        actions = opened.player.act(opened.env.obs_buf)
        before = observed
        observed, rewards, terminated, truncated, _ = env.step(actions)
        done = terminated | truncated
        dataset.add_frame(frame(before, actions.cpu().numpy(), rewards, done, env.task_description))
        num_frames += 1
        if done[0]:
            dataset.save_episode()
            num_ended += 1
    return num_frames


def frame(
    observed: Mapping[str, np.ndarray],
    actions: np.ndarray,
    rewards: np.ndarray,
    done: np.ndarray,
    task_description: str,
) -> dict[str, Any]:
    """Return one frame of environment 0 for ``LeRobotDataset.add_frame``."""
    return {
        **{NAMES[name]: values[0] for name, values in observed.items()},
        "action": np.atleast_1d(actions[0]).astype(np.float32),
        "next.reward": rewards[:1].astype(np.float32),
        "next.done": done[:1].astype(bool),
        "task": task_description,
    }


def _import_datasets() -> Any:
    """Return LeRobot's class of datasets.

    Raises:
        ConfigurationError: If LeRobot is not installed.
    """
    try:
        return importlib.import_module("lerobot.datasets.lerobot_dataset").LeRobotDataset
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"'envlab record --format lerobot' needs the package lerobot ({error}). Install it, "
            "for Python 3.12 or newer, with: pip install 'lerobot[dataset]'"
        ) from None
