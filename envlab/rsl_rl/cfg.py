"""Agent configurations for rsl_rl (``agent.*``): rsl_rl 5's own names and defaults, with types.

:class:`RslRlCfg` is for PPO, :class:`DistillationCfg` for a student that imitates a teacher.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, Self

from envlab.agent_cfg import BasicAgentCfg, Precision, refuse_schedule
from envlab.config import (
    NonNegativeFloat,
    NonNegativeInt,
    NotEmpty,
    PositiveFloat,
    PositiveInt,
    Range,
    UnitInterval,
    leaves,
    merge,
)
from envlab.config.translator import NoEffect, Rows, Translator
from envlab.training.flags import Flags

logger = logging.getLogger(__name__)

LayerSize = Annotated[int, Range(above=0, at_most=2**15, also=-1)]

DISTILLATION = "Distillation"
"""``agent.algorithm.class_name`` of a student that imitates a teacher."""

_OF_THE_SCRIPT = NoEffect("a flag of train or play says it")
_OLDER = NoEffect("rsl_rl 5 has actor, critic and their distribution_cfg in its place")
OF_ISAAC_LAB: Rows = {
    **dict.fromkeys(("class_name", "device", "resume", "load_run"), _OF_THE_SCRIPT),
    **dict.fromkeys(("load_checkpoint", "neptune_project", "wandb_project"), _OF_THE_SCRIPT),
    **dict.fromkeys(("policy", "empirical_normalization", "*.stochastic"), _OLDER),
    **dict.fromkeys(("*.init_noise_std", "*.noise_std_type", "*.state_dependent_std"), _OLDER),
}
"""Fields of Isaac Lab 3's configuration classes that rsl_rl 5 does not read: settings of its
script, and older names, which are missing or have their defaults."""


def _gaussian(init_std: float) -> dict[str, Any]:
    return {"class_name": "GaussianDistribution", "init_std": init_std, "std_type": "scalar"}


@dataclass(kw_only=True)
class ModelCfg:
    """A network; rsl_rl's model class decides fields that are null."""

    class_name: str = "MLPModel"
    """``MLPModel``, ``RNNModel``, ``CNNModel``, or ``module:Class``."""
    hidden_dims: Annotated[list[LayerSize], NotEmpty()] = field(
        default_factory=lambda: [256, 256, 256]
    )
    """Sizes of the hidden layers; -1: that of the input."""
    activation: str = "elu"
    """Activation function."""
    obs_normalization: bool = False
    """Whether to normalise observations by their running mean and deviation, pooled over ranks."""
    distribution_cfg: dict[str, Any] | None = None
    """Action distribution; the actor needs one."""
    rnn_type: Literal["lstm", "gru"] | None = None
    """Recurrent cell of an ``RNNModel``."""
    rnn_hidden_dim: PositiveInt | None = None
    """Size of the cell's state."""
    rnn_num_layers: PositiveInt | None = None
    """Number of recurrent layers."""
    cnn_cfg: dict[str, Any] | None = None
    """Convolutions of a ``CNNModel``."""


@dataclass(kw_only=True)
class AlgorithmCfg:
    """PPO (Schulman et al. 2017), as implemented in rsl_rl."""

    class_name: str = "PPO"
    """``PPO``; with ``Distillation``, a task's file is a :class:`DistillationCfg`."""
    critic_warmup: NonNegativeInt = 0
    """Number of first iterations in which only the critic learns, to fine-tune a student."""
    num_learning_epochs: PositiveInt = 5
    num_mini_batches: PositiveInt = 4
    clip_param: PositiveFloat = 0.2
    gamma: UnitInterval = 0.99
    lam: UnitInterval = 0.95
    value_loss_coef: NonNegativeFloat = 1.0
    entropy_coef: NonNegativeFloat = 0.01
    learning_rate: PositiveFloat = 1e-3
    max_grad_norm: Annotated[float, Range(above=0)] = 1.0
    optimizer: Literal["adam", "adamw", "sgd", "rmsprop"] = "adam"
    use_clipped_value_loss: bool = True
    schedule: Literal["adaptive", "fixed"] = "adaptive"
    desired_kl: NonNegativeFloat = 0.01
    normalize_advantage_per_mini_batch: bool = False
    use_mixed_precision: bool = False
    """bfloat16 forward passes."""
    rnd_cfg: dict[str, Any] | None = None
    """Random network distillation."""
    symmetry_cfg: dict[str, Any] | None = None
    """Symmetry: ``use_data_augmentation``, ``use_mirror_loss``, ``mirror_loss_coeff``, and
    optionally ``data_augmentation_func``, by default the robot's mirror
    (:mod:`envlab.envs.mirror`)."""
    share_cnn_encoders: bool = False
    grad_reduce_bucket_mb: PositiveFloat = 25.0
    """Bucket size of the library's own gradient reduction, in MB."""


@dataclass(kw_only=True)
class DistillationAlgorithmCfg:
    """Imitation of a teacher in states that the student visits, as implemented in rsl_rl."""

    class_name: str = DISTILLATION
    """Only ``Distillation``."""
    num_learning_epochs: PositiveInt = 1
    """Passes over a rollout."""
    gradient_length: PositiveInt = 15
    """Steps over which a gradient step sums the loss, and propagates through a memory."""
    learning_rate: PositiveFloat = 1e-3
    max_grad_norm: Annotated[float, Range(above=0)] | None = None
    """Largest norm of gradients, by clipping; null: no clipping."""
    loss_type: Literal["mse", "huber"] = "mse"
    optimizer: Literal["adam", "adamw", "sgd", "rmsprop"] = "adam"
    use_mixed_precision: bool = False
    """bfloat16 forward passes."""
    grad_reduce_bucket_mb: PositiveFloat = 25.0
    """Bucket size of the library's own gradient reduction, in MB."""


@dataclass(kw_only=True)
class RunnerCfg(BasicAgentCfg):
    """Common settings of rsl_rl's runners, and envlab's own."""

    NETWORKS: ClassVar[tuple[str, str]]
    """Fields that are networks, and sets of observation groups: the acting network comes first."""

    algorithm: Any
    """Learning algorithm."""
    obs_groups: dict[str, list[str]]
    """Observation groups of each network."""
    clip_actions: Annotated[float, Range(above=0)] | None = None
    """Bound of the environment's actions."""
    check_for_nan: bool = True
    """Whether rsl_rl checks every step for non-finite values, only on a CPU: with a GPU, this would
    wait three times a step, and ``env.nan_guard`` has already replaced such values."""
    init_at_random_ep_len: bool = True
    """Whether the first episodes begin at random steps, so that resets spread over time."""
    precision: Precision = "float32"
    """Number format of hidden layers; ``auto``: bfloat16 if every process supports it; ``tf32``:
    float32, of which a GPU multiplies 10 bits."""
    torch_compile_mode: str | None = None
    """``torch.compile`` mode of the networks; null: not compiled."""

    def with_task_values(self, values: Mapping[str, Any]) -> Self:
        file = Translator(values, peer="rsl_rl", file="the agent's file")
        kept, bare = file.rewritten(OF_ISAAC_LAB), self
        for line in file.lines():
            logger.debug("%s.", line)
        for name in self.NETWORKS:
            if file.given(f"{name}.distribution_cfg.class_name") is not None:
                # A complete distribution, whose keys may differ from the default kind's.
                model = replace(getattr(bare, name), distribution_cfg=None)
                bare = replace(bare, **{name: model})
        return merge(bare, kept, "agent")

    def references(self) -> Mapping[str, str]:
        """Return the texts that rsl_rl would import, ``module:Class`` or ``module.Class``.

        Networks, algorithm and their parts contain no other text with a colon or a dot.
        """
        found: dict[str, str] = {}
        for name in (*self.NETWORKS, "algorithm"):
            for path, text in leaves(getattr(self, name), f"agent.{name}"):
                if isinstance(text, str) and (":" in text or "." in text):
                    found[path] = text
        return found

    def takes(self, path: str, target: object) -> bool:
        """Return whether a class is a network, a part of one, or an algorithm."""
        if not path.endswith("class_name"):
            return callable(target) and not isinstance(target, type)
        from rsl_rl.algorithms import PPO, Distillation
        from torch import nn

        return isinstance(target, type) and issubclass(target, (nn.Module, PPO, Distillation))

    def for_library(self) -> dict[str, Any]:
        """Return the dictionary for rsl_rl's runner, without nulls in its networks."""
        values = asdict(self)
        for name in self.NETWORKS:
            values[name] = {key: value for key, value in values[name].items() if value is not None}
        return values


@dataclass(kw_only=True)
class RslRlCfg(RunnerCfg):
    """Settings for rsl_rl's ``OnPolicyRunner``, and envlab's additions."""

    NETWORKS: ClassVar[tuple[str, str]] = ("actor", "critic")
    OVERLAPS: ClassVar[bool] = True
    LEARNING_RATES: ClassVar[tuple[str, ...]] = (
        "algorithm.learning_rate",
        "algorithm.rnd_cfg.learning_rate",
    )
    RANGES: ClassVar[Mapping[str, Range]] = {
        "actor.distribution_cfg.init_std": Range(above=0),
        "algorithm.rnd_cfg.learning_rate": Range(above=0),
        "algorithm.rnd_cfg.num_outputs": Range(above=0),
        "algorithm.rnd_cfg.weight": Range(at_least=0),
        "algorithm.symmetry_cfg.mirror_loss_coeff": Range(at_least=0),
    }

    obs_groups: dict[str, list[str]] = field(
        default_factory=lambda: {"actor": ["policy"], "critic": ["policy"]}
    )
    """Observation groups of the actor and the critic."""
    actor: ModelCfg = field(default_factory=lambda: ModelCfg(distribution_cfg=_gaussian(1.0)))
    """Policy network."""
    critic: ModelCfg = field(default_factory=ModelCfg)
    """Value network."""
    algorithm: AlgorithmCfg = field(default_factory=AlgorithmCfg)
    """Learning algorithm."""
    graph: Literal["auto", "off", "on"] = "auto"
    """Whether updates are recorded as graphs, on a GPU (:mod:`envlab.rsl_rl.recorded_update`).
    ``off``: the library's own update; ``auto``: recorded if the algorithm allows it, and the log
    says why it does not; ``on``: else it is an error."""

    def suited(self, values: Mapping[str, Any]) -> RunnerCfg:
        algorithm = values.get("algorithm")
        name = algorithm.get("class_name") if isinstance(algorithm, Mapping) else None
        return DistillationCfg() if name == DISTILLATION else self

    def check_members(self, paths: Sequence[str]) -> None:
        if self.algorithm.schedule == "adaptive":
            refuse_schedule(self, paths, "algorithm.schedule", "fixed")

    def for_library(self) -> dict[str, Any]:
        values = super().for_library()
        for key in ("share_cnn_encoders", "critic_warmup"):  # rsl_rl's PPO itself knows neither
            if not values["algorithm"][key]:
                del values["algorithm"][key]
        return values


@dataclass(kw_only=True)
class DistillationCfg(RunnerCfg):
    """The settings of rsl_rl's ``DistillationRunner``, and envlab's own."""

    NETWORKS: ClassVar[tuple[str, str]] = ("student", "teacher")
    IMITATES: ClassVar[bool] = True
    LEARNING_RATES: ClassVar[tuple[str, ...]] = ("algorithm.learning_rate",)
    RANGES: ClassVar[Mapping[str, Range]] = {
        "student.distribution_cfg.init_std": Range(above=0),
        "teacher.distribution_cfg.init_std": Range(at_least=0),
    }

    obs_groups: dict[str, list[str]] = field(
        default_factory=lambda: {"student": ["policy"], "teacher": ["policy"]}
    )
    """Observation groups of the student and the teacher."""
    student: ModelCfg = field(default_factory=lambda: ModelCfg(distribution_cfg=_gaussian(0.1)))
    """Network that learns; its distribution serves exploration."""
    teacher: ModelCfg = field(default_factory=lambda: ModelCfg(distribution_cfg=_gaussian(0.0)))
    """Network of the teacher, as in its own run; its weights are the checkpoint's."""
    algorithm: DistillationAlgorithmCfg = field(default_factory=DistillationAlgorithmCfg)
    """Learning algorithm."""
    teachers: dict[str, str] = field(default_factory=dict)
    """Runs or checkpoints by clip or sub-terrain, whose policies teach the robots that follow it or
    are on its tiles, instead of ``--checkpoint``."""

    def policies(self) -> Mapping[str, str]:
        return {f"agent.teachers.{name}": path for name, path in self.teachers.items()}


def default_cfg(flags: Flags) -> RslRlCfg:
    """Return the configuration without a task's values, the same for all flags."""
    return RslRlCfg()
