"""A program like AgileRL's demos: its own loop, and a loop of AgileRL's for several agents."""

import sys

import numpy as np
from accelerate import Accelerator
from agilerl.algorithms import DQN
from agilerl.components.data import ReplayDataset, Transition
from agilerl.components.replay_buffer import MultiAgentReplayBuffer, ReplayBuffer
from agilerl.components.sampler import Sampler
from agilerl.hpo.mutation import Mutations
from agilerl.hpo.tournament import TournamentSelection
from agilerl.training.train_multi_agent_off_policy import train_multi_agent_off_policy
from agilerl.utils.utils import create_population, make_vect_envs
from agilerl.vector.pz_async_vec_env import AsyncPettingZooVecEnv
from torch.utils.data import DataLoader

from tests.populations.evolution.meeting import Meeting

NET = {"encoder_config": {"hidden_size": [16, 16]}}


def weights_of(pop):
    return [
        float(sum(p.double().sum() for p in agent.member.learner.policy.parameters()))
        for agent in pop
    ]


def train_dqn(accelerator, folder):
    hp = {"DOUBLE": True, "BATCH_SIZE": 16, "LR": 1e-3, "LEARN_STEP": 2, "POP_SIZE": 2}
    env = make_vect_envs("Acrobot-v0", num_envs=2)
    spaces = {"observation_space": env.single_observation_space}
    spaces["action_space"] = env.single_action_space
    sizes = {"population_size": hp["POP_SIZE"], "num_envs": 2, "accelerator": accelerator}
    pop: list[DQN] = create_population(algo="DQN", **spaces, net_config=NET, INIT_HP=hp, **sizes)
    memory = ReplayBuffer(max_size=500)
    dataset = ReplayDataset(memory, hp["BATCH_SIZE"])
    loader = accelerator.prepare(DataLoader(dataset, batch_size=None))
    sampler = Sampler(dataset=dataset, dataloader=loader)
    tournament = TournamentSelection(2, True, hp["POP_SIZE"])
    mutations = Mutations(architecture=1.0, no_mutation=0, parameters=0, rl_hp=0, rand_seed=1)
    weights: list[float] = []
    while np.less([agent.steps for agent in pop], 120).all():
        for agent in pop:
            obs, _ = env.reset()
            for _ in range(30):
                action = agent.get_action(obs, 0.2)
                following, reward, terminated, _, _ = env.step(action)
                step = Transition(obs, action, reward, following, terminated).to_tensordict()
                step.batch_size = [2]
                memory.add(step)
                if len(memory) >= agent.batch_size:
                    for _ in range(2 // agent.learn_step):
                        agent.learn(sampler.sample(agent.batch_size))
                obs = following
            agent.steps += 60
        fitness = [agent.test(env, max_steps=20, loop=1) for agent in pop]
        weights += weights_of(pop)
        accelerator.wait_for_everyone()
        if accelerator.is_main_process:
            _, pop, _ = tournament.select(pop)
            pop = mutations.mutation(pop)
            for place, agent in enumerate(pop):
                agent.save_checkpoint(f"{folder}/{place}.pt")
        accelerator.wait_for_everyone()
        if not accelerator.is_main_process:
            for place, agent in enumerate(pop):
                agent.load_checkpoint(f"{folder}/{place}.pt")
        accelerator.wait_for_everyone()
    rows = float(memory.sample(1000)["obs"].abs().sum())
    return weights + weights_of(pop), rows, fitness


def train_crews(accelerator):
    env = AsyncPettingZooVecEnv([Meeting, Meeting])
    seen = [env.single_observation_space(name) for name in env.agents]
    acted = [env.single_action_space(name) for name in env.agents]
    hp = {"BATCH_SIZE": 8, "LEARN_STEP": 2, "AGENT_IDS": env.agents}
    sizes = {"population_size": 2, "num_envs": 2, "accelerator": accelerator}
    pop = create_population("MADDPG", seen, acted, NET, hp, **sizes)
    memory = MultiAgentReplayBuffer(500)
    mutation = Mutations(architecture=1.0, no_mutation=0, parameters=0, rl_hp=0, rand_seed=1)
    named = {"tournament": TournamentSelection(2, True, 2), "mutation": mutation, "verbose": False}
    named |= {"max_steps": 80, "evo_steps": 40, "accelerator": accelerator}
    pop, fitness = train_multi_agent_off_policy(env, "meeting", "MADDPG", pop, memory, **named)
    rows = float(memory.sample(400)["reward"]["left"].mean())
    return weights_of(pop), rows, [round(f, 6) for row in fitness for f in row]


if __name__ == "__main__":
    accelerator = Accelerator()
    for weights, rows, fitness in (train_dqn(accelerator, sys.argv[1]), train_crews(accelerator)):
        print(f"rank {accelerator.process_index} weights {weights} saw {rows!r} {fitness}")
