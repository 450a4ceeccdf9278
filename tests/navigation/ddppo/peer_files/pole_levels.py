# mypy: ignore-errors
"""Actions of two levels: whether to follow the pole, and given that, which side is pushed."""

import gym
from allenact.algorithms.onpolicy_sync.losses.imitation import Imitation
from allenact.algorithms.onpolicy_sync.losses.ppo import PPO, PPOConfig
from allenact.algorithms.onpolicy_sync.policy import ActorCriticModel
from allenact.base_abstractions.distributions import (
    CategoricalDistr,
    ConditionalDistr,
    SequentialDistr,
)
from allenact.base_abstractions.misc import ActorCriticOutput
from allenact.base_abstractions.sensor import ExpertActionSensor, SensorSuite
from allenact.utils.experiment_utils import PipelineStage
from poles import Poles, PoleSensor, PoleTask
from torch import cat, nn

ACTIONS = gym.spaces.Dict(higher=gym.spaces.Discrete(2), lower=gym.spaces.Discrete(2))


class TwoLevels(ActorCriticModel):
    def __init__(self, observation_space):
        super().__init__(ACTIONS, observation_space)
        self.body = nn.Sequential(nn.Linear(4, 16), nn.Tanh())
        self.higher, self.value = nn.Linear(16, 2), nn.Linear(16, 1)
        self.known, self.lower = nn.Embedding(2, 4), nn.Linear(20, 2)

    def _recurrent_memory_specification(self):
        return None

    def forward(self, observations, memory, prev_actions, masks):
        x = self.body(observations["pole"])
        first = ConditionalDistr(
            distr_conditioned_on_input_fn_or_instance=CategoricalDistr(logits=self.higher(x)),
            action_group_name="higher",
        )
        second = ConditionalDistr(
            distr_conditioned_on_input_fn_or_instance=lambda higher, **_: CategoricalDistr(
                logits=self.lower(cat((x, self.known(higher)), -1))
            ),
            action_group_name="lower",
        )
        return ActorCriticOutput(SequentialDistr(first, second), self.value(x), {}), None


class LevelTask(PoleTask):
    @property
    def action_space(self):
        return ACTIONS

    def _step(self, action):
        return super()._step(int(action["lower"]))

    def query_expert(self, expert_sensor_group_name=None, **kwargs):
        action, is_known = super().query_expert()
        return (1 if expert_sensor_group_name == "higher" else action), is_known


class PoleLevels(Poles):
    SENSORS = [PoleSensor(), ExpertActionSensor(action_space=ACTIONS)]
    TASK = LevelTask

    @classmethod
    def create_model(cls, **kwargs):
        return TwoLevels(SensorSuite(cls.SENSORS).observation_spaces)

    @classmethod
    def training_pipeline(cls, **kwargs):
        ppo = PPO(entropy_method_name="conditional_entropy", **PPOConfig)
        return cls.pipeline(
            {"imitation": Imitation(cls.SENSORS[1]), "ppo": ppo},
            [PipelineStage(loss_names=["imitation", "ppo"], max_stage_steps=384)],
        )
