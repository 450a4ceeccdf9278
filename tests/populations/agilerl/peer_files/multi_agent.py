# mypy: ignore-errors
"""MATD3 with a loop of its own over parallel environments of two agents."""

import numpy as np
from agilerl.components.data import MultiAgentTransition
from agilerl.components.multi_agent_replay_buffer import MultiAgentReplayBuffer
from agilerl.hpo.mutation import Mutations
from agilerl.hpo.tournament import TournamentSelection
from agilerl.utils.utils import create_population
from agilerl.vector.pz_async_vec_env import AsyncPettingZooVecEnv

from tests.populations.evolution.meeting import Meeting

if __name__ == "__main__":
    env = AsyncPettingZooVecEnv([Meeting for _ in range(2)])
    env.reset()
    pop = create_population(
        algo="MATD3",
        observation_space=[env.single_observation_space(name) for name in env.agents],
        action_space=[env.single_action_space(name) for name in env.agents],
        net_config={"encoder_config": {"hidden_size": [16]}, "head_config": {"hidden_size": [16]}},
        INIT_HP={"BATCH_SIZE": 8, "LR_ACTOR": 1e-3, "LR_CRITIC": 1e-2, "AGENT_IDS": env.agents},
        population_size=2,
        num_envs=2,
    )
    memory = MultiAgentReplayBuffer(500)
    tournament = TournamentSelection(2, True, 2)
    mutations = Mutations(no_mutation=0, architecture=0, parameters=1.0, rl_hp=0, rand_seed=1)
    all_fitness = []
    while np.less([agent.steps for agent in pop], 80).all():
        for agent in pop:
            obs, info = env.reset()
            for _ in range(20):
                action, raw_action = agent.get_action(obs, infos=info)
                following, reward, terminated, truncated, info = env.step(action)
                memory.add(MultiAgentTransition(obs, raw_action, reward, following, terminated))
                if len(memory) >= agent.batch_size:
                    agent.learn(memory.sample(agent.batch_size))
                obs = following
            agent.steps += 40
        all_fitness.append([agent.test(env, max_steps=10, loop=1) for agent in pop])
        elite, pop = tournament.select(pop)
        pop = mutations.mutation(pop)
    env.close()
    print("steps", [agent.steps for agent in pop], "fitness", all_fitness)
