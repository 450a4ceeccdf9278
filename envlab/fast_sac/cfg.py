"""Agent configuration for FastSAC (``agent.*``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from envlab.agent_cfg import BasicAgentCfg, Precision
from envlab.config import (
    LayerSize,
    NonNegativeFloat,
    NotEmpty,
    PositiveFloat,
    PositiveInt,
    Range,
    UnitInterval,
)
from envlab.errors import ConfigurationError
from envlab.training.flags import Flags


@dataclass(kw_only=True)
class ActorCfg:
    """The policy's network (``agent.actor.*``)."""

    hidden_dims: Annotated[list[LayerSize], NotEmpty()] = field(default_factory=lambda: [128, 128])
    """Sizes of the hidden layers, each with a LayerNorm and SiLU."""
    init_std: PositiveFloat = 0.25
    """Initial deviation of actions before tanh."""


@dataclass(kw_only=True)
class CriticCfg:
    """The two critics' networks (``agent.critic.*``)."""

    hidden_dims: Annotated[list[LayerSize], NotEmpty()] = field(default_factory=lambda: [128, 128])
    """Sizes of the hidden layers, each with a LayerNorm and SiLU."""
    distributional: bool = True
    """Whether they estimate the distribution of returns (C51) or only the mean."""
    num_atoms: Annotated[int, Range(at_least=2)] = 51
    """Number of returns in the support of the distribution, at equal distances."""
    v_max: PositiveFloat = 5.0
    """Maximum and, negated, minimum of these, in units of the running returns' spread."""


@dataclass(kw_only=True)
class ReplayCfg:
    """The replay memory of a process (``agent.replay.*``)."""

    size: PositiveInt = 524_288
    """Transitions of all environments of the process; Ant's take 0.5 kB each."""
    is_saved: bool = True
    """Whether checkpoints contain it. Without it they are small, but a resumed run refills it, and
    so differs from an uninterrupted run."""


@dataclass(kw_only=True)
class AlgorithmCfg:
    """Learning of the networks (``agent.algorithm.*``)."""

    name: Literal["sac", "td3"] = "sac"
    """``sac``: a Gaussian policy whose entropy is controlled by a temperature. ``td3``: a
    deterministic policy that explores by noise, as in FastTD3 (arXiv 2505.22642)."""
    learning_rate: PositiveFloat = 1e-3
    """Learning rate of AdamW, for all networks and the temperature."""
    weight_decay: NonNegativeFloat = 1e-3
    batch_size: PositiveInt = 256
    """Transitions for an update, over all processes."""
    updates_per_step: PositiveInt = 1
    """Updates of the critics after each step of all environments."""
    policy_frequency: PositiveInt = 2
    """Updates of the critics for each update of the policy."""
    gamma: UnitInterval = 0.99
    n_step: PositiveInt = 1
    """Number of rewards summed before the critic's value."""
    tau: UnitInterval = 0.05
    """How far target critics move towards the critics in an update."""
    q_reduction: Literal["min", "mean"] = "min"
    """How the policy and the critics' targets combine the two critics: the smaller value (SAC,
    TD3); or, as in FastSAC for batches of 8,192, the mean for the policy, while each critic follows
    its own target."""
    symmetry: bool = False
    """Whether every second transition of a batch is mirrored, left for right
    (:mod:`envlab.envs.mirror`)."""
    init_temperature: PositiveFloat = 0.01
    """Initial value of a nat of entropy, in rewards as the critics see them."""
    target_std: PositiveFloat = 0.15
    """The temperature is learned so that the entropy is that of Gaussian actions of this deviation,
    for actions between -1 and 1."""
    noise_std_min: NonNegativeFloat = 0.001
    """Only ``td3``: minimum deviation of the exploration noise. Each environment draws its own,
    uniformly up to ``noise_std_max``, for each episode. Both are FastTD3's."""
    noise_std_max: NonNegativeFloat = 0.4
    """Only ``td3``: largest deviation of the exploration noise."""
    target_noise_std: NonNegativeFloat = 0.001
    """Only ``td3``: deviation of the noise on the target policy's actions; FastTD3's (TD3: 0.2)."""
    target_noise_clip: NonNegativeFloat = 0.5
    """Only ``td3``: limit of this noise, as in TD3 and FastTD3."""

    def __post_init__(self) -> None:
        if self.noise_std_min > self.noise_std_max:
            raise ConfigurationError(
                f"agent.algorithm.noise_std_min is {self.noise_std_min}, above noise_std_max "
                f"({self.noise_std_max}). Set it to at most that."
            )


@dataclass(kw_only=True)
class FastSacCfg(BasicAgentCfg):
    """Configuration of FastSAC for a task.

    The defaults are for a CPU; docs/fast_sac.md has Ant's results with them. FastSAC's own, for
    4,096 environments on a GPU, are 8 updates of 8,192 transitions, the critics' mean, layers of
    512, 256 and 128 for the policy and of 768, 384 and 192 for critics, and a learning rate of
    3e-4.
    """

    LEARNING_RATES: ClassVar[tuple[str, ...]] = ("algorithm.learning_rate",)
    ENVS_PER_CORE: ClassVar[int] = 64
    OVERLAPS: ClassVar[bool] = True

    num_steps_per_env: PositiveInt = 16
    """Steps of each environment in an iteration; statistics are pooled after each iteration."""
    max_iterations: PositiveInt = 3000
    save_interval: PositiveInt = 1_000_000
    """Iterations between two checkpoints, which contain the replay memory; time rules instead."""
    keep_checkpoints: Annotated[int, Range(at_least=0)] = 1
    warmup_steps: PositiveInt = 10
    """Steps of the environments before the first update, and more if these are less than a
    batch."""
    action_limit: PositiveFloat = 1.0
    """Largest action, if the task's own have no bounds."""
    joint_limits: bool = False
    """Whether targets of joints cover the joints' range, from the position at action 0 to the
    farther limit, instead of ``action_limit``. This is the rule of holosoma 0.0.3, FastSAC's
    code."""
    init_at_random_ep_len: bool = True
    """Whether the first episodes begin at random steps, as if already running."""
    precision: Precision = "float32"
    """Number format of hidden layers; ``auto``: bfloat16 if every process supports it; ``tf32``:
    float32, of which a GPU multiplies 10 bits. FastSAC uses bfloat16, on GPUs."""
    graph: Literal["auto", "off", "on"] = "auto"
    """Whether gradient steps and acting are recorded as graphs, on a GPU
    (:mod:`envlab.fast_sac.objective`). ``auto``: if they can be; ``on``: else it is an
    error."""
    actor: ActorCfg = field(default_factory=ActorCfg)
    """The policy's network."""
    critic: CriticCfg = field(default_factory=CriticCfg)
    """The critics' networks."""
    replay: ReplayCfg = field(default_factory=ReplayCfg)
    """The replay memory."""
    algorithm: AlgorithmCfg = field(default_factory=AlgorithmCfg)
    """Learning of the networks."""

    def batch_of(self, world_size: int) -> int:
        """Return a process's part of a batch.

        Raises:
            ConfigurationError: If processes cannot share it equally.
        """
        size = self.algorithm.batch_size
        if size % world_size:
            raise ConfigurationError(
                f"agent.algorithm.batch_size is {size}, which {world_size} processes cannot share "
                f"equally. Use a multiple, such as {-(-size // world_size) * world_size}."
            )
        return size // world_size

    def first_update(self, num_envs: int, world_size: int) -> int:
        """Return the step after which the first update follows, when a full batch is stored.

        Raises:
            ConfigurationError: If a batch is larger than the replay memory.
        """
        needed = -(-self.batch_of(world_size) // num_envs)
        if needed > self.replay.size // num_envs:
            share = f", {self.batch_of(world_size)} of each process" if world_size > 1 else ""
            raise ConfigurationError(
                f"agent.algorithm.batch_size is {self.algorithm.batch_size}{share}, but "
                f"agent.replay.size is {self.replay.size}. Raise the second to "
                f"{needed * num_envs} or more, or lower the first."
            )
        return max(self.warmup_steps + 1, needed)


def default_cfg(flags: Flags) -> FastSacCfg:
    """Return the configuration without a task's values, the same for all flags."""
    return FastSacCfg()
