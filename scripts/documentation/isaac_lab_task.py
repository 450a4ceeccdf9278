"""Run one task of Isaac Lab as far as it goes, for ``isaac_lab_tasks.py``.

::

    python -m envlab_isaaclab scripts/documentation/isaac_lab_task.py --task=Isaac-Ant-v0

It prints, line by line, ``REACHED builds``, ``steps`` and ``trains``: two iterations by the agent
of rsl_rl, else of skrl (PPO or AMP) or rl_games. Without ``--task`` it prints the ids, and those
with an agent.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import traceback
from typing import Any

from isaaclab.app import AppLauncher

parser = argparse.ArgumentParser()
parser.add_argument("--task")
parser.add_argument("--num_envs", type=int, default=4)
AppLauncher.add_app_launcher_args(parser)
flags = parser.parse_args()
app = AppLauncher(flags).app

import gymnasium  # noqa: E402
import isaaclab_tasks  # noqa: E402, F401
from isaaclab.envs import DirectMARLEnv, multi_agent_to_single_agent  # noqa: E402
from isaaclab_tasks.utils import load_cfg_from_registry, parse_env_cfg  # noqa: E402

from envlab.errors import EnvlabError  # noqa: E402

AGENTS = ("rsl_rl", "skrl", "skrl_amp", "rl_games")
"""How configurations of agents begin in a registration, the first choice first."""


def main() -> None:
    """Go as far as it goes."""
    if flags.task is None:
        found = {
            task_id: agents(spec)
            for task_id, spec in gymnasium.registry.items()
            if "env_cfg_entry_point" in spec.kwargs
        }
        print(json.dumps(found))
        return
    cfg = parse_env_cfg(flags.task, device="cpu", num_envs=flags.num_envs)
    cfg.seed = 1
    env = gymnasium.make(flags.task, cfg=cfg)
    print("REACHED builds", flush=True)
    env.reset()
    for _ in range(3):
        env.step(actions(env.unwrapped))
    print("REACHED steps", flush=True)
    known = agents(gymnasium.spec(flags.task))
    if known:
        os.chdir(tempfile.mkdtemp())
        {"rsl_rl": rsl_rl, "rl_games": rl_games}.get(known[0], skrl)(env)
        print("REACHED trains", flush=True)


def agents(spec: gymnasium.envs.registration.EnvSpec) -> list[str]:
    """Return which agents' configurations a task has."""
    return [name for name in AGENTS if f"{name}_cfg_entry_point" in spec.kwargs]


def actions(env: Any) -> object:
    """Return random actions, by agent if there are several."""
    import torch

    def draw(space: gymnasium.Space) -> torch.Tensor:
        if isinstance(space, gymnasium.spaces.Box):
            return 2 * torch.rand(env.num_envs, *space.shape) - 1
        return torch.tensor([space.sample() for _ in range(env.num_envs)]).view(env.num_envs, -1)

    if isinstance(env, DirectMARLEnv):
        return {agent: draw(env.action_spaces[agent]) for agent in env.possible_agents}
    return draw(env.single_action_space)


def rsl_rl(env: gymnasium.Env) -> None:
    """Train by rsl_rl."""
    from isaaclab_rl.rsl_rl import RslRlVecEnvWrapper
    from rsl_rl.runners import DistillationRunner, OnPolicyRunner

    if isinstance(env.unwrapped, DirectMARLEnv):
        env = multi_agent_to_single_agent(env)
    cfg = load_cfg_from_registry(flags.task, "rsl_rl_cfg_entry_point")
    kind = DistillationRunner if cfg.class_name == "DistillationRunner" else OnPolicyRunner
    wrapped = RslRlVecEnvWrapper(env, clip_actions=cfg.clip_actions)
    kind(wrapped, cfg.to_dict(), log_dir="run", device="cpu").learn(2)


def skrl(env: gymnasium.Env) -> None:
    """Train by skrl: PPO or AMP."""
    from isaaclab_rl.skrl import SkrlVecEnvWrapper
    from skrl.utils.runner.torch import Runner

    kind = next(name for name in agents(env.spec) if name.startswith("skrl"))
    cfg = load_cfg_from_registry(flags.task, f"{kind}_cfg_entry_point")
    if isinstance(env.unwrapped, DirectMARLEnv):
        env = multi_agent_to_single_agent(env)
    cfg["trainer"] |= {
        "timesteps": 2 * cfg["agent"]["rollouts"],
        "close_environment_at_exit": False,
    }
    Runner(SkrlVecEnvWrapper(env), cfg).run()


def rl_games(env: gymnasium.Env) -> None:
    """Train by rl_games."""
    import math

    from isaaclab_rl.rl_games import RlGamesGpuEnv, RlGamesVecEnvWrapper
    from rl_games.common import env_configurations, vecenv
    from rl_games.torch_runner import Runner

    if isinstance(env.unwrapped, DirectMARLEnv):
        env = multi_agent_to_single_agent(env)
    cfg = load_cfg_from_registry(flags.task, "rl_games_cfg_entry_point")
    clip = cfg["params"]["env"]
    wrapped = RlGamesVecEnvWrapper(
        env,
        "cpu",
        clip.get("clip_observations", math.inf),
        clip.get("clip_actions", math.inf),
        clip.get("obs_groups"),
        clip.get("concate_obs_groups", True),
    )
    vecenv.register(
        "IsaacRlgWrapper", lambda name, count, **words: RlGamesGpuEnv(name, count, **words)
    )
    made = {"vecenv_type": "IsaacRlgWrapper", "env_creator": lambda **words: wrapped}
    env_configurations.register("rlgpu", made)
    config = cfg["params"]["config"]
    steps = config["horizon_length"] * flags.num_envs
    config |= {"max_epochs": 2, "num_actors": flags.num_envs, "minibatch_size": steps}
    config |= {"device": "cpu", "device_name": "cpu"}
    central = config.get("central_value_config")
    if central is not None:
        central["minibatch_size"] = steps
    runner = Runner()
    runner.load(cfg)
    runner.run({"train": True, "play": False, "sigma": None})


try:
    main()
except EnvlabError as error:
    print(f"FAILED {' '.join(str(error).split())}", flush=True)
    os._exit(2)  # without the messages of what was half made
except Exception as error:
    own = traceback.extract_tb(error.__traceback__)
    frames = [one for one in own if "isaaclab" in one.filename or "envlab" in one.filename] or own
    place = f"{frames[-1].filename.rpartition('/source/')[2]}:{frames[-1].lineno}"
    traceback.print_exc()
    text = " ".join(str(error).split())[:200]
    print(f"FAILED {type(error).__name__}: {text} ({place})", flush=True)
    os._exit(1)
