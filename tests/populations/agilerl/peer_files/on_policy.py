# mypy: ignore-errors
"""PPO with a loop of its own around rollouts, tournament and mutations."""

import numpy as np
from agilerl.algorithms import PPO
from agilerl.hpo.mutation import Mutations
from agilerl.hpo.tournament import TournamentSelection
from agilerl.rollouts.on_policy import collect_rollouts
from agilerl.utils.utils import create_population, default_progress_bar, make_vect_envs

if __name__ == "__main__":
    env = make_vect_envs("CartPole-v1", num_envs=2)
    hp = {"BATCH_SIZE": 16, "LR": 1e-3, "LEARN_STEP": 32, "GAE_LAMBDA": 0.9, "UPDATE_EPOCHS": 2}
    pop: list[PPO] = create_population(
        algo="PPO",
        observation_space=env.single_observation_space,
        action_space=env.single_action_space,
        net_config={"encoder_config": {"hidden_size": [16, 16]}},
        INIT_HP=hp,
        population_size=2,
        num_envs=2,
    )
    tournament = TournamentSelection(tournament_size=2, elitism=True, population_size=2)
    mutations = Mutations(
        no_mutation=0, architecture=1.0, new_layer_prob=1.0, parameters=0, rl_hp=0, rand_seed=2
    )
    bar = default_progress_bar(128)
    all_fitness = []
    while np.less([agent.steps for agent in pop], 128).all():
        for agent in pop:
            last = (None, None, None, None)
            for _ in range(2):
                scores, *last = collect_rollouts(agent, env, None, *last)
                agent.learn()
                agent.steps += agent.learn_step
                bar.update(agent.learn_step)
        all_fitness.append([agent.test(env, max_steps=30, loop=1) for agent in pop])
        elite, pop = tournament.select(pop)
        pop = mutations.mutation(pop)
    bar.close()
    env.close()
    print("steps", [agent.steps for agent in pop], "fitness", all_fitness)
    print("networks", [str(agent.member.genes.architecture) for agent in pop])
