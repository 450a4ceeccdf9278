# mypy: ignore-errors
"""An expert who names a group of actions: here a side, or that both will do."""

import gym
import numpy as np
from allenact.algorithms.onpolicy_sync.losses.grouped_action_imitation import GroupedActionImitation
from allenact.base_abstractions.sensor import Sensor
from allenact.utils.experiment_utils import PipelineStage
from poles import Poles, PoleSensor


class SideSensor(Sensor):
    def __init__(self):
        super().__init__("expert_group_action", gym.spaces.Discrete(3))

    def get_observation(self, env, task, *args, **kwargs):
        lean = task.seen[2] + task.seen[3]
        return np.array(2 if abs(lean) < 0.02 else int(lean > 0))


class PoleGroups(Poles):
    SENSORS = [PoleSensor(), SideSensor()]

    @classmethod
    def training_pipeline(cls, **kwargs):
        return cls.pipeline(
            {"groups": GroupedActionImitation(nactions=2, action_groups=[{0}, {1}])},
            [PipelineStage(loss_names=["groups"], max_stage_steps=384)],
        )
