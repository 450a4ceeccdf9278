"""Agent configuration for skrl (``agent.*``): the layout of skrl's runner and of Isaac Lab's files.

skrl's free-form parts (``models``, ``memory``, ``agent``, ``trainer``) are filled with its own
defaults, so that every setting can be overridden and unknown settings are errors. The names of skrl
1.x are understood, see :mod:`envlab.skrl.legacy`.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

from envlab.agent_cfg import AgentCfg, Precision, refuse_schedule
from envlab.config import NonNegativeInt, PositiveInt, Range, merge
from envlab.config.translator import Refuse, Rows, Translator
from envlab.errors import ConfigurationError, did_you_mean
from envlab.skrl.defaults import (
    default_memories,
    default_models,
    default_settings,
    exploration,
)
from envlab.skrl.legacy import modernised
from envlab.skrl.library import (
    ALGORITHMS,
    MULTI_AGENT,
    ON_POLICY,
    agent_defaults,
    component_defaults,
    model_defaults,
)

logger = logging.getLogger(__name__)

OFF_POLICY_STEPS = 64
"""Steps per iteration for algorithms without rollouts: between two lines of the metrics."""

OBS_GROUPS: Mapping[str, list[str]] = {"observations": ["policy"], "states": ["critic"]}
"""Groups of a task's observations by the names of skrl's arguments, by default."""

_POSITIVE = (
    *("rollouts", "learning_epochs", "mini_batches", "learning_rate", "ratio_clip"),
    *("batch_size", "amp_batch_size", "gradient_steps", "policy_delay", "initial_entropy_value"),
    *("update_interval", "target_update_interval", "max_kl_divergence"),
    *("conjugate_gradient_steps", "max_backtrack_steps", "step_fraction"),
)
_NOT_NEGATIVE = (
    *("entropy_loss_scale", "value_loss_scale", "kl_threshold", "alpha", "damping"),
    *("accept_ratio", "random_timesteps", "learning_starts", "smooth_regularization_clip"),
    *("task_reward_scale", "style_reward_scale", "discriminator_loss_scale"),
    *("discriminator_logit_regularization_scale", "discriminator_gradient_penalty_scale"),
    "discriminator_weight_decay_scale",
)
_SHARES = ("discount_factor", "gae_lambda", "polyak", "percentile")
"""Settings of skrl's agents by the numbers that they allow."""


_WANDB = Refuse("skrl would write on every process: add --logger wandb", unless=({},))
REFUSED: Rows = {
    "agent.agent.experiment.wandb": _WANDB,
    "agent.agent.experiment.wandb_kwargs": _WANDB,
    "agent.agent.experiment.store_separately": Refuse("a checkpoint is one file"),
    "agent.trainer.class": Refuse(
        "only 'SequentialTrainer' is supported", unless=("SequentialTrainer", "sequentialtrainer")
    ),
}
"""Settings of skrl's that would change a run but have no effect here."""


@dataclass(kw_only=True)
class ExperimentCfg:
    """Folder of a run, and frequency of its output (``agent.agent.experiment.*``)."""

    directory: str = "default"
    """Folder of the runs: ``logs/skrl/<directory>``."""
    experiment_name: str = ""
    """Appended to the run's timestamp, algorithm and framework."""
    write_interval: NonNegativeInt | Literal["auto"] = "auto"
    """Timesteps between two values of skrl's own curves; ``auto``: an iteration; 0: none."""
    checkpoint_interval: int | Literal["auto"] = "auto"
    """Timesteps between two checkpoints; ``auto``: a tenth of the run; 0: only the last."""
    store_separately: bool = False
    """Only false: a checkpoint is one file."""
    wandb: bool = False
    """Only false: ``--logger wandb`` writes to Weights & Biases, once."""
    wandb_kwargs: dict[str, Any] = field(default_factory=dict)
    """Only empty, see ``wandb``."""


def _agent(algorithm: str = "ppo") -> dict[str, Any]:
    settings = agent_defaults(algorithm) | exploration(algorithm) | {"experiment": ExperimentCfg()}
    return settings | ({"time_limit_bootstrap": True} if algorithm == "amp" else {})


def _trainer() -> dict[str, Any]:
    return {
        "class": "SequentialTrainer",
        "timesteps": 4800,
        "environment_info": "log",
        "stochastic_evaluation": False,
    }


@dataclass(kw_only=True)
class SkrlCfg(AgentCfg):
    """Settings for skrl's runner, and envlab's additions."""

    FLAGS: ClassVar[Mapping[str, str]] = {
        "seed": "seed",
        "max_iterations": "max_iterations",
        "experiment_name": "agent.experiment.directory",
        "run_name": "agent.experiment.experiment_name",
        "logger": "logger",
        "log_project_name": "log_project_name",
        "wandb_entity": "wandb_entity",
        "ml_framework": "ml_framework",
        "lr_scaling": "lr_scaling",
    }
    DERIVED_FROM: ClassVar[Mapping[str, str]] = {**FLAGS, "algorithm": "agent.class"}
    LEARNING_RATES: ClassVar[tuple[str, ...]] = ("agent.learning_rate",)
    BATCH_SIZES: ClassVar[tuple[str, ...]] = (
        "agent.batch_size",
        "agent.amp_batch_size",
        "agent.discriminator_batch_size",
    )
    # Not here: value_clip, grad_norm_clip and discriminator_batch_size, which any number up to 0
    # turns off.
    RANGES: ClassVar[Mapping[str, Range]] = {
        **{f"agent.{name}": Range(above=0) for name in _POSITIVE},
        **{f"agent.{name}": Range(at_least=0) for name in _NOT_NEGATIVE},
        **{f"agent.{name}": Range(at_least=0, at_most=1) for name in _SHARES},
        "trainer.timesteps": Range(above=0),
        "memory.memory_size": Range(above=0, at_most=10**8, also=-1),
    }

    seed: int = 42
    """Base seed; -1 draws one."""
    max_iterations: PositiveInt | None = None  # type: ignore[assignment]
    """Iterations in total, including those before a resume; null: as many as ``trainer.timesteps``
    make."""
    num_steps_per_env: PositiveInt | None = None  # type: ignore[assignment]
    """Steps of each environment per iteration; null: ``agent.rollouts``, or 64 if the algorithm
    has none."""
    save_interval: PositiveInt | None = None  # type: ignore[assignment]
    """Iterations between two checkpoints; null: see ``agent.experiment.checkpoint_interval``."""
    batch_sizes: Literal["process", "all"] = "process"
    """Whether ``agent.batch_size`` counts samples of each process or of all; ``--global_num_envs``
    makes it ``all``."""
    precision: Precision = "float32"
    """Number format of hidden layers; ``auto``: bfloat16 if every process supports it."""
    graph: Literal["auto", "off", "on"] = "auto"
    """Whether updates of PPO on PyTorch are recorded as graphs, on a GPU
    (:mod:`envlab.skrl.torch.recorded_update`). ``off``: the library's own update; ``auto``:
    recorded if the settings allow it, and the log says why they do not; ``on``: else it is an
    error."""
    ml_framework: Literal["torch", "jax"] = "torch"
    """Framework of the networks."""
    obs_groups: dict[str, list[str]] = field(default_factory=lambda: dict(OBS_GROUPS))
    """Groups of the task's observations that make up skrl's observations and, if the task has
    them, states; networks read one of several as ``OBSERVATIONS["<group>"]``. Several agents have
    their own instead."""
    models: dict[str, Any] = field(default_factory=lambda: default_models("ppo"))
    """Networks by role, and whether they share their layers (``separate: false``)."""
    memory: dict[str, Any] = field(default_factory=lambda: default_memories("ppo")["memory"])
    """Memory of transitions; ``memory_size`` counts timesteps, -1: the agent's rollouts."""
    motion_dataset: dict[str, Any] | None = None
    """Memory of reference motions, for AMP only."""
    reply_buffer: dict[str, Any] | None = None
    """Memory of earlier motions, for AMP only; skrl spells it so."""
    agent: dict[str, Any] = field(default_factory=_agent)
    """The algorithm (``class``) and its settings."""
    trainer: dict[str, Any] = field(default_factory=_trainer)
    """``timesteps`` of each environment; and whether ``play`` draws actions from the policy's
    distribution (``stochastic_evaluation``) instead of taking the best."""

    def check_members(self, paths: Sequence[str]) -> None:
        if self.ml_framework == "jax":
            raise ConfigurationError(
                "--ml_framework jax trains one learner in all processes together, but this run has "
                "several members, each with its own learner. Use torch, or train one."
            )
        if self.agent.get("learning_rate_scheduler") is not None:
            refuse_schedule(self, paths, "agent.learning_rate_scheduler", "null")

    @classmethod
    def of(cls, algorithm: str = "ppo", ml_framework: str = "torch") -> Self:
        """Return the defaults of an algorithm.

        Raises:
            ConfigurationError: If there is no such algorithm.
        """
        name = known_algorithm(algorithm, ALGORITHMS)
        values: dict[str, Any] = {
            "ml_framework": ml_framework,
            "models": default_models(name),
            "agent": _agent(name),
            **default_memories(name),
        }
        return cls(**values)

    @property
    def algorithm(self) -> str:
        """Name of the algorithm in lower case."""
        return str(self.agent["class"]).lower()

    @property
    def registry_key(self) -> str:
        """Key of this algorithm's configuration in the registry: ``<key>_cfg_entry_point``."""
        return "skrl" if self.algorithm == "ppo" else f"skrl_{self.algorithm}"

    @property
    def experiment_name(self) -> str:
        """Folder of the runs."""
        return str(self.agent["experiment"].directory)

    @property
    def run_name(self) -> str:
        """Appended to the run's timestamp, as in Isaac Lab."""
        name = self.agent["experiment"].experiment_name
        return "_".join([self.algorithm, self.ml_framework, *([name] if name else [])])

    @property
    def origin(self) -> dict[str, str]:
        """Algorithm and framework."""
        return {"algorithm": self.algorithm, "ml_framework": self.ml_framework}

    def references(self) -> Mapping[str, str]:
        """Return the function that shapes rewards, the only named code."""
        shaper = self.agent.get("rewards_shaper")
        return {"agent.agent.rewards_shaper": shaper} if isinstance(shaper, str) else {}

    @property
    def is_multi_agent(self) -> bool:
        """Whether the algorithm trains several agents, each with its own policy."""
        return self.algorithm in MULTI_AGENT

    def with_task_values(self, values: Mapping[str, Any]) -> Self:
        """Return a task's configuration, filled with its own algorithm's defaults.

        Raises:
            ConfigurationError: For an unknown key or name, or a value of another type.
        """
        given = modernised(values)
        algorithm = given.get("agent", {}).get("class", self.algorithm)
        framework = given.get("ml_framework", self.ml_framework)
        base = type(self).of(str(algorithm), framework)
        if not values:
            base.agent |= default_settings(base.algorithm)
        if "models" in given:
            base.models = _filled_models(given.pop("models"))
        base.agent = _laid_over(base.agent, given.pop("agent", {}))
        for name in ("motion_dataset", "reply_buffer"):
            given[name] = given.get(name) or getattr(base, name)
        return merge(base, given, "agent")

    def resolved(self) -> Self:
        """Return this configuration with each null that means a number replaced by it.

        Raises:
            ConfigurationError: If values contradict each other, or a value has no effect.
        """
        steps = self._steps_per_iteration()
        timesteps = self.trainer["timesteps"]
        iterations = self.max_iterations
        if iterations is None:
            iterations = math.ceil(timesteps / max(steps, 1))
        save = self.save_interval
        if save is None:
            interval = self.agent["experiment"].checkpoint_interval
            if interval == "auto":
                save = max(1, iterations // 10)
            else:
                save = max(1, interval // max(steps, 1)) if interval > 0 else max(1, iterations)
        self._check_algorithm()
        self._check_effects()
        return dataclasses.replace(
            self,
            agent=self._bootstrapping(),
            num_steps_per_env=steps,
            max_iterations=iterations,
            save_interval=save,
        )

    def _bootstrapping(self) -> dict[str, Any]:
        """Return the algorithm's settings; those of AMP say what it does at a time limit."""
        if self.algorithm != "amp" or self.agent["time_limit_bootstrap"]:
            return self.agent
        logger.warning(
            "agent.agent.time_limit_bootstrap is false, but AMP adds the value of the last state "
            "at every time limit, as skrl 1.4.3 does whatever this setting says: it is now true."
        )
        return {**self.agent, "time_limit_bootstrap": True}

    def _steps_per_iteration(self) -> int:
        if self.algorithm not in ON_POLICY:
            return OFF_POLICY_STEPS if self.num_steps_per_env is None else self.num_steps_per_env
        rollouts = int(self.agent["rollouts"])
        if self.num_steps_per_env not in (None, rollouts):
            raise ConfigurationError(
                f"agent.num_steps_per_env is {self.num_steps_per_env}, but {self.agent['class']} "
                f"learns after agent.agent.rollouts = {rollouts} steps. Set only the latter."
            )
        return rollouts

    def _check_algorithm(self) -> None:
        """Refuse an algorithm changed on its own: its settings would be those of another."""
        wanted = type(self).of(str(self.agent["class"])).agent.keys()
        if wanted != self.agent.keys():
            raise ConfigurationError(
                f"agent.agent.class is {self.agent['class']!r}, but the other settings belong to "
                f"another algorithm. Choose it by --algorithm {self.algorithm}."
            )

    def _check_effects(self) -> None:
        experiment = self.agent["experiment"]
        if self.ml_framework == "jax" and self.agent.get("mixed_precision"):
            raise ConfigurationError(
                "agent.agent.mixed_precision is true, which skrl has on PyTorch only. Set it to "
                "false, or leave --ml_framework jax out."
            )
        if self.ml_framework == "jax" and self.precision in ("bfloat16", "tf32"):
            raise ConfigurationError(
                f"agent.precision is {self.precision!r}, which envlab has on PyTorch only. Set it "
                "to float32 or auto, or leave --ml_framework jax out."
            )
        if self.ml_framework == "jax" and self.graph == "on":
            raise ConfigurationError(
                "agent.graph is 'on', which envlab has on PyTorch only: JAX compiles its updates. "
                "Set it to auto, or leave --ml_framework jax out."
            )
        values = {"agent": {"agent": {"experiment": vars(experiment)}, "trainer": self.trainer}}
        file = Translator(values, peer="skrl", file="the configuration", cure="Leave it out.")
        file.translated(REFUSED)


def known_algorithm(name: str, known: Collection[str]) -> str:
    """Return an algorithm's name in lower case.

    Raises:
        ConfigurationError: If it is unknown.
    """
    if name.lower() not in known:
        raise ConfigurationError(
            f"agent.agent.class is {name!r}, but must be one of "
            f"{', '.join(one.upper() for one in known)}.{did_you_mean(name.lower(), known)}"
        )
    return name.lower()


def _filled_models(models: Mapping[str, Any]) -> dict[str, Any]:
    """Return networks by role with all settings of their kinds."""
    filled: dict[str, Any] = {"separate": bool(models.get("separate", True))}
    for role, given in models.items():
        if role == "separate":
            continue
        path = f"agent.models.{role}"
        kind = given.get("class") if isinstance(given, Mapping) else given
        defaults = {"class": kind, **model_defaults(str(kind), f"{path}.class")}
        network = {name: given[name] for name in ("network", "output") if name in given}
        rest = {name: value for name, value in given.items() if name not in network}
        filled[role] = merge(defaults, rest, path) | network
    return filled


def _laid_over(defaults: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return an algorithm's settings with a task's over them, and its components' own defaults."""
    path = "agent.agent"
    result = dict(defaults)
    for name, value in given.items():
        is_free = name.endswith("_kwargs") or value is None or isinstance(value, list | tuple)
        if name in defaults and is_free:
            result[name] = ({} if name.endswith("_kwargs") else None) if value is None else value
        else:
            result = merge(result, {name: value}, path)
    for name in defaults:
        kwargs = f"{name}_kwargs"
        if kwargs in defaults and isinstance(result[name], str):
            known = component_defaults(result[name], f"{path}.{name}")
            result[kwargs] = merge(known, result[kwargs], f"{path}.{kwargs}")
    result["class"] = str(result["class"]).upper()
    return result
