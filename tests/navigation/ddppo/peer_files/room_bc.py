# mypy: ignore-errors
"""Behaviour cloning: the expert acts all the time."""

from allenact.algorithms.onpolicy_sync.losses.imitation import Imitation
from allenact.utils.experiment_utils import LinearDecay, PipelineStage
from rooms import Rooms


class RoomBC(Rooms):
    @classmethod
    def training_pipeline(cls, **kwargs):
        stage = PipelineStage(
            loss_names=["imitation"],
            max_stage_steps=512,
            teacher_forcing=LinearDecay(startp=1.0, endp=1.0, steps=512),
        )
        return cls.pipeline({"imitation": Imitation()}, [stage])
