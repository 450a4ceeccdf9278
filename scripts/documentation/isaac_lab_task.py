"""Run tasks of Isaac Lab as far as they go, each in a fork, for ``isaac_lab_tasks.py``.

::

    echo Isaac-Ant-v0 | python -m envlab_isaaclab scripts/documentation/isaac_lab_task.py

It reads ids from its input. For each it prints a line of JSON: how many of the stages ``builds``,
``steps`` and ``trains`` were reached, and the sentence that ended it. Training is two iterations by
the agent of rsl_rl, else of skrl (PPO or AMP) or rl_games. With ``--list`` it prints the ids, and
those with an agent. A fork saves the imports, most of the time of a task that cannot be made.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from isaaclab.app import AppLauncher

parser = argparse.ArgumentParser()
parser.add_argument("--list", action="store_true")
parser.add_argument("--limit_s", type=float, default=240.0)
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


STAGES = ("builds", "steps", "trains")


def main() -> None:
    """Print the ids, or run those that are read."""
    if flags.list:
        found = {
            task_id: agents(spec)
            for task_id, spec in gymnasium.registry.items()
            if "env_cfg_entry_point" in spec.kwargs
        }
        print(json.dumps(found), flush=True)
        return
    for line in sys.stdin:
        with tempfile.TemporaryDirectory() as folder:
            told = {"task": line.strip()} | in_fork(line.strip(), Path(folder))
        print(json.dumps(told), flush=True)


def in_fork(task_id: str, folder: Path) -> dict[str, Any]:
    """Run a task in a fork; return the number of stages it reached and what ended it."""
    output, stages = folder / "output", folder / "stages"
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        with output.open("wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        os.chdir(folder)
        os._exit(guarded(task_id, stages))
    status, deadline = (0, 0), time.monotonic() + flags.limit_s
    while status[0] == 0 and time.monotonic() < deadline:
        time.sleep(0.05)
        status = os.waitpid(child, os.WNOHANG)
    reached = stages.read_text().splitlines() if stages.exists() else []
    count = sum(stage in reached for stage in STAGES)
    if status[0] == 0:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return {"stages": count, "sentence": f"takes longer than {flags.limit_s:g} s"}
    code = os.waitstatus_to_exitcode(status[1])
    failed = [line for line in reached if line.startswith("FAILED ")]
    sentence = failed[-1].removeprefix("FAILED ") if failed else f"code {code}" if code else ""
    if code == 0 and not agents(gymnasium.spec(task_id)):
        sentence = "has no agent that learns from rewards"
    return {"stages": count, "sentence": sentence}


def guarded(task_id: str, stages: Path) -> int:
    """Run a task, and note its stages and its error; return the exit code."""
    with stages.open("w", buffering=1) as file:
        try:
            for stage in going(task_id):
                file.write(f"{stage}\n")
        except EnvlabError as error:
            file.write(f"FAILED {' '.join(str(error).split())}\n")
            return 2
        except Exception as error:
            traceback.print_exc()
            own = traceback.extract_tb(error.__traceback__)
            ours = [one for one in own if "isaaclab" in one.filename or "envlab" in one.filename]
            frame = (ours or own)[-1]
            place = f"{frame.filename.rpartition('/source/')[2]}:{frame.lineno}"
            text = " ".join(str(error).split())[:200]
            file.write(f"FAILED {type(error).__name__}: {text} ({place})\n")
            return 1
    return 0


def going(task_id: str) -> Iterator[str]:
    """Go as far as a task goes, yielding what was reached."""
    cfg = parse_env_cfg(task_id, device="cpu", num_envs=flags.num_envs)
    cfg.seed = 1
    env = gymnasium.make(task_id, cfg=cfg)
    yield "builds"
    env.reset()
    for _ in range(3):
        env.step(actions(env.unwrapped))
    yield "steps"
    known = agents(gymnasium.spec(task_id))
    if known:
        {"rsl_rl": rsl_rl, "rl_games": rl_games}.get(known[0], skrl)(env)
        yield "trains"


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


def spec_of(env: gymnasium.Env) -> gymnasium.envs.registration.EnvSpec:
    """Return an environment's registration."""
    assert env.spec is not None
    return env.spec


def rsl_rl(env: gymnasium.Env) -> None:
    """Train by rsl_rl."""
    from isaaclab_rl.rsl_rl import RslRlVecEnvWrapper
    from rsl_rl.runners import DistillationRunner, OnPolicyRunner

    if isinstance(env.unwrapped, DirectMARLEnv):
        env = multi_agent_to_single_agent(env)
    cfg = load_cfg_from_registry(spec_of(env).id, "rsl_rl_cfg_entry_point")
    kind = DistillationRunner if cfg.class_name == "DistillationRunner" else OnPolicyRunner
    wrapped = RslRlVecEnvWrapper(env, clip_actions=cfg.clip_actions)
    kind(wrapped, cfg.to_dict(), log_dir="run", device="cpu").learn(2)


def skrl(env: gymnasium.Env) -> None:
    """Train by skrl: PPO or AMP."""
    from isaaclab_rl.skrl import SkrlVecEnvWrapper
    from skrl.utils.runner.torch import Runner

    kind = next(name for name in agents(spec_of(env)) if name.startswith("skrl"))
    cfg = load_cfg_from_registry(spec_of(env).id, f"{kind}_cfg_entry_point")
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
    cfg = load_cfg_from_registry(spec_of(env).id, "rl_games_cfg_entry_point")
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


main()
