"""ObjectNav on one to many nodes: AllenAct's tutorial for several nodes, in envlab's names.

    envlab train ddppo source/projects/tutorials/distributed_objectnav_tutorial.py
        --config_kwargs '{"distributed_nodes": 1}' --max_frames=2e6

More nodes collect more per rollout. At first, small batches learn faster, so the first stage learns
from each rollout in more pieces; then the learning rate rises with the root of the number of nodes.
"""

import math

from torch import optim
from torch.optim.lr_scheduler import LambdaLR

from envlab_navigation.ddppo.experiment import ExperimentConfig
from envlab_navigation.ddppo.losses import PPO
from envlab_navigation.ddppo.pipeline import PipelineStage, TrainingPipeline
from envlab_navigation.ddppo.schedules import Builder, LinearDecay, MultiLinearDecay


class DistributedObjectNav(ExperimentConfig):
    """Two stages on as many nodes as in ``distributed_nodes``, with 300 M steps in total."""

    TASK = "Nav-ObjectNav-Depth-v0"

    def __init__(self, distributed_nodes: int = 1, ppo_steps: float = 300e6) -> None:
        self.distributed_nodes = distributed_nodes
        self.ppo_steps = int(ppo_steps)
        self.small_batch_steps = self.ppo_steps // 10

    def tag(self) -> str:
        return "DistributedObjectNav"

    def overrides(self, mode: str) -> list[str]:
        # A failed End costs a little, otherwise a bold learner stops using it.
        return ["env.rewards.failed_end=-0.1"] if mode == "train" else []

    def learning_rate(self) -> MultiLinearDecay:
        """Return the factor of the learning rate by the steps of all nodes."""
        safe_small_batch_steps = int(self.small_batch_steps * 1.02)
        # The optimizer adapts its statistics to the larger learning rate meanwhile.
        transition_steps = max(1, int(self.ppo_steps / 450 * self.distributed_nodes))
        both = safe_small_batch_steps + transition_steps
        before = 1.0 - safe_small_batch_steps / self.ppo_steps
        after = math.sqrt(self.distributed_nodes) * (1.0 - both / self.ppo_steps)
        return MultiLinearDecay(
            [
                LinearDecay(steps=safe_small_batch_steps, startp=1.0, endp=before),
                LinearDecay(steps=transition_steps, startp=before, endp=after),
                LinearDecay(steps=self.ppo_steps - both, startp=after, endp=0.0),
            ]
        )

    def training_pipeline(self, **kwargs: object) -> TrainingPipeline:
        return TrainingPipeline(
            named_losses={"ppo": PPO(clip_param=0.1, use_clipped_value_loss=False)},
            optimizer_builder=Builder(optim.Adam, {"lr": 3e-4, "eps": 1e-5}),
            lr_scheduler_builder=Builder(LambdaLR, {"lr_lambda": self.learning_rate()}),
            num_steps=128,
            num_mini_batch=1,
            update_repeats=4,
            gamma=0.99,
            gae_lambda=0.95,
            max_grad_norm=0.5,
            save_interval=self.ppo_steps // 60,
            pipeline_stages=[
                PipelineStage(
                    loss_names=["ppo"],
                    max_stage_steps=self.small_batch_steps,
                    num_mini_batch=self.distributed_nodes,
                ),
                PipelineStage(
                    loss_names=["ppo"], max_stage_steps=self.ppo_steps - self.small_batch_steps
                ),
            ],
        )
