"""What a play script does around its library: checkpoint, environment, returns, export, video."""

from __future__ import annotations

import argparse
import functools
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.distributed.log import configure_logging
from envlab.distributed.seeding import seed_everything
from envlab.envs import multi_agent_to_single_agent
from envlab.foreign import printable
from envlab.rl.command.evaluation import evaluate, write_json
from envlab.rl.command.session import Session, check_origin, compose_session, open_checkpoint
from envlab.rl.command.train import make_env
from envlab.rl.learner import Player
from envlab.rl.libraries import Library
from envlab.rl.loop.video import start_recording
from envlab.rl.run.directory import refuse_links

NUM_ENVS = 64


def run_playing(library: Library, flags: argparse.Namespace, overrides: Sequence[str]) -> int:
    """Run ``play.py``.

    Returns:
        The exit code.

    Raises:
        EnvlabError: For bad input.
    """
    configure_logging(verbose=flags.verbose)
    session = compose_session(flags, overrides, library)
    path, values, run_directory = open_checkpoint(
        session,
        functools.partial(_check_playable, session),
        tasks={session.task.id, session.task.trained_id},
    )
    if (run_directory / "params" / "env.yaml").is_file():
        session = compose_session(flags, overrides, library, params=run_directory)
    if (run_directory / "run.json").is_file():
        refuse_links(run_directory)  # policies and videos are written there
    num_envs = flags.num_envs or min(NUM_ENVS, flags.num_episodes or NUM_ENVS)
    episodes_per_env = math.ceil((flags.num_episodes or num_envs) / num_envs)
    seed = session.agent_cfg.seed
    changes = {"scene": {"num_envs": num_envs}, "seed": seed}
    session.env_cfg = merge(session.env_cfg, changes, "env")
    context = DistributedContext.single(flags.device)
    seed_everything(seed)
    env = make_env(session, context)
    player = library.load("player")(session, env, context, values)
    print(
        f"Playing {printable(os.path.relpath(path))} (iteration {values['iteration']}, "
        f"{values['frames']} frames)"
    )
    try:
        _play(env, player, episodes_per_env, session, run_directory)
        if not flags.no_export:
            for exported in player.export(run_directory / "exported"):
                print(f"Exported {os.path.relpath(exported)}")
    finally:
        env.close()
    return 0


def _check_playable(session: Session, values: Mapping[str, Any], path: Path) -> None:
    """Refuse a checkpoint of another task, but for the one that this is the play variant of."""
    trained = session.task.trained_id
    played = trained if values.get("task") == trained else session.task.id
    check_origin(values, path, session=session, task_id=played)


def _play(
    env: Any, player: Player, episodes_per_env: int, session: Session, run_directory: Path
) -> None:
    """Run the episodes, record them if asked, and print the returns."""
    if session.agent_cfg.is_multi_agent:  # returns are the team's, and the policy sees all agents
        env = multi_agent_to_single_agent(env)
    recorder = start_recording(session.flags, env, run_directory / "videos" / "play")
    after_step: list[Callable[[], None]] = [] if recorder is None else [recorder.after_step]
    if session.flags.real_time:
        after_step.append(_Pace(env.step_dt))
    try:
        with torch.inference_mode():
            evaluation = evaluate(env, player.act, episodes_per_env, after_step)
    finally:
        if recorder is not None:
            recorder.close()
    for line in evaluation.lines(env.max_episode_length):
        print(line)
    if session.flags.json is not None:
        played = {"task": session.task.id, "run": os.path.relpath(run_directory)}
        write_json(session.flags.json, played | evaluation.as_dict())
    for video in [] if recorder is None else recorder.paths:
        print(f"Video {os.path.relpath(video)}")


class _Pace:
    """Waits, each time it is called, until another step is over in the world (``--real-time``)."""

    def __init__(self, step_dt: float) -> None:
        self._step_dt = step_dt
        self._end = time.monotonic()

    def __call__(self) -> None:
        # One that took too long moves all later ones: nothing is made up for in a rush.
        now = time.monotonic()
        self._end = max(self._end + self._step_dt, now)
        time.sleep(self._end - now)
