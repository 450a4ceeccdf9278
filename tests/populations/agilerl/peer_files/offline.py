# mypy: ignore-errors
"""CQN from a data set that is made here: a pole pushed at random."""

import gymnasium
import numpy as np
from agilerl.algorithms import CQN
from agilerl.components.replay_buffer import ReplayBuffer
from agilerl.hpo.mutation import Mutations
from agilerl.hpo.tournament import TournamentSelection
from agilerl.training.train_offline import train_offline
from agilerl.utils.utils import create_population, make_vect_envs


def pushed_at_random(count):
    env = gymnasium.make("CartPole-v1")
    env.action_space.seed(0)
    rows = {"observations": [], "actions": [], "rewards": [], "terminals": []}
    obs, _ = env.reset(seed=0)
    for _ in range(count):
        action = env.action_space.sample()
        following, reward, terminated, truncated, _ = env.step(action)
        for name, value in zip(rows, (obs, action, reward, terminated), strict=True):
            rows[name].append(value)
        obs = env.reset()[0] if terminated or truncated else following
    return {name: np.array(values) for name, values in rows.items()}


if __name__ == "__main__":
    env = make_vect_envs("CartPole-v1", num_envs=1)
    pop: list[CQN] = create_population(
        algo="CQN",
        observation_space=env.single_observation_space,
        action_space=env.single_action_space,
        net_config={"encoder_config": {"hidden_size": [16]}},
        INIT_HP={"DOUBLE": True, "BATCH_SIZE": 16, "LR": 1e-3, "LEARN_STEP": 1, "TAU": 1e-2},
        population_size=2,
    )
    pop, fitness = train_offline(
        env,
        "CartPole-v1",
        pushed_at_random(200),
        "CQN",
        pop,
        ReplayBuffer(max_size=500),
        max_steps=80,
        evo_steps=40,
        eval_steps=20,
        eval_loop=1,
        tournament=TournamentSelection(2, True, 2),
        mutation=Mutations(no_mutation=1.0, architecture=0, parameters=0, rl_hp=0, rand_seed=1),
    )
    print("steps", [agent.steps for agent in pop], "fitness", fitness)
