"""What envlab itself asks of an agent's configuration, whatever the library calls it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, Self

from envlab.config import merge


class AgentCfg(Protocol):
    """Configuration of a library's agent (``agent.*``): a dataclass that knows these names.

    A library that keeps a value elsewhere gives it as a property, and says in :attr:`FLAGS` where a
    flag finds it.
    """

    FLAGS: ClassVar[Mapping[str, str]]
    """Flags that set a value, and where it lies: ``{"max_iterations": "trainer.timesteps"}``."""

    LEARNING_RATES: ClassVar[tuple[str, ...]]
    """Where learning rates lie that ``--lr_scaling`` multiplies."""
    BATCH_SIZES: ClassVar[tuple[str, ...]]
    """Where batch sizes lie that count samples, and that ``--global_num_envs`` divides."""

    @property
    def seed(self) -> int:
        """Base seed; -1 draws one."""

    @property
    def max_iterations(self) -> int:
        """Iterations in all, those before a resume included."""

    @property
    def num_steps_per_env(self) -> int:
        """Steps of each environment per iteration."""

    @property
    def save_interval(self) -> int:
        """Iterations between two checkpoints."""

    @property
    def save_interval_minutes(self) -> float:
        """A checkpoint is also due when the last one is older; 0: by iterations only."""

    @property
    def keep_checkpoints(self) -> int:
        """So many of the newest checkpoints are kept, beside the best one; 0 keeps all."""

    @property
    def audit_interval(self) -> int:
        """Iterations between two audits; the first update and every checkpoint are audited too."""

    @property
    def lr_scaling(self) -> str:
        """Rule for the learning rates of several processes: ``none``, ``linear`` or ``sqrt``."""

    @property
    def experiment_name(self) -> str:
        """Folder of the runs: ``logs/<library>/<experiment_name>``."""

    @property
    def run_name(self) -> str:
        """Appended to the run's timestamp."""

    @property
    def logger(self) -> str:
        """``tensorboard``, ``wandb`` or ``neptune``."""

    @property
    def origin(self) -> dict[str, str]:
        """What a checkpoint must agree in beside library and task, such as the algorithm."""

    @property
    def is_multi_agent(self) -> bool:
        """Whether the algorithm trains several agents, each with a policy of its own."""

    def with_task_values(self, values: Mapping[str, Any]) -> Self:
        """Return this configuration with a task's own values over it."""


@dataclass(kw_only=True)
class BasicAgentCfg:
    """An :class:`AgentCfg` that keeps every value under its own name; a library adds its own."""

    FLAGS: ClassVar[Mapping[str, str]] = {
        name: name
        for name in (
            "seed",
            "max_iterations",
            "experiment_name",
            "run_name",
            "logger",
            "lr_scaling",
        )
    }
    LEARNING_RATES: ClassVar[tuple[str, ...]] = ()
    BATCH_SIZES: ClassVar[tuple[str, ...]] = ()

    seed: int = 42
    """Base seed; -1 draws one."""
    num_steps_per_env: int = 24
    """Steps of each environment per iteration."""
    max_iterations: int = 1500
    """Iterations in all, those before a resume included."""
    save_interval: int = 50
    """Iterations between two checkpoints."""
    save_interval_minutes: float = 10.0
    """A checkpoint is also due when the last one is older; 0: by iterations only."""
    keep_checkpoints: int = 10
    """So many of the newest checkpoints are kept, beside the best one; 0 keeps all."""
    audit_interval: int = 50
    """Iterations between two audits; the first update and every checkpoint are audited too."""
    lr_scaling: Literal["none", "linear", "sqrt"] = "none"
    """Factor of the learning rates: 1, the number of processes, or its square root."""
    experiment_name: str = "default"
    """Folder of the runs: ``logs/<library>/<experiment_name>``."""
    run_name: str = ""
    """Appended to the run's timestamp."""
    logger: str = "tensorboard"
    """``tensorboard``, ``wandb`` or ``neptune``."""

    @property
    def origin(self) -> dict[str, str]:
        """Nothing: there is one algorithm."""
        return {}

    @property
    def is_multi_agent(self) -> bool:
        """No: a multi-agent task is converted."""
        return False

    def with_task_values(self, values: Mapping[str, Any]) -> Self:
        """Return this configuration with a task's own values over it."""
        return merge(self, values, "agent")


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


def resolved(cfg: Any) -> AgentCfg:
    """Return an agent's configuration with a number wherever a null stands for one.

    It is done as late as possible, so that such a number follows what it comes from.

    Raises:
        ConfigurationError: If values contradict each other.
    """
    settled: AgentCfg = cfg.resolved() if hasattr(cfg, "resolved") else cfg
    return settled
