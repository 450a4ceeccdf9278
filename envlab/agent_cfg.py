"""Settings that envlab itself needs in agent configurations, whatever the library's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from envlab.config import (
    Excludes,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Range,
    Requires,
    merge,
)
from envlab.errors import ConfigurationError

SAVED_RATES = (
    "lr",
    "initial_lr",
    "base_lrs",
    "_last_lr",
    "learning_rate",
    "policy_learning_rate",
    "value_learning_rate",
    "critic_learning_rate",
)
"""Names of learning rates in checkpoints: those of torch, and of libraries."""

Precision = Literal["auto", "float32", "tf32", "bfloat16"]
"""Number format of a policy's hidden layers, see :mod:`envlab.precision`."""


@dataclass(kw_only=True)
class AgentCfg:
    """The part of an agent's configuration (``agent.*``) that all libraries have.

    A library derives its own. Values that it keeps under other names are properties, with their
    paths for flags in :attr:`FLAGS`; :class:`BasicAgentCfg` is for a library that has no other
    names.
    """

    FLAGS: ClassVar[Mapping[str, str]]
    """Flags that set a value, and its path: ``{"max_iterations": "trainer.timesteps"}``."""
    LEARNING_RATES: ClassVar[tuple[str, ...]] = ()
    """Paths of learning rates that ``--lr_scaling`` multiplies."""
    BATCH_SIZES: ClassVar[tuple[str, ...]] = ()
    """Paths of batch sizes in samples, which ``--global_num_envs`` divides."""
    ENVS_PER_CORE: ClassVar[int] = 1024
    """Most environments per core on a CPU by default: enough to amortise a step's fixed cost
    (Cartpole gains nothing beyond 1024), few enough that an iteration takes under a second."""
    OVERLAPS: ClassVar[bool] = False
    """Whether :attr:`overlap` has an effect."""
    IMITATES: ClassVar[bool] = False
    """Whether the policy given to a new run may be of another library."""

    save_interval_minutes: NonNegativeFloat = 10.0
    """A checkpoint is also due when the last is older than this; 0: by iterations only."""
    keep_checkpoints: NonNegativeInt = 10
    """Number of the newest checkpoints to keep, in addition to the best one; 0 keeps all."""
    audit_interval: PositiveInt = 50
    """Iterations between two audits; the first update and every checkpoint are audited too."""
    sync_interval: Annotated[PositiveInt, Requires("--grad_sync=local")] = 1
    """Iterations that ranks learn alone before an average (:mod:`envlab.training.averaging`)."""
    sync_dtype: Annotated[Literal["float32", "bfloat16"], Requires("--grad_sync=local")] = "float32"
    """What averages send of parameters and of the optimizers' moments."""
    outer_learning_rate: Annotated[PositiveFloat, Requires("--grad_sync=local")] = 1.0
    """Factor of the mean change of parameters that an average makes; DiLoCo has 0.7."""
    outer_momentum: Annotated[
        Annotated[float, Range(at_least=0.0, below=1.0)], Requires("--grad_sync=local")
    ] = 0.0
    """Nesterov's momentum of these changes; DiLoCo has 0.9."""
    overlap: Annotated[
        bool,
        Excludes("--video --viz", "overlap takes the steps to be shown in a separate thread"),
    ] = False
    """Whether the next rollout is collected while learning from one, with a policy that is one
    update older (:mod:`envlab.training.overlap`)."""
    lr_scaling: Annotated[
        Literal["none", "linear", "sqrt"],
        Excludes(
            "--global_num_envs agent.batch_sizes=all",
            "a total of environments leaves the batch of an update as it is on one process",
        ),
    ] = "none"
    """Factor of the learning rates: 1, the number of processes, or its square root."""
    logger: str = "tensorboard"
    """``tensorboard``, ``wandb``, ``mlflow`` or ``trackio``."""
    log_project_name: str | None = None
    """Project at the service; null: its environment variable, or the experiment's name."""
    wandb_entity: str | None = None
    """User or team that owns the project; null: the service's environment variable."""

    if TYPE_CHECKING:  # fields or properties of each library; see BasicAgentCfg

        @property
        def seed(self) -> int: ...
        @property
        def num_steps_per_env(self) -> int: ...
        @property
        def max_iterations(self) -> int: ...
        @property
        def save_interval(self) -> int: ...
        @property
        def experiment_name(self) -> str: ...
        @property
        def run_name(self) -> str: ...

    @property
    def origin(self) -> dict[str, str]:
        """Values that a checkpoint must match besides library and task, such as the algorithm."""
        return {}

    @property
    def num_envs_step(self) -> int:
        """A process's number of environments must be a multiple of this."""
        return 1

    def references(self) -> Mapping[str, str]:
        """Return the texts by which the library imports code, by their paths (``agent.net``).

        Those from a file are refused unless their targets are trusted, see
        :class:`envlab.config.Trust`. The configuration itself checks fields that are annotated as
        functions or classes.
        """
        return {}

    def policies(self) -> Mapping[str, str]:
        """Return the policies with which a new run begins, instead of ``--checkpoint``'s.

        They are runs or checkpoints by the path of their setting, such as
        ``agent.teachers.stairs``.
        """
        return {}

    def takes(self, path: str, target: object) -> bool:
        """Return whether the library should call the target of a text of :meth:`references`.

        It is called for texts from files: a class of another kind would get untrusted arguments.
        """
        return callable(target)

    def check_members(self, paths: Sequence[str]) -> None:
        """Refuse a population whose members differ in values at paths such as ``agent.seed``.

        Raises:
            ConfigurationError: If the library would undo the differences, or trains no populations.
        """

    @property
    def is_multi_agent(self) -> bool:
        """Whether several agents are trained; otherwise a multi-agent task is converted."""
        return False

    def suited(self, values: Mapping[str, Any]) -> AgentCfg:
        """Return the defaults for a file's values: those of the algorithm that they name.

        Args:
            values: Agent configuration of a task or a run.
        """
        return self

    def with_task_values(self, values: Mapping[str, Any]) -> Self:
        """Return this configuration with a task's own values over it."""
        return merge(self, values, "agent")

    def resolved(self) -> Self:
        """Return this configuration with each null that means a number replaced by it.

        This is done as late as possible, so that such a number follows the values it depends on.

        Raises:
            ConfigurationError: If values contradict each other.
        """
        return self


@dataclass(kw_only=True)
class BasicAgentCfg(AgentCfg):
    """A configuration with every value under its own name; a library adds its own fields."""

    FLAGS: ClassVar[Mapping[str, str]] = {
        name: name
        for name in (
            "seed",
            "max_iterations",
            "experiment_name",
            "run_name",
            "logger",
            "log_project_name",
            "wandb_entity",
            "lr_scaling",
        )
    }

    seed: int = 42
    """Base seed; -1 draws one."""
    num_steps_per_env: PositiveInt = 24
    """Steps of each environment per iteration."""
    max_iterations: PositiveInt = 1500
    """Iterations in total, including those before a resume."""
    save_interval: PositiveInt = 50
    """Iterations between two checkpoints."""
    experiment_name: str = "default"
    """Folder of the runs: ``logs/<library>/<experiment_name>``."""
    run_name: str = ""
    """Appended to the run's timestamp."""


def refuse_schedule(cfg: AgentCfg, paths: Sequence[str], key: str, fixed: str) -> None:
    """Refuse different learning rates of members that a schedule overwrites.

    Args:
        cfg: The agent's configuration.
        paths: Paths of the values in which members differ.
        key: Path of the schedule.
        fixed: Value of the schedule that does not change learning rates.

    Raises:
        ConfigurationError: Naming the schedule, and how to turn it off.
    """
    rates = [path for path in paths if path.removeprefix("agent.") in cfg.LEARNING_RATES]
    if rates:
        raise ConfigurationError(
            f"population.ranges names {rates[0]}, but agent.{key} is {value_at(cfg, key)!r}, which "
            f"rewrites learning rates while a member trains. Add agent.{key}={fixed}, or explore "
            "the schedule's own settings instead."
        )


def value_at(cfg: Any, path: str) -> Any:
    """Return the value at a dotted path of a configuration, None if there is no such part."""
    for name in path.split("."):
        cfg = cfg.get(name) if isinstance(cfg, Mapping) else getattr(cfg, name, None)
    return cfg


def set_value(cfg: Any, path: str, value: Any) -> Any:
    """Return an agent's configuration with the value at a dotted path changed.

    Raises:
        ConfigurationError: If there is no such path or it holds another type.
    """
    for name in reversed(path.split(".")):
        value = {name: value}
    return merge(cfg, value, "agent")
