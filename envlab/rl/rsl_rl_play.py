"""Playing a policy that rsl_rl trained: returns over whole episodes, and the exported policy."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from tensordict import TensorDict
from torch import nn

from envlab.config import merge
from envlab.distributed.checkpoint import load_checkpoint
from envlab.distributed.context import DistributedContext
from envlab.distributed.log import configure_logging
from envlab.distributed.seeding import seed_everything
from envlab.errors import ConfigurationError
from envlab.rl.arguments import play_parser
from envlab.rl.evaluation import evaluate
from envlab.rl.export import export_policy
from envlab.rl.rsl_rl import LIBRARY, Runner
from envlab.rl.rsl_rl_cfg import RslRlCfg
from envlab.rl.session import check_origin, compose_session, locate_checkpoint
from envlab.rl.video import check_recording, render_mode, start_recording

NUM_ENVS = 64


def main(arguments: Sequence[str]) -> int:
    """Run ``play.py``.

    Args:
        arguments: Flags and overrides.

    Returns:
        The exit code.

    Raises:
        EnvlabError: For bad input.
    """
    flags, overrides = play_parser(LIBRARY).parse_with_overrides(arguments)
    configure_logging(verbose=flags.verbose)
    session = compose_session(flags, overrides, library=LIBRARY, agent_cfg=RslRlCfg())
    experiment = session.agent_cfg.experiment_name
    path, run_directory = locate_checkpoint(LIBRARY, experiment, flags.load_run, flags.checkpoint)
    values = load_checkpoint(path)
    check_origin(values, path, task=session.task, library=LIBRARY)
    if (run_directory / "params" / "env.yaml").is_file():
        session = compose_session(
            flags, overrides, library=LIBRARY, agent_cfg=RslRlCfg(), params=run_directory
        )
    num_envs, episodes_per_env = _divide_episodes(flags.num_envs, flags.num_episodes)

    context = DistributedContext.single(flags.device)
    seed = session.agent_cfg.seed
    env_cfg = merge(session.env_cfg, {"scene": {"num_envs": num_envs}, "seed": seed}, "env")
    seed_everything(seed)
    env = session.task.make(env_cfg, context=context, render_mode=render_mode(flags))
    check_recording(flags, env)
    runner = Runner(env, session.agent_cfg, context)
    runner.load_models(values)
    act = _policy(runner, num_envs)
    print(
        f"Playing {os.path.relpath(path)} (iteration {values['iteration']}, {values['frames']} "
        "frames)"
    )
    recorder = start_recording(flags, env, run_directory / "videos" / "play")
    try:
        with torch.inference_mode():
            evaluation = evaluate(
                env, act, episodes_per_env, None if recorder is None else recorder.after_step
            )
    finally:
        if recorder is not None:
            recorder.close()
    for line in evaluation.lines(env.max_episode_length):
        print(line)
    for path in [] if recorder is None else recorder.paths:
        print(f"Video {os.path.relpath(path)}")
    if not flags.no_export:
        for exported in _export(runner, run_directory / "exported"):
            print(f"Exported {exported}")
    env.close()
    return 0


def _divide_episodes(num_envs: int | None, num_episodes: int | None) -> tuple[int, int]:
    """Return environments and episodes of each; their product is at least ``num_episodes``."""
    for name, value in (("--num_envs", num_envs), ("--num_episodes", num_episodes)):
        if value is not None and value <= 0:
            raise ConfigurationError(f"{name} is {value}, but must be greater than 0.")
    num_envs = num_envs or min(NUM_ENVS, num_episodes or NUM_ENVS)
    return num_envs, math.ceil((num_episodes or num_envs) / num_envs)


def _policy(runner: Runner, num_envs: int) -> Callable[[dict[str, torch.Tensor]], torch.Tensor]:
    model = runner.get_inference_policy(str(runner.context.device))
    clip = runner.cfg["clip_actions"]

    def act(obs: dict[str, torch.Tensor]) -> torch.Tensor:
        packed = TensorDict(dict(obs), batch_size=[num_envs]).to(runner.device)
        actions = model(packed).to(runner.env.device)
        return actions if clip is None else actions.clamp(-clip, clip)

    return act


def _export(runner: Runner, directory: Path) -> list[str]:
    model = runner.get_inference_policy("cpu")
    if model.is_recurrent or len(runner.cfg["obs_groups"]["actor"]) > 1:
        print("Not exported: only policies without memory, on one observation group, can be.")
        return []
    group = runner.cfg["obs_groups"]["actor"][0]

    clip = runner.cfg["clip_actions"]

    def reference(obs: torch.Tensor) -> torch.Tensor:
        actions = model(TensorDict({group: obs}, batch_size=[len(obs)]))
        return actions if clip is None else actions.clamp(-clip, clip)

    policy = model.as_onnx(verbose=False)
    if clip is not None:
        policy = nn.Sequential(policy, nn.Hardtanh(-clip, clip))
    paths = export_policy(policy, reference, model.obs_dim, directory)
    return [os.path.relpath(path) for path in paths]
