# mypy: ignore-errors
"""TD3 on a pendulum, by AgileRL's loop, with numbers that evolve."""

from agilerl.algorithms import TD3
from agilerl.algorithms.core.registry import HyperparameterConfig, RLParameter
from agilerl.components.replay_buffer import ReplayBuffer
from agilerl.hpo.mutation import Mutations
from agilerl.hpo.tournament import TournamentSelection
from agilerl.training.train_off_policy import train_off_policy
from agilerl.utils.utils import create_population, make_vect_envs

if __name__ == "__main__":
    env = make_vect_envs("Pendulum-v1", num_envs=2)
    hp = {"BATCH_SIZE": 16, "LR_ACTOR": 1e-3, "LR_CRITIC": 2e-3, "LEARN_STEP": 2, "POLICY_FREQ": 2}
    pop: list[TD3] = create_population(
        algo="TD3",
        observation_space=env.single_observation_space,
        action_space=env.single_action_space,
        net_config={"encoder_config": {"hidden_size": [24]}, "head_config": {"hidden_size": [16]}},
        INIT_HP=hp,
        hp_config=HyperparameterConfig(lr_actor=RLParameter(min=1e-4, max=1e-2)),
        population_size=2,
        num_envs=2,
    )
    pop, fitness = train_off_policy(
        env,
        "Pendulum-v1",
        "TD3",
        pop,
        ReplayBuffer(max_size=500),
        max_steps=120,
        evo_steps=60,
        eval_steps=20,
        tournament=TournamentSelection(2, True, 2),
        mutation=Mutations(
            no_mutation=0, architecture=0, parameters=0, activation=0, rl_hp=1.0, rand_seed=1
        ),
        wb=False,
    )
    print("steps", [agent.steps for agent in pop], "fitness", fitness)
    print("rates", [agent.lr_actor for agent in pop])
