"""A program of several agents that hands its population to a loop of AgileRL's."""

from accelerate import Accelerator
from agilerl.components.replay_buffer import MultiAgentReplayBuffer
from agilerl.hpo.mutation import Mutations
from agilerl.hpo.tournament import TournamentSelection
from agilerl.training.train_multi_agent_off_policy import train_multi_agent_off_policy
from agilerl.utils.utils import create_population
from agilerl.vector.pz_async_vec_env import AsyncPettingZooVecEnv

from tests.populations.evolution.meeting import Meeting

if __name__ == "__main__":
    accelerator = Accelerator()
    env = AsyncPettingZooVecEnv([Meeting, Meeting])
    pop = create_population(
        "MADDPG",
        [env.single_observation_space(name) for name in env.agents],
        [env.single_action_space(name) for name in env.agents],
        {"encoder_config": {"hidden_size": [16, 16]}},
        {"BATCH_SIZE": 8, "LEARN_STEP": 2, "AGENT_IDS": env.agents},
        population_size=2,
        num_envs=2,
        accelerator=accelerator,
    )
    memory = MultiAgentReplayBuffer(500)
    pop, fitness = train_multi_agent_off_policy(
        env,
        "meeting",
        "MADDPG",
        pop,
        memory,
        max_steps=80,
        evo_steps=40,
        tournament=TournamentSelection(2, True, 2),
        mutation=Mutations(architecture=1.0, no_mutation=0, parameters=0, rl_hp=0, rand_seed=1),
        accelerator=accelerator,
        verbose=False,
    )
    weights = [
        float(sum(p.double().sum() for p in agent.member.policy.parameters())) for agent in pop
    ]
    saw = float(memory.sample(400)["reward"]["left"].mean())
    print(f"weights {weights} saw {saw} fitness {[round(f, 6) for row in fitness for f in row]}")
