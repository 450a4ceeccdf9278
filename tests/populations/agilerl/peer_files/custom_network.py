# mypy: ignore-errors
"""DQN with a network of one's own, which becomes one that evolves."""

import numpy as np
import torch
from agilerl.components.data import Transition
from agilerl.components.replay_buffer import ReplayBuffer
from agilerl.hpo.mutation import Mutations
from agilerl.hpo.tournament import TournamentSelection
from agilerl.utils.utils import create_population, make_vect_envs
from agilerl.wrappers.make_evolvable import MakeEvolvable
from torch import nn


class Values(nn.Module):
    def __init__(self, size, choices):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(size, 20), nn.ELU(), nn.Linear(20, 12), nn.ELU(), nn.Linear(12, choices)
        )

    def forward(self, x):
        return self.body(x)


if __name__ == "__main__":
    env = make_vect_envs("CartPole-v1", num_envs=4)
    space = env.single_observation_space
    network = MakeEvolvable(
        Values(space.shape[0], int(env.single_action_space.n)),
        input_tensor=torch.ones(space.shape[0]),
    )
    pop = create_population(
        algo="DQN",
        observation_space=space,
        action_space=env.single_action_space,
        net_config=None,
        INIT_HP={"DOUBLE": False, "BATCH_SIZE": 16, "LR": 1e-3, "LEARN_STEP": 2},
        actor_network=network,
        population_size=2,
        num_envs=4,
    )
    print("networks", [str(agent.member.genes.architecture) for agent in pop])
    memory = ReplayBuffer(max_size=500)
    tournament = TournamentSelection(2, True, 2)
    mutations = Mutations(no_mutation=1.0, architecture=0, parameters=0, rl_hp=0, rand_seed=1)
    all_fitness, epsilon = [], 1.0
    while np.less([agent.steps for agent in pop], 160).all():
        for agent in pop:
            obs, _ = env.reset()
            for _ in range(20):
                action = agent.get_action(obs, epsilon)
                epsilon = max(0.1, epsilon * 0.97)
                following, reward, terminated, truncated, _ = env.step(action)
                step = Transition(obs, action, reward, following, terminated).to_tensordict()
                step.batch_size = [4]
                memory.add(step)
                if len(memory) >= agent.batch_size:
                    agent.learn(memory.sample(agent.batch_size))
                obs = following
            agent.steps += 80
        all_fitness.append([agent.test(env, max_steps=20, loop=1) for agent in pop])
        elite, pop = tournament.select(pop)
        pop = mutations.mutation(pop)
    print("steps", [agent.steps for agent in pop], "fitness", all_fitness)
