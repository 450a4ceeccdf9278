"""Agent configuration for DD-PPO (``agent.*``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from envlab.agent_cfg import BasicAgentCfg, Precision
from envlab.config import NonNegativeFloat, PositiveFloat, PositiveInt, Range, UnitInterval
from envlab.training.flags import Flags


@dataclass(kw_only=True)
class ModelCfg:
    """The network (``agent.model.*``)."""

    encoder: Literal["simple", "resnet18"] = "simple"
    """Encoder of images: ``simple``, three convolutions, Habitat's and AllenAct's SimpleCNN; or
    ``resnet18``, with 32 planes and group normalisation if it is trained."""
    channels: list[PositiveInt] = field(default_factory=lambda: [32, 64, 32])
    """Output channels of the three convolutions of ``simple``."""
    pretrained: str | None = None
    """File with torchvision's weights for ``resnet18``, which are then frozen: each image goes
    through it once. It sees colour images only."""
    max_depth_m: PositiveFloat = 10.0
    """Depth that is scaled to 1; larger depths are clipped to it. Habitat's."""
    image_dim: PositiveInt | None = None
    """Size of an image's features; null: ``hidden_dim``."""
    vector_dims: list[PositiveInt] | None = None
    """Layers for vectors and the last action; null: [32] with images, else [256, 128]."""
    memory: Literal["gru", "lstm", "none"] = "gru"
    """Kind of memory between steps."""
    hidden_dim: PositiveInt | None = None
    """Size of the memory; null: 512 with images, else 128."""
    sees_last_action: bool = True
    """Whether the last action is observed."""
    obs_normalization: bool = True
    """Whether vectors are normalised by their running mean and deviation, pooled over ranks."""
    init_std: Annotated[float, Range(above=0)] = 1.0
    """Initial deviation of real-valued actions."""


@dataclass(kw_only=True)
class AlgorithmCfg:
    """PPO (Schulman et al. 2017); the defaults are AllenAct's, except the values' loss."""

    clip_param: PositiveFloat = 0.1
    """Distance from 1 beyond which the ratio of probabilities is clipped."""
    value_loss_coef: NonNegativeFloat = 0.5
    entropy_coef: NonNegativeFloat = 0.01
    use_clipped_value_loss: bool = False
    """Whether values are kept within ``clip_param`` of the old ones: good if returns are about 1,
    and slow if they are larger."""
    num_learning_epochs: PositiveInt = 4
    """Passes over each rollout."""
    num_mini_batches: PositiveInt = 1
    """Minibatches of a rollout, by environments."""
    learning_rate: PositiveFloat = 3e-4
    """Adam's learning rate."""
    schedule: Literal["fixed", "linear"] = "fixed"
    """``linear``: the learning rate falls to 0 at the end of the run."""
    gamma: UnitInterval = 0.99
    lam: UnitInterval = 0.95
    """Lambda of generalised advantage estimation."""
    max_grad_norm: Annotated[float, Range(above=0)] = 0.5


@dataclass(kw_only=True)
class DdppoCfg(BasicAgentCfg):
    """Configuration of DD-PPO for a task; an experiment brings its own pipeline."""

    FLAGS: ClassVar[Mapping[str, str]] = {
        **BasicAgentCfg.FLAGS,
        "preemption_threshold": "preemption_threshold",
    }
    LEARNING_RATES: ClassVar[tuple[str, ...]] = ("algorithm.learning_rate",)

    num_steps_per_env: PositiveInt = 128
    """Steps of each environment in a rollout, if it is not cut short."""
    preemption_threshold: Annotated[float, Range(above=0, at_most=1)] = 1.0
    """Share of the ranks that must be done collecting before the others are stopped, of which at
    least one always continues; 1: never, so that the run can be repeated and resumed exactly."""
    precision: Precision = "auto"
    """Number format of convolutions and of the memory's products; ``auto``: bfloat16 if images
    are observed and all ranks' devices compute in it."""
    clip_actions: Annotated[float, Range(above=0)] | None = None
    """Bound of the real-valued actions that the environment gets."""
    plays_by_chance: bool = False
    """Whether a trained agent draws its actions when it plays, as in training; otherwise it takes
    the most probable one."""
    model: ModelCfg = field(default_factory=ModelCfg)
    """The network."""
    algorithm: AlgorithmCfg = field(default_factory=AlgorithmCfg)
    """The algorithm."""


def default_cfg(flags: Flags) -> DdppoCfg:
    """Return the configuration without a task's values: the same for all flags."""
    return DdppoCfg()
