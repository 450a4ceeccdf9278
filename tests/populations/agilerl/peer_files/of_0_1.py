# mypy: ignore-errors
"""As programs for AgileRL 0.1 are: dimensions in place of spaces, and a memory of fields."""

import numpy as np
from agilerl.components.replay_buffer import ReplayBuffer
from agilerl.hpo.mutation import Mutations
from agilerl.hpo.tournament import TournamentSelection
from agilerl.utils.utils import initialPopulation, makeVectEnvs

if __name__ == "__main__":
    env = makeVectEnvs("CartPole-v1", num_envs=2)
    hp = {"DOUBLE": True, "BATCH_SIZE": 16, "LR": 1e-3, "GAMMA": 0.99, "LEARN_STEP": 2, "TAU": 1e-2}
    sizes = {"population_size": 2, "num_envs": 2}
    pop = initialPopulation(
        algo="DQN",
        state_dim=env.single_observation_space.shape,
        action_dim=int(env.single_action_space.n),
        one_hot=False,
        net_config={"arch": "mlp", "h_size": [16, 16]},
        INIT_HP=hp,
        **sizes,
    )
    fields = ["state", "action", "reward", "next_state", "done"]
    actions = int(env.single_action_space.n)
    memory = ReplayBuffer(action_dim=actions, memory_size=500, field_names=fields)
    tournament = TournamentSelection(2, True, 2, 1)
    odds = {"no_mutation": 0.5, "architecture": 0.5, "parameters": 0, "activation": 0, "rl_hp": 0}
    mutations = Mutations(
        algo="DQN",
        new_layer_prob=0.5,
        rl_hp_selection=["lr", "batch_size"],
        mutation_sd=0.1,
        arch="mlp",
        rand_seed=1,
        **odds,
    )
    all_fitness = []
    for _ in range(2):
        for agent in pop:
            state = env.reset()[0]
            for _ in range(30):
                action = agent.getAction(state, 0.3)
                next_state, reward, done, _, _ = env.step(action)
                memory.save2memoryVectEnvs(state, action, reward, next_state, done)
                if len(memory) >= agent.batch_size:
                    agent.learn(memory.sample(agent.batch_size))
                state = next_state
            agent.steps[-1] += 60
        all_fitness.append([agent.test(env, max_steps=20, loop=1) for agent in pop])
        elite, pop = tournament.select(pop)
        pop = mutations.mutation(pop)
    print("steps", [agent.steps[-1] for agent in pop], "fitness", all_fitness)
    print("finite", bool(np.isfinite(all_fitness).all()))
