# mypy: ignore-errors
"""A skill that pays for staying in the middle, learned by DQN."""

from agilerl.components.replay_buffer import ReplayBuffer
from agilerl.hpo.mutation import Mutations
from agilerl.hpo.tournament import TournamentSelection
from agilerl.training.train_off_policy import train_off_policy
from agilerl.utils.utils import create_population, make_skill_vect_envs
from agilerl.wrappers.learning import Skill


class Centred(Skill):
    def skill_reward(self, observation, reward, terminated, truncated, info):
        return observation, 0.1 - abs(float(observation[0])), terminated, truncated, info


if __name__ == "__main__":
    env = make_skill_vect_envs("CartPole-v1", Centred, num_envs=2)
    pop = create_population(
        algo="DQN",
        observation_space=env.single_observation_space,
        action_space=env.single_action_space,
        net_config={"encoder_config": {"hidden_size": [16]}},
        INIT_HP={"BATCH_SIZE": 16, "LR": 1e-3, "LEARN_STEP": 4},
        population_size=2,
        num_envs=2,
    )
    pop, fitness = train_off_policy(
        env,
        "CartPole-v1",
        "DQN",
        pop,
        ReplayBuffer(max_size=500),
        max_steps=80,
        evo_steps=40,
        eval_steps=10,
        tournament=TournamentSelection(2, True, 2),
        mutation=Mutations(no_mutation=1.0, architecture=0, parameters=0, rl_hp=0, rand_seed=1),
    )
    print("steps", [agent.steps for agent in pop], "fitness", fitness)
