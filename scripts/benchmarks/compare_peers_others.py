"""Peers in a separate Python, for compare_peers.py, and the common part of all its workers.

Arguments: a function of this file, and its arguments.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

DQN_ENVS, DQN_BATCH, DQN_MEMORY, DQN_EPSILON = 8, 128, 10_000, 0.1


class Turns:
    """Lets a process step during its turn: called before each step of the environments.

    A turn is a line on standard input, its length in seconds. It is answered by the number of
    environment steps made, after that time.
    """

    def __init__(self, num_envs: int, whole: int = 1) -> None:
        """Count ``num_envs`` for each step, and end turns after a multiple of ``whole`` steps."""
        self._num_envs, self._whole = num_envs, whole
        self._made, self._end = -1, 0.0
        self._answers = sys.stdout
        sys.stdout = sys.stderr  # libraries also print

    def __call__(self) -> None:
        """Wait for the next turn if this turn has ended."""
        self._made += 1
        if self._made % self._whole or time.perf_counter() < self._end:
            return
        if self._end:
            print(self._made * self._num_envs, file=self._answers, flush=True)
        line = sys.stdin.readline()
        if not line:
            os._exit(0)
        self._made, self._end = 0, time.perf_counter() + float(line)


def repeat(turns: Turns, step: Callable[[], object]) -> NoReturn:
    """Make steps whenever it is this process's turn."""
    while True:
        turns()
        step()


def mjlab(task: str, num_envs: str, motion_file: str = "") -> NoReturn:
    """Step one of mjlab's tasks with random actions, on Warp's CPU device.

    Args:
        task: Its id in mjlab.
        num_envs: Environments.
        motion_file: The clip that a tracking task follows.
    """
    turns = Turns(int(num_envs))
    torch = importlib.import_module("torch")
    importlib.import_module("mjlab.tasks")
    cfg = importlib.import_module("mjlab.tasks.registry").load_env_cfg(task)
    cfg.scene.num_envs = int(num_envs)
    if motion_file:
        cfg.commands["motion"].motion_file = motion_file
    env: Any = importlib.import_module("mjlab.envs").ManagerBasedRlEnv(cfg, device="cpu")
    env.reset()
    shape = (int(num_envs), env.action_manager.total_action_dim)
    actions = torch.rand(shape) * 2 - 1
    repeat(turns, lambda: env.step(actions))


def envpool(num_envs: str, batch_size: str) -> NoReturn:
    """Step EnvPool's Ant-v5, which does not wait for its slowest environments."""
    turns = Turns(int(batch_size))
    numpy = importlib.import_module("numpy")
    env: Any = importlib.import_module("envpool").make(
        "Ant-v5",
        env_type="gymnasium",
        num_envs=int(num_envs),
        batch_size=int(batch_size),
        num_threads=len(os.sched_getaffinity(0)),
        use_contact_force=False,
        post_constraint=False,
    )
    rows = numpy.random.default_rng(0).uniform(-1.0, 1.0, (int(batch_size), 8))
    env.async_reset()
    repeat(turns, lambda: env.send(rows, env.recv()[-1]["env_id"]))


def agilerl(units: str) -> NoReturn:
    """Run the loop of AgileRL's tutorial: act in all environments, remember, and learn once.

    Args:
        units: Of each of three hidden layers; 0: AgileRL's default network.
    """
    turns, size = Turns(DQN_ENVS), int(units)
    data = importlib.import_module("agilerl.components.data")
    buffer = importlib.import_module("agilerl.components.replay_buffer")
    env: Any = importlib.import_module("gymnasium").make_vec(
        "LunarLander-v3", DQN_ENVS, vectorization_mode="sync"
    )
    layer = {"hidden_size": [size], "layer_norm": False}
    encoder = {**layer, "output_layernorm": False}
    net_config = {"latent_dim": size, "encoder_config": encoder, "head_config": layer}
    agent = importlib.import_module("agilerl.algorithms").DQN(
        env.single_observation_space,
        env.single_action_space,
        net_config=net_config if size else None,
        batch_size=DQN_BATCH,
        double=False,
    )
    memory = buffer.ReplayBuffer(DQN_MEMORY)
    obs = env.reset(seed=1)[0]

    def step() -> None:
        nonlocal obs
        actions = agent.get_action(obs, DQN_EPSILON)
        following, rewards, terminated, _, _ = env.step(actions)
        made = data.Transition(
            obs=obs, action=actions, reward=rewards, next_obs=following, done=terminated
        ).to_tensordict()
        made.batch_size = [DQN_ENVS]
        memory.add(made)
        if len(memory) >= DQN_BATCH:
            agent.learn(memory.sample(DQN_BATCH))
        obs = following

    repeat(turns, step)


def main(functions: Sequence[Callable[..., object]]) -> None:
    """Call the function that the arguments name."""
    name, *arguments = sys.argv[1:]
    next(function for function in functions if function.__name__ == name)(*arguments)


if __name__ == "__main__":
    main([mjlab, envpool, agilerl])
