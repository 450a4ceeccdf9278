# mypy: ignore-errors
"""A2C in MiniGrid, by a network without memory."""

from allenact.algorithms.onpolicy_sync.losses.a2cacktr import A2C, A2CConfig
from allenact.utils.experiment_utils import PipelineStage
from allenact_plugins.minigrid_plugin.minigrid_models import MiniGridSimpleConv
from rooms import Rooms


class RoomA2C(Rooms):
    SENSORS = [Rooms.IMAGE]

    @classmethod
    def create_model(cls, **kwargs):
        return super().create_model(MiniGridSimpleConv)

    @classmethod
    def training_pipeline(cls, **kwargs):
        return cls.pipeline(
            {"a2c": A2C(**A2CConfig)}, [PipelineStage(loss_names=["a2c"], max_stage_steps=256)]
        )
