"""AgileRL's tutorial "Distributed training" on envlab, over Accelerate; see docs/evolve.md."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader
from tqdm import trange

from envlab.distributed.program import guarded
from envlab_populations.agilerl.accelerator import make_accelerator
from envlab_populations.agilerl.agent import DQN
from envlab_populations.agilerl.environments import make_vect_envs
from envlab_populations.agilerl.memory import ReplayBuffer, ReplayDataset, Sampler, Transition
from envlab_populations.agilerl.selection import Mutations, TournamentSelection
from envlab_populations.agilerl.settings import HyperparameterConfig, RLParameter
from envlab_populations.agilerl.training import evolved

POPULATION_SIZE, BATCH_SIZE, MEMORY_SIZE, NUM_ENVS = 4, 128, 10_000, 8
INIT_HP = {"double": True, "batch_size": BATCH_SIZE, "lr": 1e-3, "gamma": 0.99, "tau": 1e-3}
NETWORK = {"hidden_size": [32, 32]}
SELECTION = HyperparameterConfig(
    lr=RLParameter(min=1e-4, max=1e-2), batch_size=RLParameter(min=8, max=1024)
)
MUTATIONS: dict[str, Any] = {"no_mutation": 0.4, "architecture": 0.2, "new_layer_prob": 0.2}
MUTATIONS |= {"parameters": 0.2, "activation": 0, "rl_hp": 0.2, "mutation_sd": 0.1}
EPS_START, EPS_END, EPS_DECAY = 1.0, 0.1, 0.995


def main(arguments: Sequence[str]) -> int:
    """Train on the processes that Accelerate has started; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="gym:LunarLander-v3", metavar="gym:ID")
    parser.add_argument("--max_episodes", type=int, default=1000, help="turns of each member")
    parser.add_argument("--max_steps", type=int, default=500, help="steps of a turn")
    parser.add_argument("--evo_epochs", type=int, default=5, help="turns between two tournaments")
    flags = parser.parse_args(arguments)
    if min(flags.max_episodes, flags.max_steps, flags.evo_epochs) < 1:
        parser.error("--max_episodes, --max_steps and --evo_epochs must be at least 1")
    accelerator = make_accelerator()
    rank, count = accelerator.process_index, accelerator.num_processes
    env = make_vect_envs(flags.task.removeprefix("gym:"), NUM_ENVS, should_async_vector=False)
    env.reset(seed=1 + rank * NUM_ENVS)
    torch.manual_seed(1)  # all processes draw the same weights, then different actions
    spaces = env.single_observation_space, env.single_action_space
    made_with: dict[str, Any] = {"net_config": NETWORK, "hp_config": SELECTION, **INIT_HP}
    made_with |= {"num_envs": NUM_ENVS, "device": accelerator.device, "accelerator": accelerator}
    pop: list[Any] = DQN.population(POPULATION_SIZE, *spaces, **made_with)
    torch.manual_seed(1 + rank)
    memory = ReplayBuffer(MEMORY_SIZE, device=accelerator.device)
    dataset = ReplayDataset(memory, BATCH_SIZE)
    sampler = Sampler(dataset=dataset, dataloader=DataLoader(dataset, batch_size=None))
    tournament = TournamentSelection(2, True, POPULATION_SIZE, rand_seed=1)
    mutations = Mutations(**MUTATIONS, mutate_elite=False, rand_seed=1)
    accelerator.print(f"Training on {count} x {accelerator.device.type}")
    epsilon = EPS_START
    for episode in trange(1, flags.max_episodes + 1, disable=not accelerator.is_main_process):
        for agent in pop:
            train(agent, env, memory, sampler, flags.max_steps, epsilon)
        epsilon = max(EPS_END, epsilon * EPS_DECAY)
        if episode % flags.evo_epochs == 0:
            fitnesses = [agent.test(env, loop=1) for agent in pop]
            steps = episode * len(pop) * flags.max_steps * NUM_ENVS * count
            accelerator.print(f"\nEpisode {episode}/{flags.max_episodes}, {steps:,} steps")
            accelerator.print(f"Fitnesses: {[f'{fitness:.2f}' for fitness in fitnesses]}")
            averages = [f"{np.mean(agent.fitness[-100:]):.2f}" for agent in pop]
            accelerator.print(f"100 fitness averages: {averages}")
            pop = evolved(pop, tournament, mutations)
    accelerator.end_training()
    return 0


def train(
    agent: Any, env: Any, memory: ReplayBuffer, sampler: Sampler, max_steps: int, epsilon: float
) -> None:
    """Have a member act in all environments for a turn, and learn after each step."""
    obs, _ = env.reset()
    for _ in range(max_steps):
        action = agent.get_action(obs, epsilon)
        following, reward, terminated, _, _ = env.step(action)
        memory.add(Transition(obs, action, reward, following, terminated))
        if len(memory) >= agent.batch_size:
            agent.learn(sampler.sample(agent.batch_size))
        obs = following


if __name__ == "__main__":
    raise SystemExit(guarded(main, sys.argv[1:]))
