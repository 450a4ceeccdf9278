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
    """Of images: ``simple``, three convolutions, Habitat's and AllenAct's SimpleCNN; or
    ``resnet18``, with 32 planes and group normalisation where it is trained."""
    channels: list[PositiveInt] = field(default_factory=lambda: [32, 64, 32])
    """Of the three convolutions of ``simple``."""
    pretrained: str | None = None
    """File with torchvision's weights for ``resnet18``, which then stay as they are: each image
    goes through it once. It sees colour images only."""
    max_depth_m: PositiveFloat = 10.0
    """What a depth of 1 stands for; what is farther looks as far. Habitat's."""
    image_dim: PositiveInt | None = None
    """Size of what an image becomes; null: ``hidden_dim``."""
    vector_dims: list[PositiveInt] | None = None
    """Layers for vectors and the last action; null: [32] beside images, else [256, 128]."""
    memory: Literal["gru", "lstm", "none"] = "gru"
    """What is remembered between steps."""
    hidden_dim: PositiveInt | None = None
    """Size of the memory; null: 512 beside images, else 128."""
    sees_last_action: bool = True
    """Whether the last action is observed."""
    obs_normalization: bool = True
    """Whether vectors are normalised by their running mean and deviation, pooled over ranks."""
    init_std: Annotated[float, Range(above=0)] = 1.0
    """Deviation of real-valued actions at first."""


@dataclass(kw_only=True)
class AlgorithmCfg:
    """PPO (Schulman et al. 2017); the defaults are AllenAct's, but for the values' loss."""

    clip_param: PositiveFloat = 0.1
    """How far the ratio of probabilities may leave 1 before it earns no more."""
    value_loss_coef: NonNegativeFloat = 0.5
    entropy_coef: NonNegativeFloat = 0.01
    use_clipped_value_loss: bool = False
    """Whether values are kept within ``clip_param`` of the old ones: right where returns are about
    1, and slow where they are larger."""
    num_learning_epochs: PositiveInt = 4
    """How often each rollout is learned from."""
    num_mini_batches: PositiveInt = 1
    """Minibatches of a rollout, by environments."""
    learning_rate: PositiveFloat = 3e-4
    """Of Adam."""
    schedule: Literal["fixed", "linear"] = "fixed"
    """``linear``: the learning rate falls to 0 at the end of the run."""
    gamma: UnitInterval = 0.99
    lam: UnitInterval = 0.95
    """Lambda of generalised advantage estimation."""
    max_grad_norm: Annotated[float, Range(above=0)] = 0.5


@dataclass(kw_only=True)
class DdppoCfg(BasicAgentCfg):
    """Configuration of DD-PPO for a task; an experiment brings a pipeline of its own."""

    FLAGS: ClassVar[Mapping[str, str]] = {
        **BasicAgentCfg.FLAGS,
        "preemption_threshold": "preemption_threshold",
    }
    LEARNING_RATES: ClassVar[tuple[str, ...]] = ("algorithm.learning_rate",)

    num_steps_per_env: PositiveInt = 128
    """Steps of each environment in a rollout, if it is not cut short."""
    preemption_threshold: Annotated[float, Range(above=0, at_most=1)] = 1.0
    """Share of the ranks that must be done collecting before the others are stopped, at least one
    of them always going on; 1: never, so that the run can be repeated and resumed exactly."""
    precision: Precision = "auto"
    """What convolutions and the memory's products are computed in; ``auto``: bfloat16 where images
    are observed and all ranks' devices compute in it."""
    clip_actions: Annotated[float, Range(above=0)] | None = None
    """Bound of the real-valued actions that the environment gets."""
    plays_by_chance: bool = False
    """Whether a trained agent draws its actions when it plays, as in training; otherwise it takes
    the most probable one."""
    model: ModelCfg = field(default_factory=ModelCfg)
    """The network."""
    algorithm: AlgorithmCfg = field(default_factory=AlgorithmCfg)
    """What it learns by."""


def default_cfg(flags: Flags) -> DdppoCfg:
    """Return the configuration without a task's values: the same, whatever the flags."""
    return DdppoCfg()
