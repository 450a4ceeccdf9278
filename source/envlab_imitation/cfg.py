"""Configuration of behaviour cloning (``agent.*``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from envlab.agent_cfg import BasicAgentCfg
from envlab.config import (
    LayerSize,
    NonNegativeFloat,
    NonNegativeInt,
    NotEmpty,
    PositiveFloat,
    PositiveInt,
    Range,
)
from envlab.training.flags import Flags


def _convolutions() -> dict[str, Any]:
    return {"output_channels": [16, 32], "kernel_size": [5, 3], "stride": [2, 2]}


@dataclass(kw_only=True)
class PolicyCfg:
    """A network on normalised vectors and images, with a mixture of Gaussians over actions."""

    hidden_dims: Annotated[list[LayerSize], NotEmpty()] = field(default_factory=lambda: [256, 256])
    """Sizes of the hidden layers."""
    activation: str = "elu"
    """Activation function, by rsl_rl's names."""
    num_modes: PositiveInt = 5
    """Gaussians of the mixture; the policy acts by the mean of the most probable one."""
    min_std: PositiveFloat = 0.05
    """Least deviation of a Gaussian, in deviations of the demonstrations' actions."""
    cnn_cfg: dict[str, Any] = field(default_factory=_convolutions)
    """Convolutions for each group of images, rsl_rl's settings; a spatial softmax follows."""


@dataclass(kw_only=True)
class BcCfg(BasicAgentCfg):
    """Behaviour cloning. An iteration is a number of gradient steps, and sometimes a rollout."""

    FLAGS: ClassVar[Mapping[str, str]] = {**BasicAgentCfg.FLAGS, "dataset": "dataset"}
    LEARNING_RATES: ClassVar[tuple[str, ...]] = ("learning_rate",)
    ENVS_PER_CORE: ClassVar[int] = 32

    dataset: str = ""
    """File of demonstrations, ``--dataset``."""
    succeeded_only: bool = True
    """Whether to learn only from those that succeeded."""
    num_demonstrations: PositiveInt | None = None
    """How many of these to learn from, the first ones; null: all."""
    obs_groups: list[str] = field(default_factory=lambda: ["policy"])
    """Groups of observations, vectors or images."""
    policy: PolicyCfg = field(default_factory=PolicyCfg)
    """The network."""
    batch_size: PositiveInt = 256
    """Steps in a batch, of all processes together."""
    gradient_steps: PositiveInt = 100
    """Gradient steps in an iteration."""
    learning_rate: PositiveFloat = 1e-3
    """Adam's, which falls to 0 over the training along a cosine."""
    weight_decay: NonNegativeFloat = 1e-4
    """Of AdamW."""
    max_grad_norm: Annotated[float, Range(above=0)] = 10.0
    """Largest norm of a gradient, by clipping."""
    rollout_interval: NonNegativeInt = 20
    """Iterations between rollouts: an episode of each environment, by which the best checkpoint
    is chosen; 0: none."""
    num_steps_per_env: PositiveInt = 1
    """Without effect: a rollout is as long as an episode."""
    max_iterations: PositiveInt = 100
    """Iterations in total, including those before a resume."""
    save_interval: PositiveInt = 20


def default_cfg(flags: Flags) -> BcCfg:
    """Return the configuration without a task's values, the same for all flags."""
    return BcCfg()
