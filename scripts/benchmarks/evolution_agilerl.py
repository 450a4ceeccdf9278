"""AgileRL's DQN for evolution.py, in a Python of AgileRL's own.

For each line on its standard input it takes so many steps in all environments, learning once after
each, and prints the seconds and the CPU seconds that this took. Arguments: environments, units of
each of three hidden layers (0: AgileRL's default network), size of a batch, and how many
transitions to remember.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import gymnasium
import torch
from agilerl.algorithms import DQN
from agilerl.components.data import Transition
from agilerl.components.replay_buffer import ReplayBuffer

ENV_ID = "LunarLander-v3"
EPSILON = 0.1


def main() -> None:
    """Run the loop of AgileRL's tutorial, a block at a time."""
    answers, sys.stdout = sys.stdout, sys.stderr  # AgileRL prints, too
    num_envs, units, batch_size, memory_size = map(int, sys.argv[1:])
    torch.set_num_threads(1)
    env: Any = gymnasium.make_vec(ENV_ID, num_envs, vectorization_mode="sync")
    layer = {"hidden_size": [units], "layer_norm": False}
    encoder = {**layer, "output_layernorm": False}
    net_config = {"latent_dim": units, "encoder_config": encoder, "head_config": layer}
    agent = DQN(
        env.single_observation_space,
        env.single_action_space,
        net_config=net_config if units else None,
        batch_size=batch_size,
        double=False,
    )
    memory = ReplayBuffer(memory_size)
    obs = env.reset(seed=1)[0]
    for line in sys.stdin:
        start, cpu_start = time.perf_counter(), time.process_time()
        for _ in range(int(line)):
            actions = agent.get_action(obs, EPSILON)
            following, rewards, terminated, _, _ = env.step(actions)
            step = Transition(
                obs=obs, action=actions, reward=rewards, next_obs=following, done=terminated
            ).to_tensordict()
            step.batch_size = [num_envs]
            memory.add(step)
            if len(memory) >= batch_size:
                agent.learn(memory.sample(batch_size))
            obs = following
        print(
            time.perf_counter() - start, time.process_time() - cpu_start, file=answers, flush=True
        )


if __name__ == "__main__":
    main()
