"""``envlab motion``: clips for robots to follow, and the quality of a policy's following."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from envlab.arguments import ArgumentParser
from envlab.config import compose, merge
from envlab.distributed.context import DistributedContext
from envlab.envs.mdp.motion_command import MotionCommand, motion_of
from envlab.envs.scene import SceneCfg, build_model
from envlab.errors import ConfigurationError
from envlab.libraries import get_library
from envlab.motion import (
    MotionClip,
    clip_of_states,
    fit_clip,
    read_clip,
    read_csv,
    resample_clip,
    write_clip,
)
from envlab.registry import get_task, load_env_cfg
from envlab.training import evaluation as episodes
from envlab.training.arguments import agent_parser, play_parser
from envlab.training.play import OpenedPolicy, open_policy
from envlab.training.viewing import check_viewing, start_viewing

if TYPE_CHECKING:
    import mujoco

ROBOT = "envlab_assets:robots/g1_29.xml"
TASK = "Mjlab-Tracking-Flat-Unitree-G1-Play"
RECORDED_S = 5.0
"""How much of a policy's motion is recorded."""
NUM_TRIALS = 1024
"""Episodes that ``evaluate`` judges; mjlab's number."""


def main(arguments: Sequence[str]) -> int:
    """Run the command of the first word, and return 0.

    Raises:
        EnvlabError: For bad input.
    """
    parser = _parser()
    flags, others = parser.parse_known_args(list(arguments))
    if others and flags.run not in (record, evaluate, view):
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    flags.run(flags, others)
    return 0


def info(flags: argparse.Namespace, _: Sequence[str]) -> None:
    """Print a clip's contents, and whether it fits a robot."""
    clip = read_clip(flags.file)
    speed = np.linalg.norm(clip.body_lin_vel_w, axis=2)
    lowest = clip.body_pos_w[:, :, 2].min()
    print(f"{clip.name}")
    print(f"  {clip.num_frames} frames at {clip.fps:g} per second: {clip.seconds:.2f} s")
    print(f"  {clip.joint_pos.shape[1]} joints{_named(clip.joint_names)}")
    print(f"  {clip.body_pos_w.shape[1]} bodies{_named(clip.body_names)}")
    print(f"  the lowest body is at {lowest:.3f} m, the fastest at {speed.max():.2f} m/s")
    path = np.linalg.norm(np.diff(clip.body_pos_w[:, 0, :2], axis=0), axis=1).sum()
    print(f"  the first body moves {path:.2f} m over the ground")
    if flags.robot is not None:
        fitting = fit_clip(clip, _model(flags.robot))
        print(f"  fits {flags.robot}: {len(fitting.body_names or ())} of its bodies are in it")


def convert(flags: argparse.Namespace, _: Sequence[str]) -> None:
    """Write a clip from another file, at another rate, for a robot."""
    model = _model(flags.robot or ROBOT)
    if Path(flags.file).suffix == ".csv":
        if flags.fps is None:
            raise ConfigurationError(
                f"A CSV does not say how fast {flags.file} is. Give --fps, such as --fps 30."
            )
        frames = None if flags.frames is None else tuple(flags.frames)
        clip = read_csv(Path(flags.file), model, flags.fps, frames)
    else:
        if flags.fps is not None or flags.frames is not None:
            raise ConfigurationError("--fps and --frames are for CSV; a .npz has its own rate.")
        clip = fit_clip(read_clip(flags.file), model)
    _write(resample_clip(clip, flags.output_fps), flags.output)


def view(flags: argparse.Namespace, others: Sequence[str]) -> None:
    """Show a clip in the browser repeatedly until the visitor ends it."""
    words = [f"--task={flags.task}", *others]
    asked = [word for word in others if word.partition("=")[0] in ("--viz", "--visualizer")]
    if not asked:
        words.append("--viz=web")
    viewing, overrides = agent_parser("view").parse_with_overrides(words)
    task = get_task(viewing.task)
    path = json.dumps(str(flags.file))
    cfg = compose(
        {"env": load_env_cfg(task)}, [*overrides, f"env.commands.motion.motion_file={path}"]
    )["env"]
    cfg = merge(cfg, {"scene": {"num_envs": 1}}, "env")
    env = task.make(cfg, context=DistributedContext.single("cpu"), seed=0)
    check_viewing(viewing, env)
    motion = _motion(env)
    viewer = start_viewing(viewing, env, title=f"{flags.file}", is_played=True)
    frame = 0
    try:
        while viewer is not None and viewer.is_open:
            motion.show(frame)
            viewer.after_step()
            frame = 0 if viewer.wants_reset() else (frame + 1) % motion.clips[0].num_frames
    finally:
        if viewer is not None:
            viewer.close()
        env.close()


def record(flags: argparse.Namespace, others: Sequence[str]) -> None:
    """Write a policy's motion in the first seconds of an episode as a clip."""
    opened = _open(flags, others, num_envs=1)
    states: list[np.ndarray] = []
    try:
        env = opened.env
        motion, seconds = motion_of(env), flags.seconds or RECORDED_S
        if motion is not None:  # from its start to its end, as it then begins again elsewhere
            motion.cfg.sampling_mode, clip = "start", motion.clips[0]
            seconds = flags.seconds or min(RECORDED_S, clip.seconds)
            if seconds > clip.seconds:
                raise ConfigurationError(
                    f"--seconds is {seconds:g}, but the policy follows {clip.name}, which ends "
                    f"after {clip.seconds:g} s. Give at most as many."
                )
        num_frames = round(seconds / env.step_dt) + 1

        def keep() -> bool:
            states.append(env.sim.data.qpos[0].cpu().numpy().astype(np.float64))
            return len(states) < num_frames

        _play(opened, keep)
        if len(states) < num_frames:
            raise ConfigurationError(
                f"The episode ended after {len(states) * env.step_dt:.2f} s, before the "
                f"{seconds:g} s to record. Give fewer --seconds, or another "
                "checkpoint."
            )
        table = np.array(states)
        model = env.sim.model
        table[:, 3:7] /= np.linalg.norm(table[:, 3:7], axis=1, keepdims=True)
        table[:, :3] -= env.env_origins[0].cpu().numpy()
        _write(clip_of_states(flags.output, model, table, 1.0 / env.step_dt), flags.output)
    finally:
        opened.env.close()


def evaluate(flags: argparse.Namespace, others: Sequence[str]) -> None:
    """Print how well a policy follows its motion from the start, in one episode for each robot."""
    words = ["env.commands.motion.sampling_mode=start", "env.events.push_robot=null"]
    opened = _open(flags, [*others, *words], num_envs=NUM_TRIALS)
    try:
        values = follow(opened)
    finally:
        opened.env.close()
    for name, value in values.items():
        print(f"{name:>16}: {value:.4f}" if isinstance(value, float) else f"{name:>16}: {value}")
    if flags.output is not None:
        Path(flags.output).write_text(json.dumps(values, indent=2) + "\n")


def follow(opened: OpenedPolicy) -> dict[str, Any]:
    """Play an episode of each robot; return mjlab's measures of how well it follows its motion.

    Raises:
        ConfigurationError: If the task does not follow a motion.
    """
    _motion(opened.env)
    with torch.inference_mode():
        evaluation = episodes.evaluate(opened.env, opened.player.act)
    assert evaluation.success is not None, "it lasts, or does not"
    means = {name: float(np.nanmean(values)) for name, values in evaluation.tracked.items()}
    success = float(evaluation.success.mean())
    return {"num_trials": opened.env.num_envs, "success_rate": success, **means}


def _motion(env: Any) -> MotionCommand:
    found = motion_of(env)
    if found is not None:
        return found
    raise ConfigurationError(
        f"The task follows no motion: it has no MotionCommand among its commands. Give one such as "
        f"--task {TASK.removesuffix('-Play')}."
    )


def _open(flags: argparse.Namespace, others: Sequence[str], num_envs: int) -> OpenedPolicy:
    library = get_library(flags.library)
    playing, overrides = play_parser(library).parse_with_overrides(list(others))
    return open_policy(library, playing, overrides, num_envs)


def _play(opened: OpenedPolicy, keep_going: Callable[[], bool]) -> None:
    """Play the first episode of environment 0 as long as wanted."""
    env = opened.env
    obs, _ = env.reset()
    env.episode_length_buf = torch.zeros_like(env.episode_length_buf)
    while keep_going():
        obs, _, terminated, truncated, _ = env.step(opened.player.act(obs))
        if bool(terminated[0] | truncated[0]):
            return


def _write(clip: MotionClip, output: str) -> None:
    write_clip(clip, Path(output))
    print(f"Wrote {output}: {clip.num_frames} frames, {clip.seconds:.2f} s")


def _model(source: str) -> mujoco.MjModel:
    return build_model(SceneCfg(model=source))


def _named(names: Sequence[str] | None) -> str:
    return " without names" if names is None else f": {', '.join(names[:4])}, ..."


def _positive(text: str) -> float:
    value = float(text)
    if not 0.0 < value < math.inf:
        raise ValueError(text)
    return value


_positive.__name__ = "positive number"  # in argparse's message


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="envlab motion", description="Clips that robots follow.")
    verbs = parser.add_subparsers(metavar="VERB", required=True)

    def verb(run: Callable[..., None], help_text: str) -> argparse.ArgumentParser:
        made = verbs.add_parser(run.__name__, help=help_text, description=help_text)
        made.set_defaults(run=run)
        return made

    looking = verb(info, "Print a clip's contents, and whether it fits a robot.")
    looking.add_argument("file", help="the clip")
    looking.add_argument("--robot", metavar="MODEL", help="a path, or package:path")
    converting = verb(convert, "Write a .npz of a CSV of states, or of another .npz.")
    converting.add_argument("file", help="the clip, or a CSV: root, (x, y, z, w), joints")
    converting.add_argument("--output", required=True, metavar="FILE", help="the .npz to write")
    converting.add_argument("--robot", metavar="MODEL", help=f"the robot (default: {ROBOT})")
    converting.add_argument("--fps", type=_positive, help="frames per second of a CSV")
    converting.add_argument(
        "--output_fps", type=_positive, default=50.0, help="to write (default: 50)"
    )
    converting.add_argument(
        "--frames", type=int, nargs=2, metavar=("FIRST", "LAST"), help="of a CSV, counted from 1"
    )
    viewing = verb(view, "Show a clip in the browser.")
    viewing.add_argument("file", help="the clip")
    viewing.add_argument("--task", default=TASK, help=f"whose robot it is (default: {TASK})")
    recording = verb(record, "Write a policy's motion as a clip; other flags are those of play.")
    recording.add_argument("library", help="the library that trained it")
    recording.add_argument("--output", required=True, metavar="FILE", help="the .npz to write")
    recording.add_argument(
        "--seconds", type=_positive, help=f"how long (default: {RECORDED_S:g}, or to a clip's end)"
    )
    judging = verb(evaluate, "Measure how well a policy follows; other flags are those of play.")
    judging.add_argument("library", help="the library that trained it")
    judging.add_argument("--output", metavar="FILE", help="a .json to write too")
    return parser
