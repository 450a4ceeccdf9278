"""Agent configuration for evolution (``agent.*``): skrl's, and the population's."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, Self

from envlab.config import (
    Excludes,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    Range,
    merge,
)
from envlab.errors import ConfigurationError, did_you_mean
from envlab.skrl.cfg import SkrlCfg, known_algorithm
from envlab.skrl.flags import algorithm_flag
from envlab.skrl.library import ON_POLICY
from envlab.training.flags import Flags, flag
from envlab_populations.population.architecture import NetworkCfg
from envlab_populations.population.cfg import StrategyCfg
from envlab_populations.population.strategy import make_strategy

ALGORITHMS = ("dqn", "ddqn", "ddpg", "td3", "sac", "ppo", "maddpg", "matd3")
"""Algorithms whose members evolve."""
SEVERAL = {"maddpg": "ddpg", "matd3": "td3"}
"""Multi-agent algorithms, and those whose settings they use."""
NOISY = ("ddpg", "td3", *SEVERAL)
"""Algorithms with deterministic policies, which explore by noise."""
ALIASES = {
    "lr": "learning_rate",
    "lr_actor": "learning_rate",
    "lr_critic": "critic_learning_rate",
    "learn_step": "update_interval",
}
"""AgileRL's names of hyper-parameters, and skrl's."""
_NO_EFFECT = (
    *("mixed_precision", "state_preprocessor", "state_preprocessor_kwargs"),
    *("learning_rate_scheduler", "learning_rate_scheduler_kwargs", "kl_threshold"),
)
"""Settings of skrl's agents that members lack: rates evolve, and schedules would undo it."""
_OF_EVOLUTION = ("class", "target_update_interval", "polyak", "gradient_steps")
"""Settings that are not taken from a task's configuration for skrl."""


@dataclass(kw_only=True)
class PopulationCfg(StrategyCfg):
    """The population, and the choice of parents."""

    ROOT: ClassVar[str] = "agent.population"

    size: PositiveInt = 4
    """Number of members."""
    strategy: str = "tournament"
    """Who gives way to whose child: ``tournament``, ``truncation``, or an installed package's."""
    evo_step: PositiveInt = 1
    """Number of last evaluations whose mean is a member's fitness."""
    generation_iterations: PositiveInt = 8
    """Iterations between two tournaments."""
    eval_episodes: PositiveInt = 8
    """Episodes of each member, on each process, that an evaluation plays."""
    target_fitness: float | None = None
    """Training ends when the fittest reaches it; null: never before the budget."""
    parallel: Literal["data", "members"] = "data"
    """Whether all processes train every member together, or each its share of the members."""
    replay: Annotated[
        Literal["rank", "gathered"],
        Excludes(
            "agent.population.parallel=members",
            "processes train different members, and each keeps its own steps",
        ),
    ] = "rank"
    """Whether a process's replay memory holds its own steps, or those of all."""


@dataclass(kw_only=True)
class BoundsCfg:
    """The bounds of a hyper-parameter, and the factors of its mutations."""

    min: PositiveFloat
    """Minimum value; a mutation multiplies, and would never leave 0."""
    max: PositiveFloat
    """Maximum value."""
    shrink: Annotated[float, Range(above=0, at_most=1)] = 0.8
    """Factor of a mutation that shrinks it."""
    grow: Annotated[float, Range(at_least=1)] = 1.2
    """Factor of a mutation that grows it."""


@dataclass(kw_only=True)
class MutationsCfg:
    """Probabilities of mutations; the first five are relative to each other."""

    no_mutation: NonNegativeFloat = 0.4
    """A child is its parent's copy."""
    architecture: NonNegativeFloat = 0.2
    """Layers, units, kernels or channels change."""
    parameters: NonNegativeFloat = 0.2
    """Noise on the policy's weights."""
    activation: NonNegativeFloat = 0.0
    """Another activation function; never for PPO, DDPG and TD3."""
    rl_hp: NonNegativeFloat = 0.2
    """One hyper-parameter grows or shrinks."""
    new_layer_prob: Annotated[float, Range(at_least=0, at_most=1)] = 0.2
    """Share of architecture mutations that add or remove a layer."""
    mutation_sd: PositiveFloat = 0.1
    """Deviation of the noise on weights, relative to them."""
    mutate_elite: bool = False
    """Whether the fittest, which elitism keeps, is mutated too, as in AgileRL."""
    rl_hp_selection: dict[str, BoundsCfg] = field(default_factory=dict)
    """Bounds by hyper-parameter: any number of ``agent.agent``, ``lr``, ``batch_size`` and
    ``learn_step`` among them."""


@dataclass(kw_only=True)
class EvolutionCfg(SkrlCfg):
    """skrl's layout; a member's networks are those of ``network``, for every role."""

    FLAGS: ClassVar[Mapping[str, str]] = {
        **{name: key for name, key in SkrlCfg.FLAGS.items() if name != "ml_framework"},
        "population_size": "population.size",
        "parallel": "population.parallel",
    }
    DERIVED_FROM: ClassVar[Mapping[str, str]] = {**FLAGS, "algorithm": "agent.class"}
    LEARNING_RATES: ClassVar[tuple[str, ...]] = (
        "agent.learning_rate",
        "agent.critic_learning_rate",
    )
    RANGES: ClassVar[Mapping[str, Range]] = {
        **SkrlCfg.RANGES,
        "agent.critic_learning_rate": Range(at_least=0),
        "agent.gradient_steps": Range(at_least=0),
    }

    network: NetworkCfg = field(default_factory=NetworkCfg)
    """Initial networks, and their bounds."""
    population: PopulationCfg = field(default_factory=PopulationCfg)
    """The population and its tournaments."""
    mutations: MutationsCfg = field(default_factory=MutationsCfg)
    """Mutations and their odds."""

    @classmethod
    def of(cls, algorithm: str = "dqn", ml_framework: str = "torch") -> Self:
        """Return the defaults of an algorithm.

        Raises:
            ConfigurationError: If it does not evolve.
        """
        name = known_algorithm(algorithm, ALGORITHMS)
        cfg = super().of(SEVERAL.get(name, name))
        cfg.models = {}
        cfg.agent = agent = _with_one_rate(
            {key: value for key, value in cfg.agent.items() if key not in _NO_EFFECT}
        )
        evolving = cfg.mutations.rl_hp_selection  # between AgileRL's bounds
        evolving["lr"] = BoundsCfg(min=1e-4, max=1e-2)
        if name in ON_POLICY:
            agent["time_limit_bootstrap"] = True
        else:
            evolving["batch_size"] = BoundsCfg(min=8, max=1024)
            # A tournament costs whole episodes, so a generation should have some thousand steps.
            cfg.population.generation_iterations = 32
            cfg.trainer |= {"timesteps": 64_000}
            agent |= {"batch_size": 128}
            cfg.memory |= {"memory_size": 100_000}
        if name in ("sac", *NOISY):
            agent["critic_learning_rate"] = 0.0  # the policy's
        if name in SEVERAL:  # as in Lowe et al. (2017), except the batch and smaller steps
            agent |= {"class": name.upper(), "discount_factor": 0.95, "polyak": 0.01}
            agent |= {"learning_rate": 1e-3, "batch_size": 256, "grad_norm_clip": 0.5}
        if name in ("dqn", "ddqn"):
            agent |= {"loss": "huber", "grad_norm_clip": 10.0, "target_update_interval": 1}
            agent |= {"learning_rate": 5e-4, "polyak": 0.005}
            agent |= {"gradient_steps": 0}  # see resolved()
            evolving["learn_step"] = BoundsCfg(min=1, max=120, shrink=0.75, grow=1.5)
            agent |= {"exploration_scheduler": "max(0.02, 1 - 10 * timestep / timesteps)"}
        return cfg

    @property
    def registry_key(self) -> str:
        """Tasks' configurations for skrl also serve members; DDQN uses DQN's."""
        key = super().registry_key.replace("ddqn", "dqn")
        return key.replace(self.algorithm, SEVERAL.get(self.algorithm, self.algorithm))

    @property
    def run_name(self) -> str:
        """Appended to the run's timestamp."""
        name = self.agent["experiment"].experiment_name
        return "_".join([self.algorithm, *([name] if name else [])])

    @property
    def origin(self) -> dict[str, str]:
        """The algorithm."""
        return {"algorithm": self.algorithm}

    def with_task_values(self, values: Mapping[str, Any]) -> Self:
        """Return the defaults, updated by those of a task's values for skrl that members have.

        Raises:
            ConfigurationError: For an unknown key or name, or a value of another type.
        """
        own = {
            name: values[name] for name in ("network", "population", "mutations") if name in values
        }
        if not values or "models" not in values:
            return merge(self, dict(values), "agent")
        theirs = SkrlCfg.of(SEVERAL.get(self.algorithm, self.algorithm)).with_task_values(
            {name: value for name, value in values.items() if name not in own}
        )
        read = set(self.agent) - set(_OF_EVOLUTION)
        settings = {name: value for name, value in theirs.agent.items() if name in read}
        cfg = dataclasses.replace(
            self,
            seed=theirs.seed,
            max_iterations=theirs.max_iterations,
            num_steps_per_env=theirs.num_steps_per_env,
            agent=self.agent | _with_one_rate(settings),
            trainer=theirs.trainer,
            network=_network_of(theirs.models, self.network),
        )
        return merge(cfg, own, "agent")

    def resolved(self) -> Self:
        """Return this configuration with numbers for nulls, and for gradient steps of 0.

        Raises:
            ConfigurationError: If values contradict each other, or a value has no effect.
        """
        make_strategy(self.population)
        mutations = self.mutations
        if mutations.rl_hp > 0 and not mutations.rl_hp_selection:
            raise ConfigurationError(
                f"agent.mutations.rl_hp is {mutations.rl_hp:g}, but "
                "agent.mutations.rl_hp_selection names no hyper-parameter. Name one, or set the "
                "former to 0."
            )
        for name, bounds in mutations.rl_hp_selection.items():
            self._check(name, bounds)
        if self.models:
            raise ConfigurationError(
                "agent.models has no effect on members, whose networks evolve. Set their initial "
                "layers by agent.network.hidden_dims and agent.network.activation."
            )
        if self.graph == "on":
            raise ConfigurationError(
                "agent.graph is 'on', but updates of members, whose networks evolve, are not "
                "recorded. Set it to auto."
            )
        if self.precision not in ("float32", "auto"):
            raise ConfigurationError(
                f"agent.precision is {self.precision!r}, but members compute in float32. Leave it "
                "out."
            )
        cfg = super().resolved()
        if cfg.agent.get("gradient_steps") == 0:
            # As many as one agent makes with a member's environments and the frames of all members.
            cfg.agent = cfg.agent | {"gradient_steps": self.population.size}
        return cfg

    def _check(self, name: str, bounds: BoundsCfg) -> None:
        """Refuse a hyper-parameter that cannot evolve, or bounds that make no sense.

        Raises:
            ConfigurationError: Naming it.
        """
        path = f"agent.mutations.rl_hp_selection.{name}"
        numbers = [
            key
            for key, value in self.agent.items()
            if isinstance(value, (int, float)) and not isinstance(value, bool)
        ]
        key = ALIASES.get(name, name)
        if key not in numbers:
            known = [*(alias for alias, of in ALIASES.items() if of in numbers), *numbers]
            raise ConfigurationError(
                f"{path} names no hyper-parameter of {self.agent['class']}; it has "
                f"{', '.join(known)}.{did_you_mean(name, known)}"
            )
        if bounds.min > bounds.max:
            raise ConfigurationError(
                f"{path} goes from {bounds.min:g} to {bounds.max:g}: its ends are swapped. Write "
                f"the smaller one as min."
            )
        if self.algorithm in ON_POLICY and key == "rollouts":
            raise ConfigurationError(
                f"{path} would change how many steps an iteration has, which is the same for all "
                "members. Leave it out."
            )


def _with_one_rate(agent: dict[str, Any]) -> dict[str, Any]:
    """Return settings with the first of several learning rates, which is the policy's."""
    rate = agent["learning_rate"]
    return agent | {"learning_rate": rate[0] if isinstance(rate, (list, tuple)) else rate}


def _network_of(models: Mapping[str, Any], default: NetworkCfg) -> NetworkCfg:
    """Return the initial networks of a task's configuration for skrl.

    Where they are more than a row of layers with one activation, the default applies.
    """
    role = "policy" if "policy" in models else "q_network"
    parts = models[role].get("network", [])
    if len(parts) != 1:
        return default
    layers, activation = parts[0].get("layers", []), parts[0].get("activations")
    is_row = bool(layers) and all(isinstance(size, int) for size in layers)
    if not is_row or activation not in ("relu", "elu", "gelu", "tanh"):
        return default
    most, least = max(default.max_layers, len(layers)), min(default.min_units, *layers)
    values = {"hidden_dims": layers, "activation": activation}
    return merge(default, values | {"max_layers": most, "min_units": least}, "agent.network")


@dataclass(kw_only=True)
class EvolutionFlags(Flags):
    """The flags that determine members and population."""

    algorithm: str | None = algorithm_flag(ALGORITHMS, "dqn")
    population_size: int | None = flag("members (default: 4)", "N")
    agilerl: str | None = flag(
        "configuration file of AgileRL; other flags and overrides win over it",
        "FILE",
        of="train play export",
    )
    parallel: str | None = flag(
        "whether processes train every member together (default), or each its own members",
        choices=("data", "members"),
    )


def default_cfg(flags: Flags) -> EvolutionCfg:
    """Return the defaults of the algorithm that flags name."""
    return EvolutionCfg.of(flags.algorithm or "dqn")
