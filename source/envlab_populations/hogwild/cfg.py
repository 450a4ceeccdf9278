"""Agent configuration of a session (``agent.*``): a spec in skrl's terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, Self

from envlab.agent_cfg import BasicAgentCfg, Precision
from envlab.config import NonNegativeFloat, NonNegativeInt, PositiveInt, Range, UnitInterval
from envlab.errors import ConfigurationError, did_you_mean
from envlab.skrl.cfg import SkrlCfg
from envlab.skrl.flags import algorithm_flag
from envlab.skrl.library import OFF_POLICY
from envlab.training.flags import Flags

ALGORITHMS = ("sac", "a2c", "ppo", "dqn", "ddqn", "td3", "ddpg")
"""Algorithms of skrl that a session trains with."""
RANDOM, REINFORCE, SARSA = "random", "reinforce", "sarsa"
CROSSQ = "crossq"
OWN = {RANDOM: "a2c", REINFORCE: "a2c", SARSA: "dqn", CROSSQ: "sac"}
"""Algorithms that skrl lacks, and the skrl agent that each builds on."""
DISCRETE_SAC, DISCRETE_CROSSQ = "discrete_sac", "discrete_crossq"
DISCRETE = {"sac": DISCRETE_SAC, CROSSQ: DISCRETE_CROSSQ}
"""Counterparts for discrete actions, which build on skrl's DQN."""
ACTIVATIONS = ("relu", "leaky_relu", "elu", "selu", "gelu", "silu", "tanh", "sigmoid")
WITH_CRITIC_LAYERS = ("sac", CROSSQ, "a2c", "ppo")
"""Algorithms whose critics can have other layers than the policy, whose layers are made first."""
LAYER_NORM, BATCH_NORM, BATCH_RENORM = "layer_norm", "batch_norm", "batch_renorm"
NORMS = (LAYER_NORM, BATCH_NORM, BATCH_RENORM)
OPTIMIZERS = {
    **dict.fromkeys(("adam", "adamw", "radam"), ("betas", "eps", "weight_decay")),
    "lookahead": ("alpha", "k", "betas", "eps", "weight_decay"),
    "rmsprop": ("alpha", "eps", "weight_decay"),
}
"""torch's optimizers whose state sessions can share, and their settings that are supported here."""
Distributed = Literal["false", "shared", "synced"]
"""``meta.distributed``."""


@dataclass(kw_only=True)
class NetCfg:
    """Networks of layers one after another; actor and critics have the same ones."""

    hidden_layers: list[PositiveInt] = field(default_factory=lambda: [256, 256])
    """Sizes of the hidden layers."""
    activation: Literal[ACTIVATIONS] = "relu"  # type: ignore[valid-type]
    """Activation after each of them."""
    layers: list[PositiveInt | list[int] | Literal[(*ACTIVATIONS, *NORMS)]] = field(  # type: ignore[valid-type]
        default_factory=list
    )
    """Replaces the two settings above: a number is the size of a linear layer, and a name is
    an activation or ``layer_norm``, as in ``[64, "layer_norm", "tanh"]``, or for CrossQ
    ``batch_norm`` or ``batch_renorm``. Of images, a list is a convolution: output channels, kernel,
    stride, padding, dilation, as in ``[32, 8, 4, 0, 1]``."""
    critic_layers: list[PositiveInt | list[int] | Literal[(*ACTIVATIONS, *NORMS)]] = field(  # type: ignore[valid-type]
        default_factory=list
    )
    """The same for the critics of SAC, CrossQ, A2C and PPO; empty: the policy's."""
    norm_momentum: UnitInterval = 0.01
    """Weight of a batch in the running statistics of batch norms."""
    norm_eps: NonNegativeFloat = 1e-3
    """Number added to variances."""
    norm_warmup: PositiveInt = 100_000
    """Gradient steps until batch renormalisation reaches its full correction."""
    pixel_scale: NonNegativeFloat = 1.0
    """Factor of images, whose values are from 0 to 1."""
    shared: bool = False
    """Whether policy and value share all layers but the last, for A2C and PPO."""
    dueling: bool = False
    """Whether an action's value is the state's plus the action's advantage over the mean, for DQN
    (Wang et al. 2016, equation 9)."""
    policy_gain: NonNegativeFloat = 0.0
    """Gain of the orthogonal weights of a shared policy's last layer; 0: as ``init`` has it."""
    value_gain: NonNegativeFloat = 0.0
    """The same for a shared value."""
    recurrent: Literal["", "gru", "lstm", "rnn"] = ""
    """Cells after the layers, which see the features of ``sequence_length`` observations; SLM-Lab's
    recurrent networks have no other memory."""
    recurrent_size: PositiveInt = 64
    """Features of these cells."""
    recurrent_layers: PositiveInt = 1
    """Their layers."""
    sequence_length: PositiveInt = 4
    sees_steps: bool = False
    """Whether an observation joins those of the last ``sequence_length`` steps, which the cells see
    one after the other; else they see the same one so many times."""
    init: Literal["default", "orthogonal", "xavier_uniform", "kaiming_uniform"] = "default"
    """Initialisation of weights; ``default`` is torch's own."""
    initial_log_std: float = 0.0
    """Logarithm of the standard deviation with which an on-policy Gaussian starts."""

    @property
    def body(self) -> list[int | list[int] | str]:
        """All layers except the last."""
        return self.layers or [
            one for size in self.hidden_layers for one in (size, self.activation)
        ]


@dataclass(kw_only=True)
class ImitationCfg:
    """Self-imitation in addition to A2C or PPO (``agent.imitation.*``)."""

    num_batches: NonNegativeInt = 0
    """Batches of earlier episodes to learn from after each update; 0: none."""
    steps_per_batch: PositiveInt = 1
    """Gradient steps on each of them."""
    batch_size: PositiveInt = 32
    size: PositiveInt = 10_000
    """Steps of episodes that are kept."""
    use_cer: bool = False
    """Whether each batch holds the newest step."""
    policy_loss_scale: NonNegativeFloat = 1.0
    value_loss_scale: NonNegativeFloat = 0.01


@dataclass(kw_only=True)
class ReplayCfg:
    """The replay memory of an off-policy session."""

    size: PositiveInt = 200_000
    """Transitions of all environments of a session."""
    use_cer: bool = False
    """Whether each batch holds the newest transition (combined experience replay, Zhang and Sutton
    2017)."""
    alpha: NonNegativeFloat = 0.0
    """Power of the errors by which batches of DQN and SAC are drawn (prioritised replay); 0: all
    alike."""
    epsilon: NonNegativeFloat = 1e-4
    """Number added to errors, so that every transition can be drawn."""


@dataclass(kw_only=True)
class HogwildCfg(BasicAgentCfg):
    """The agent of a session; the same for all sessions of a trial, except the seed."""

    LEARNING_RATES: ClassVar[tuple[str, ...]] = ("settings.learning_rate",)
    BATCH_SIZES: ClassVar[tuple[str, ...]] = ("settings.batch_size",)
    RANGES: ClassVar[Mapping[str, Range]] = {
        path.replace("agent.", "settings.", 1): bounds
        for path, bounds in SkrlCfg.RANGES.items()
        if path.startswith("agent.")
    }

    algorithm: Literal[(*ALGORITHMS, *OWN)] = "sac"  # type: ignore[valid-type]
    """skrl's algorithm; ``random`` takes random actions and learns nothing."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Its settings under skrl's names, where they differ from skrl's defaults."""
    schedules: dict[str, str] = field(default_factory=dict)
    """Settings that change: formulas in ``timestep`` and ``timesteps`` by setting."""
    precision: Precision = "float32"
    """Number format of hidden layers; ``auto``: bfloat16 where the processor has it."""
    net: NetCfg = field(default_factory=NetCfg)
    """Networks."""
    imitation: ImitationCfg = field(default_factory=ImitationCfg)
    """Self-imitation, of A2C and PPO."""
    num_episodes: NonNegativeInt = 0
    """Episodes that A2C, PPO and REINFORCE learn from at a time; 0: they learn from rollouts of
    ``num_steps_per_env``."""
    num_step_returns: NonNegativeInt = 0
    """Steps of A2C's n-step returns; 0: by ``gae_lambda``."""
    replay: ReplayCfg = field(default_factory=ReplayCfg)
    """Replay memory, of off-policy algorithms."""
    update_interval: PositiveInt = 1
    """Steps of the environments between two updates, of off-policy algorithms."""
    clip_value_loss: bool = False
    """Whether PPO's values, like its policy, move by at most ``ratio_clip`` in an update."""
    policy_delay: PositiveInt = 1
    """CrossQ's gradient steps of the critics for each one of the policy."""
    log_alpha_max: float = 2.0
    """Largest logarithm of CrossQ's temperature; the smallest is -5."""
    action_policy: Literal["epsilon_greedy", "boltzmann"] = "epsilon_greedy"
    """How DQN and SARSA explore; for ``boltzmann``, ``exploration_scheduler`` is the temperature by
    which values are divided to be logarithms of probabilities."""
    optimizer: Literal[tuple(OPTIMIZERS)] = "adam"  # type: ignore[valid-type]
    """torch's optimizer of all networks."""
    optimizer_settings: dict[str, Any] = field(default_factory=dict)
    """Its settings in addition to the learning rate, as in ``{eps: 1e-5}``."""
    value_loss_scale: NonNegativeFloat = 1.0
    """Factor of the loss of values, for A2C, whose settings have none."""
    critic_learning_rate: NonNegativeFloat = 0.0
    """Learning rate of the value network of A2C and PPO; 0: the policy's."""
    loss: Literal["mse", "huber"] = "mse"
    """Loss of values; skrl's is the mean squared error."""
    normalize_rewards: bool = False
    """Whether rewards are divided by the running deviation of discounted returns."""
    reward_bounds: list[float] = field(default_factory=list)
    """Minimum and maximum reward to learn from, after that; empty: any."""
    clip_grad_norm: NonNegativeFloat = 0.0
    """Largest norm of gradients, for DQN, whose settings have none; 0: any."""
    learning_rate_factor: str = "1"
    """Factor of learning rates, as a formula in ``timestep`` and ``timesteps``."""
    distributed: Distributed = "false"
    """Whether sessions are independent, share their parameters, or synchronise their own."""
    num_sessions: PositiveInt = 1
    """Sessions of a trial."""
    num_steps_per_env: PositiveInt = 64
    max_iterations: PositiveInt = 1000
    """Iterations of each session, those before a resume included."""
    save_interval: PositiveInt = 1_000_000
    """Iterations between two checkpoints; they hold the replay memory, so time decides instead."""
    keep_checkpoints: Annotated[int, Range(at_least=0)] = 1

    @property
    def origin(self) -> dict[str, str]:
        """The algorithm."""
        return {"algorithm": self.algorithm}

    @property
    def skrl_algorithm(self) -> str:
        """The skrl algorithm to build on."""
        return {**OWN, **dict.fromkeys(DISCRETE.values(), "dqn")}.get(
            self.algorithm, self.algorithm
        )

    @property
    def is_off_policy(self) -> bool:
        """Whether the algorithm learns from a replay memory."""
        return self.algorithm in (*OFF_POLICY, CROSSQ, *DISCRETE.values())

    def resolved(self) -> Self:
        """Return this configuration.

        Raises:
            ConfigurationError: If a setting is not the algorithm's, or contradicts another.
        """
        known = SkrlCfg.of(self.skrl_algorithm).agent
        for path, names in (("settings", self.settings), ("schedules", self.schedules)):
            for name in names:
                if name not in known:
                    raise ConfigurationError(
                        f"agent.{path}.{name} is set, but {self.algorithm} has no such setting."
                        f"{did_you_mean(name, known)}"
                    )
        if self.action_policy == "boltzmann" and self.algorithm not in ("dqn", "ddqn", SARSA):
            raise ConfigurationError(
                f"agent.action_policy is 'boltzmann', but {self.algorithm} has no values of "
                "actions to choose by: leave it out, or train dqn."
            )
        if self.replay.alpha > 0.0 and self.algorithm not in ("dqn", "ddqn", "sac"):
            raise ConfigurationError(
                f"agent.replay.alpha is {self.replay.alpha}, but {self.algorithm} draws batches "
                "uniformly: set it to 0, or train dqn."
            )
        self._check_crossq()
        if self.clip_value_loss and self.algorithm != "ppo":
            raise ConfigurationError(
                f"agent.clip_value_loss is true, but {self.algorithm} has no clipped values: set "
                "it to false, or train ppo."
            )
        if self.net.shared and self.algorithm not in ("a2c", "ppo"):
            raise ConfigurationError(
                f"agent.net.shared is true, but {self.algorithm} has no policy and value to share "
                "layers: set it to false, or train ppo."
            )
        if self.net.dueling and self.algorithm not in ("dqn", "ddqn"):
            raise ConfigurationError(
                f"agent.net.dueling is true, but {self.algorithm} has no values of actions: set it "
                "to false, or train dqn."
            )
        bounds = self.reward_bounds
        if bounds and not (len(bounds) == 2 and bounds[0] < bounds[1]):
            raise ConfigurationError(
                f"agent.reward_bounds is {bounds}, but must be [] or two rising numbers."
            )
        for name in self.optimizer_settings:
            if name not in (taken := OPTIMIZERS[self.optimizer]):
                raise ConfigurationError(
                    f"agent.optimizer_settings.{name} is set, but {self.optimizer} takes only "
                    f"{', '.join(taken)} here.{did_you_mean(name, taken)}"
                )
        if self.critic_learning_rate and self.algorithm not in ("a2c", "ppo"):
            raise ConfigurationError(
                f"agent.critic_learning_rate is set, but {self.algorithm} takes the rates of its "
                "networks as a list in agent.settings.learning_rate."
            )
        if self.imitation.num_batches and self.algorithm not in ("a2c", "ppo"):
            raise ConfigurationError(
                f"agent.imitation.num_batches is {self.imitation.num_batches}, but "
                f"{self.algorithm} has no policy and value to imitate with: set it to 0, or "
                "train a2c."
            )
        if self.num_episodes and self.algorithm not in ("a2c", "ppo", REINFORCE):
            raise ConfigurationError(
                f"agent.num_episodes is {self.num_episodes}, but {self.algorithm} does not learn "
                "from whole episodes: set it to 0, or train a2c."
            )
        rollouts = self.settings.get("rollouts", self.num_steps_per_env)
        if not self.is_off_policy and rollouts != self.num_steps_per_env:
            raise ConfigurationError(
                f"agent.num_steps_per_env is {self.num_steps_per_env}, but agent.settings.rollouts "
                f"is {rollouts}. Set only the former."
            )
        return self

    def _check_crossq(self) -> None:
        """Refuse settings of CrossQ alone, and sessions that would share half of its statistics."""
        if self.algorithm == CROSSQ:
            if self.distributed != "false":
                raise ConfigurationError(
                    f"agent.distributed is {self.distributed!r}, but sessions of CrossQ cannot "
                    "share networks: each session's batch norm keeps separate statistics. Set it "
                    "to false."
                )
            return
        layers = [*self.net.layers, *self.net.critic_layers]
        if any(part in (BATCH_NORM, BATCH_RENORM) for part in layers):
            raise ConfigurationError(
                f"agent.net.layers has {layers}, but batch norms are CrossQ's. Leave them out of "
                f"{self.algorithm}."
            )
        if self.net.critic_layers and (self.net.shared or self.algorithm not in WITH_CRITIC_LAYERS):
            raise ConfigurationError(
                f"agent.net.critic_layers is set to {self.net.critic_layers}, but {self.algorithm} "
                f"{'shares layers' if self.net.shared else 'has one kind of network'}. Leave it "
                "out."
            )

    def for_skrl(self, num_envs: int) -> SkrlCfg:
        """Return the configuration that skrl's agent is made with.

        Args:
            num_envs: Environments of this session, of which each has its part of the memory.
        """
        cfg = SkrlCfg.of(self.skrl_algorithm)
        settings = self.settings
        if self.algorithm in DISCRETE.values():  # SAC's other settings are for its own class
            settings = {name: value for name, value in settings.items() if name in cfg.agent}
            settings.pop("learning_rate", None)
        cfg.agent |= settings
        cfg.num_steps_per_env = self.num_steps_per_env
        if self.skrl_algorithm in OFF_POLICY:
            steps = max(1, self.replay.size // num_envs)
            if self.algorithm == SARSA:  # a rollout, in order
                steps = self.num_steps_per_env
            cfg.memory = {"class": "RandomMemory", "memory_size": steps, "replacement": True}
        else:
            cfg.agent["rollouts"] = self.num_steps_per_env
        return cfg


def default_cfg(flags: Flags) -> HogwildCfg:
    """Return the configuration of a session on its own, without a spec."""
    return HogwildCfg(
        algorithm=flags.algorithm or "sac",
        settings={"batch_size": 256, "learning_starts": 128, "learning_rate": 3e-4}
        if (flags.algorithm or "sac") in OFF_POLICY
        else {"time_limit_bootstrap": True},
    )


@dataclass(kw_only=True)
class HogwildFlags(Flags):
    """The flag that names the algorithm of a run without a spec."""

    algorithm: str | None = algorithm_flag((*ALGORITHMS, *OWN), "sac")
