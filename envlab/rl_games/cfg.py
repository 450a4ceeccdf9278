"""Agent configuration for rl_games (``agent.*``): its own YAML layout, names and defaults, typed.

The layout is Isaac Lab's ``rl_games_ppo_cfg.yaml``: everything for rl_games is under ``params``, so
an override is ``agent.params.config.learning_rate=1e-3``. Networks are free-form, because their
builders are: a task's YAML replaces them as a whole. envlab's own keys are next to ``params``.

Three defaults differ from rl_games 1.6.5: ``torch_compile`` is off (on, it needs a C++ compiler and
12 s), ``max_epochs`` is a number, and ``bounds_loss_coef`` is 0, because null breaks the library.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, ClassVar, Literal, Self

from envlab.agent_cfg import AgentCfg, Precision, refuse_schedule
from envlab.config import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Range,
    UnitInterval,
    merge,
)
from envlab.training.flags import Flags

SAC = "sac"

Momentum = Annotated[float, Range(at_least=0, below=1)]

MLP = {"units": [256, 128, 64], "activation": "elu", "initializer": {"name": "default"}}
"""Hidden layers of the default networks."""


def _default_network() -> dict[str, Any]:
    space = {
        "mu_activation": "None",
        "sigma_activation": "None",
        "mu_init": {"name": "default"},
        "sigma_init": {"name": "const_initializer", "val": 0.0},
        "fixed_sigma": True,
    }
    return {
        "name": "actor_critic",
        "separate": False,
        "space": {"continuous": space},
        "mlp": copy.deepcopy(MLP),
    }


@dataclass(kw_only=True)
class EnvKeysCfg:
    """Settings of Isaac Lab's environment wrapper for rl_games."""

    clip_observations: Annotated[float, Range(above=0)] = float("inf")
    """Bound of the networks' observations."""
    clip_actions: Annotated[float, Range(above=0)] = float("inf")
    """Bound of the environment's actions."""
    obs_groups: dict[str, list[str]] = field(
        default_factory=lambda: {"obs": ["policy"], "states": ["critic"]}
    )
    """Observation groups of the policy and, with a central value network, of that network."""
    concate_obs_groups: bool = True
    """Whether several groups are joined; otherwise the network gets a dict of them."""


@dataclass(kw_only=True)
class NameCfg:
    """A name that rl_games looks up."""

    name: str


@dataclass(kw_only=True)
class CentralValueCfg:
    """A value network that sees the critic's observations."""

    network: dict[str, Any] = field(
        default_factory=lambda: {
            "name": "actor_critic",
            "central_value": True,
            "mlp": copy.deepcopy(MLP),
        }
    )
    model: NameCfg | None = None
    """Only ``central_value`` so far."""
    minibatch_size: int | None = None
    minibatch_size_per_env: int | None = None
    mini_epochs: PositiveInt = 4
    learning_rate: PositiveFloat = 5e-4
    lr_schedule: Literal["linear", "adaptive", "identity", "constant"] | None = None
    """Only ``linear`` has an effect in rl_games."""
    schedule_type: Literal["legacy", "standard"] = "legacy"
    """Without effect in rl_games."""
    kl_threshold: NonNegativeFloat = 0.008
    """Without effect in rl_games."""
    clip_value: bool = True
    e_clip: PositiveFloat = 0.2
    normalize_input: bool = True
    truncate_grads: bool = False
    grad_norm: Annotated[float, Range(at_least=0)] = 1.0
    weight_decay: NonNegativeFloat = 0.0
    mixed_precision: bool = False
    freeze_critic: bool = False


@dataclass(kw_only=True)
class PpoKeysCfg:
    """PPO: ``a2c_continuous`` and ``a2c_discrete``."""

    ppo: bool = True
    """Whether ratios are clipped; otherwise it is A2C."""
    horizon_length: PositiveInt = 16
    """Steps of each environment per iteration."""
    minibatch_size: int | None = None
    """Samples of a minibatch on each process; must divide those of an iteration."""
    minibatch_size_per_env: int | None = None
    """The same per environment, if ``minibatch_size`` is null."""
    mini_epochs: PositiveInt = 8
    tau: UnitInterval = 0.95
    """GAE's lambda."""
    learning_rate: PositiveFloat = 3e-4
    lr_schedule: Literal["adaptive", "linear", "identity", "constant"] | None = "adaptive"
    schedule_type: Literal["legacy", "standard"] = "legacy"
    """Whether the KL is checked after each minibatch, or after each pass over the data."""
    schedule_entropy: bool = False
    """Whether a linear schedule lowers the entropy coefficient too."""
    kl_threshold: NonNegativeFloat = 0.008
    e_clip: PositiveFloat = 0.2
    clip_value: bool = True
    critic_coef: NonNegativeFloat = 4.0
    entropy_coef: NonNegativeFloat = 0.0
    bounds_loss_coef: NonNegativeFloat = 0.0
    bound_loss_type: Literal["bound", "regularisation", "none"] = "bound"
    use_smooth_clamp: bool = False
    truncate_grads: bool = True
    grad_norm: Annotated[float, Range(at_least=0)] = 1.0
    normalize_advantage: bool = True
    normalize_value: bool = False
    seq_length: PositiveInt = 4
    """Length in steps of the sequences for training recurrent networks."""
    seq_len: int | None = None
    """Old name of ``seq_length``, without effect in rl_games."""
    bptt_length: int = 4
    zero_rnn_on_done: bool = True
    clip_actions: bool = True
    """Whether policies act in [-1, 1], scaled to the environment's bounds."""
    central_value_config: CentralValueCfg | None = None
    use_experimental_cv: bool | None = None
    """Whether the policy network also learns values if there is a central value network; null:
    yes for continuous actions, no for discrete ones."""
    freeze_critic: bool = False
    use_diagnostics: bool = False
    # Other values are refused: see envlab.rl_games.checks.
    normalize_rms_advantage: bool = False
    adv_rms_momentum: float = 0.5
    use_action_masks: bool = False
    self_play: bool = False
    self_play_config: dict[str, Any] | None = None
    epochs_between_resets: int = 0


@dataclass(kw_only=True)
class SacKeysCfg:
    """Soft actor-critic: ``sac``."""

    num_steps_per_episode: PositiveInt = 1
    """Steps of each environment per iteration."""
    num_updates_per_step: PositiveInt = 1
    num_warmup_steps: NonNegativeInt = 1000
    """Iterations of random actions at the start."""
    num_warmup_frames: NonNegativeInt | None = None
    """The same in steps of all environments; takes precedence if given."""
    batch_size: PositiveInt = 4096
    replay_buffer_size: PositiveInt = 1_000_000
    actor_lr: PositiveFloat = 5e-4
    critic_lr: PositiveFloat = 5e-4
    alpha_lr: PositiveFloat = 5e-3
    actor_betas: list[Momentum] = field(default_factory=lambda: [0.9, 0.999])
    critic_betas: list[Momentum] = field(default_factory=lambda: [0.9, 0.999])
    alphas_betas: list[Momentum] = field(default_factory=lambda: [0.9, 0.999])
    init_alpha: PositiveFloat = 1.0
    learnable_temperature: bool = True
    target_entropy_coef: float = 1.0
    critic_tau: UnitInterval = 0.005
    critic_grad_clip: float = 5.0
    policy_frequency: PositiveInt = 2


@dataclass(kw_only=True)
class InertKeysCfg:
    """Keys in users' files that envlab decides itself: accepted, without effect."""

    env_name: str = "rlgpu"
    env_config: dict[str, Any] | None = field(default_factory=dict)
    """Isaac Lab's files may leave it empty, which is null in YAML."""
    device: str = "cuda:0"
    """See ``--device``."""
    device_name: str = "cuda:0"
    multi_gpu: bool = False
    """See ``--distributed``."""
    num_actors: int = -1
    """See ``--num_envs``."""
    train_dir: str = "runs"
    full_experiment_name: str | None = None
    network_path: str = "./nn/"
    log_path: str = "runs/"
    print_stats: bool = True
    games_to_track: int = 100


@dataclass(kw_only=True)
class ConfigCfg(PpoKeysCfg, SacKeysCfg, InertKeysCfg):
    """The algorithm (``agent.params.config``)."""

    name: str = "default"
    """Folder of the runs: ``logs/rl_games/<name>``."""
    max_epochs: PositiveInt = 500
    """Iterations in total, including those before a resume."""
    gamma: UnitInterval = 0.99
    reward_shaper: dict[str, Any] = field(default_factory=lambda: {"scale_value": 1.0})
    """``scale_value``, ``shift_value``, ``min_val``, ``max_val``, ``log_val``."""
    value_bootstrap: bool = True
    """Whether an episode ended by a time limit is credited with the value of its last state."""
    normalize_input: bool = False
    weight_decay: NonNegativeFloat = 0.0
    mixed_precision: bool = False
    """bfloat16 forward passes on a GPU."""
    score_to_win: float = float("inf")
    """Mean return that ends the run, once ``save_best_after`` iterations are done."""
    save_frequency: int = 0
    """Sets ``agent.save_interval`` if a task's file gives only this key."""
    save_best_after: int = 100
    """Iterations before which ``score_to_win`` is ignored. The best checkpoint is always kept."""
    torch_compile: bool | str | dict[str, Any] = False
    """``torch.compile`` of the networks: true, or a mode. One process only."""
    max_frames: int = -1
    """Refused unless it is -1: see ``--max_frames``."""
    population_based_training: bool = False
    """Refused."""
    player: dict[str, Any] | None = field(default_factory=dict)
    """``deterministic: false`` makes ``play`` draw actions from the policy's distribution instead
    of taking the best; nothing else has an effect."""


@dataclass(kw_only=True)
class ParamsCfg:
    """Everything that rl_games reads (``agent.params``)."""

    seed: int = 42
    """Base seed; -1 draws one."""
    env: EnvKeysCfg = field(default_factory=EnvKeysCfg)
    algo: NameCfg = field(default_factory=lambda: NameCfg(name="a2c_continuous"))
    """``a2c_continuous``, ``a2c_discrete`` (both are PPO) or ``sac``."""
    model: NameCfg = field(default_factory=lambda: NameCfg(name="continuous_a2c_logstd"))
    network: dict[str, Any] = field(default_factory=_default_network)
    config: ConfigCfg = field(default_factory=ConfigCfg)
    load_checkpoint: bool = False
    """Refused: see ``--resume``."""
    load_path: str = ""
    torch_threads: int | str = "auto"
    """Without effect: envlab divides the machine's cores among its processes."""


@dataclass(kw_only=True)
class RlGamesCfg(AgentCfg):
    """Settings for rl_games, and envlab's additions."""

    FLAGS: ClassVar[Mapping[str, str]] = {
        "seed": "params.seed",
        "max_iterations": "params.config.max_epochs",
        "experiment_name": "params.config.name",
        "run_name": "run_name",
        "logger": "logger",
        "log_project_name": "log_project_name",
        "wandb_entity": "wandb_entity",
        "lr_scaling": "lr_scaling",
    }
    DERIVED_FROM: ClassVar[Mapping[str, str]] = {
        **FLAGS,
        "num_steps_per_env": "params.config.horizon_length",
        "is_sac": "params.algo.name",
    }
    # SAC's are missing: it trains only on one process.
    LEARNING_RATES: ClassVar[tuple[str, ...]] = (
        "params.config.learning_rate",
        "params.config.central_value_config.learning_rate",
    )
    BATCH_SIZES: ClassVar[tuple[str, ...]] = (
        "params.config.minibatch_size",
        "params.config.central_value_config.minibatch_size",
    )

    RANGES: ClassVar[Mapping[str, Range]] = {
        "params.network.mlp.units": Range(above=0),
        "params.network.rnn.units": Range(above=0),
        "params.network.rnn.layers": Range(above=0),
    }

    params: ParamsCfg = field(default_factory=ParamsCfg)
    save_interval: PositiveInt = 50
    """Iterations between two checkpoints."""
    batch_sizes: Literal["process", "all"] = "process"
    """Whether ``minibatch_size`` counts samples of each process or of all; ``--global_num_envs``
    makes it ``all``."""
    precision: Precision = "float32"
    """Number format of hidden layers; ``auto``: bfloat16 if every process supports it."""
    graph: Literal["auto", "off", "on"] = "auto"
    """Whether updates of continuous PPO are recorded as graphs, on a GPU
    (:mod:`envlab.rl_games.recorded_update`). ``off``: the library's own update; ``auto``: recorded
    if the settings allow it, and the log says why they do not; ``on``: else it is an error."""
    run_name: str = ""
    """Appended to the run's timestamp."""

    @property
    def seed(self) -> int:
        """Base seed; -1 draws one."""
        return self.params.seed

    @property
    def max_iterations(self) -> int:
        """Iterations in total: rl_games' epochs."""
        return self.params.config.max_epochs

    @property
    def num_steps_per_env(self) -> int:
        """Steps of each environment per iteration."""
        config = self.params.config
        return config.num_steps_per_episode if self.is_sac else config.horizon_length

    @property
    def experiment_name(self) -> str:
        """Folder of the runs: ``logs/rl_games/<experiment_name>``."""
        return self.params.config.name

    @property
    def is_sac(self) -> bool:
        """Whether the algorithm is soft actor-critic instead of PPO."""
        return self.params.algo.name == SAC

    @property
    def num_envs_step(self) -> int:
        """Environments whose samples of an iteration are whole minibatches."""
        config = self.params.config
        groups = (config, config.central_value_config)
        sizes = [group.minibatch_size for group in groups if group and group.minibatch_size]
        return math.lcm(*(size // math.gcd(size, self.num_steps_per_env) for size in sizes))

    def check_members(self, paths: Sequence[str]) -> None:
        if self.params.config.lr_schedule == "adaptive":
            refuse_schedule(self, paths, "params.config.lr_schedule", "identity")

    def with_task_values(self, values: Mapping[str, Any]) -> Self:
        """Return this configuration with a task's own values over it; its networks replace ours."""
        merged = merge(self, values, "agent", given_keys=True)
        frequency = merged.params.config.save_frequency
        if frequency > 0 and "save_interval" not in values:
            merged = merge(merged, {"save_interval": frequency}, "agent")
        return merged

    def for_library(self) -> dict[str, Any]:
        """Return ``params`` for rl_games: without nulls."""
        params = asdict(self.params)
        config = _without_nulls(params["config"])
        config["lr_schedule"] = self.params.config.lr_schedule
        groups = [config]
        if "central_value_config" in config:
            config["central_value_config"] = _without_nulls(config["central_value_config"])
            groups.append(config["central_value_config"])
        for group in groups:
            if "minibatch_size" not in group and "minibatch_size_per_env" not in group:
                group["minibatch_size_per_env"] = max(1, config["horizon_length"] // 4)
        params["config"] = config
        return params


def _without_nulls(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def default_cfg(flags: Flags) -> RlGamesCfg:
    """Return the configuration without a task's values, the same for all flags."""
    return RlGamesCfg()
