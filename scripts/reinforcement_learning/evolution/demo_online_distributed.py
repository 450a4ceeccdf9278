"""AgileRL's tutorial "Distributed training" on envlab, over Accelerate; see docs/evolve.md."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader
from tqdm import trange

from envlab.config import merge
from envlab.distributed.program import guarded
from envlab.registry import get_task, load_env_cfg
from envlab.skrl.env import final_values
from envlab_populations.evolution.accelerator import context_of, make_accelerator
from envlab_populations.evolution.cfg import BoundsCfg
from envlab_populations.evolution.member import Member
from envlab_populations.evolution.mutations import Mutations
from envlab_populations.evolution.population import make_population
from envlab_populations.evolution.replay import ReplayDataset, ReplayMemory, Sampler
from envlab_populations.evolution.tournament import TournamentSelection

POPULATION_SIZE, BATCH_SIZE, MEMORY_SIZE, NUM_ENVS = 4, 128, 10_000, 8
INIT_HP = {"batch_size": BATCH_SIZE, "learning_rate": 1e-3, "discount_factor": 0.99, "polyak": 1e-3}
NETWORK = {"hidden_dims": [32, 32]}
SELECTION = {"lr": BoundsCfg(min=1e-4, max=1e-2), "batch_size": BoundsCfg(min=8, max=1024)}
MUTATIONS: dict[str, Any] = {"no_mutation": 0.4, "architecture": 0.2, "new_layer_prob": 0.2}
MUTATIONS |= {"parameters": 0.2, "activation": 0, "rl_hp": 0.2, "mutation_sd": 0.1}
EPS_START, EPS_END, EPS_DECAY = 1.0, 0.1, 0.995


def main(arguments: Sequence[str]) -> int:
    """Train on the processes that Accelerate has started; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="gym:LunarLander-v3", metavar="ID")
    parser.add_argument("--max_episodes", type=int, default=1000, help="turns of each member")
    parser.add_argument("--max_steps", type=int, default=500, help="steps of a turn")
    parser.add_argument("--evo_epochs", type=int, default=5, help="turns between two tournaments")
    flags = parser.parse_args(arguments)
    if min(flags.max_episodes, flags.max_steps, flags.evo_epochs) < 1:
        parser.error("--max_episodes, --max_steps and --evo_epochs must be at least 1")
    accelerator = make_accelerator()
    task = get_task(flags.task)
    env_cfg = merge(load_env_cfg(task), {"scene": {"num_envs": NUM_ENVS}, "seed": 1}, "env")
    env, eval_env = (task.make(env_cfg, context=context_of(accelerator)) for _ in range(2))
    memory = ReplayMemory(MEMORY_SIZE, NUM_ENVS, accelerator.device, None)
    torch.manual_seed(1)  # all processes draw the same weights, then different actions
    genes: dict[str, Any] = {"network": NETWORK, "settings": INIT_HP, "rl_hp_selection": SELECTION}
    pop = make_population("ddqn", env, memory, population_size=POPULATION_SIZE, **genes)
    torch.manual_seed(1 + accelerator.process_index)
    dataset = ReplayDataset(memory, BATCH_SIZE, pop[0].agent._tensors_names)
    sampler = Sampler(dataset, DataLoader(dataset, batch_size=None))
    decided: dict[str, Any] = {"rand_seed": 1, "accelerator": accelerator}
    tournament = TournamentSelection(2, elitism=True, population_size=POPULATION_SIZE, **decided)
    mutations = Mutations(**MUTATIONS, rl_hp_selection=SELECTION, **decided)
    accelerator.print(f"Training on {accelerator.num_processes} x {accelerator.device.type}")
    epsilon, global_envs = EPS_START, NUM_ENVS * accelerator.num_processes
    for member in pop:
        member.prepare(accelerator)
    for episode in trange(1, flags.max_episodes + 1, disable=not accelerator.is_main_process):
        for member in pop:
            train(member, env, memory, sampler, flags.max_steps, epsilon)
        epsilon = max(EPS_END, epsilon * EPS_DECAY)
        if episode % flags.evo_epochs == 0:
            fitnesses = [member.test(eval_env, accelerator, seed=episode) for member in pop]
            steps = episode * len(pop) * flags.max_steps * global_envs
            accelerator.print(f"\nEpisode {episode}/{flags.max_episodes}, {steps:,} steps")
            accelerator.print(f"Fitnesses: {[f'{fitness:.2f}' for fitness in fitnesses]}")
            averages = [f"{np.mean(member.fitness[-100:]):.2f}" for member in pop]
            accelerator.print(f"100 fitness averages: {averages}")
            pop = evolve(pop, tournament, mutations, accelerator)
    accelerator.end_training()
    return 0


def train(
    member: Member, env: Any, memory: ReplayMemory, sampler: Sampler, max_steps: int, epsilon: float
) -> None:
    """Have a member act in all environments for a turn, and learn after each step."""
    agent, obs = member.agent, env.reset()[0]["policy"]
    for step in range(max_steps):
        action = agent.get_action(obs, epsilon)
        seen, reward, terminated, _, info = env.step(action)
        memory.add_samples(
            observations=obs,
            actions=action,
            rewards=reward[:, None],
            next_observations=final_values(seen, info)["policy"],
            terminated=terminated[:, None],
        )
        if step % agent.cfg.update_interval == 0 and len(memory) >= agent.cfg.batch_size:
            agent.learn(sampler.sample(agent.cfg.batch_size))
        obs = seen["policy"]


def evolve(
    pop: list[Member], tournament: TournamentSelection, mutations: Mutations, accelerator: Any
) -> list[Member]:
    """Return the next generation: the fittest, and mutated children of those who won."""
    for member in pop:
        member.release()
    accelerator.free_memory()  # or it keeps every model that it has ever prepared
    elite, pop = tournament.select(pop)
    pop = [elite, *mutations.mutation(pop[1:])]
    gc.collect()
    for member in pop:
        member.prepare(accelerator)
    return pop


if __name__ == "__main__":
    raise SystemExit(guarded(main, sys.argv[1:]))
