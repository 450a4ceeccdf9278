# mypy: ignore-errors
"""PPO in two parts of a population, which evolve at different frequencies."""

from agilerl.algorithms import PPO
from agilerl.algorithms.core.registry import HyperparameterConfig, RLParameter
from agilerl.hpo.multi_frequency import MultiFrequencySelection
from agilerl.hpo.mutation import Mutations
from agilerl.training.train_on_policy import train_on_policy
from agilerl.utils.utils import make_vect_envs

if __name__ == "__main__":
    env = make_vect_envs("Pendulum-v1", num_envs=2)
    hp = {"batch_size": 16, "lr": 1e-3, "learn_step": 32, "update_epochs": 1, "num_envs": 2}
    pop = PPO.population(
        size=4,
        observation_space=env.single_observation_space,
        action_space=env.single_action_space,
        action_std_init=0.5,
        net_config={"head_config": {"hidden_size": [16]}},
        hp_config=HyperparameterConfig(lr=RLParameter(min=1e-4, max=1e-2)),
        **hp,
    )
    counts = {"n_winners": 1, "n_survivors": 0, "n_open_for_migration": 0, "n_losers": 1}
    selection = MultiFrequencySelection(
        population_size=4,
        n_subpopulations=2,
        evolution_frequency_ratios=[1, 2],
        seed=1,
        **counts,
    )
    numbers = {"max_steps": 128, "evo_steps": 64, "eval_steps": 20, "eval_loop": 1}
    pop, fitness = train_on_policy(
        env=env,
        env_name="Pendulum-v1",
        algo="PPO",
        pop=pop,
        selection_strategy=selection,
        mutation=Mutations(no_mutation=0.5, architecture=0, parameters=0, rl_hp=0.5, rand_seed=1),
        save_elite=True,
        elite_path="elite.pt",
        **numbers,
    )
    print("steps", [agent.steps for agent in pop], "fitness", fitness)
    print("again", PPO.load("elite.pt").learn_step)
