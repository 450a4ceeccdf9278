"""skrl's components and defaults, without the side effects of importing it.

With several processes, ``import skrl`` joins a separate process group (NCCL, or JAX's), and it
gives its logger a coloured handler. :func:`load_skrl` prevents both, so all of envlab imports skrl
through it first. Code that builds an agent then sets the ranks in ``skrl.config``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import inspect
import io
import logging
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from envlab.distributed.ranks import hidden_world_size
from envlab.errors import CheckpointError, ConfigurationError, did_you_mean

logger = logging.getLogger(__name__)

ON_POLICY = ("ppo", "a2c", "rpo", "trpo", "cem", "amp", "ippo", "mappo")
"""Algorithms that learn from a rollout and then discard it."""
OFF_POLICY = ("sac", "td3", "ddpg", "dqn", "ddqn")
"""Algorithms with a replay memory."""
MULTI_AGENT = ("ippo", "mappo")
"""Algorithms that train several agents."""
ALGORITHMS = ON_POLICY + OFF_POLICY

SQUASHED = "SquashedGaussianMixin"
"""Default kind of SAC's policies, which skrl lacks: its Gaussian, squashed by tanh to the actions'
bounds."""
LOG_STD = (-5.0, 2.0)
"""Bounds of a squashed policy's log standard deviation, as in CleanRL's SAC and SLM-Lab 5."""
MODELS = {
    "GaussianMixin": "gaussian_model",
    SQUASHED: "gaussian_model",
    "MultivariateGaussianMixin": "multivariate_gaussian_model",
    "CategoricalMixin": "categorical_model",
    "MultiCategoricalMixin": "multicategorical_model",
    "DeterministicMixin": "deterministic_model",
}
"""Kinds of models, and the functions of skrl that make them."""
COMPONENTS = {
    "RunningStandardScaler": "skrl.resources.preprocessors.",
    "KLAdaptiveLR": "skrl.resources.schedulers.",
    "GaussianNoise": "skrl.resources.noises.",
    "OrnsteinUhlenbeckNoise": "skrl.resources.noises.",
    **dict.fromkeys(
        (
            "ConstantLR",
            "CosineAnnealingLR",
            "ExponentialLR",
            "LinearLR",
            "MultiStepLR",
            "PolynomialLR",
            "StepLR",
        ),
        "torch.optim.lr_scheduler",
    ),
}
"""Components that an agent's configuration may name, with their modules; a trailing dot means one
module in each framework."""

_SQUASHED_SETTINGS = ("initial_log_std", "fixed_log_std", "network", "output")
"""Settings of a Gaussian that also apply to a squashed one."""

_MISTAKES = (
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    NameError,
    RuntimeError,
    SyntaxError,
    AssertionError,
)
"""Exceptions of skrl for a configuration that it does not understand."""
_NOT_SET_BY_USER = {
    *("self", "device", "optimizer", "last_epoch", "verbose", "size"),
    *("observation_space", "state_space", "action_space", "return_source"),
}
"""Arguments of components and models that have no place in a configuration."""


class _Once(logging.Filter):
    """Passes each message only once; CEM repeats some in every update."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        kind = record.getMessage().partition(": ")[0]
        is_new = kind not in self._seen
        self._seen.add(kind)
        return is_new


@functools.cache
def load_skrl() -> ModuleType:
    """Import and return skrl, without its own process group, and with its log in envlab's."""
    with hidden_world_size():
        skrl = importlib.import_module("skrl")
    skrl.logger.handlers.clear()
    skrl.logger.parent = logging.getLogger("envlab")
    skrl.logger.setLevel(logging.WARNING)  # else every rank logs that it broadcasts parameters
    skrl.logger.addFilter(_Once())
    return skrl


@contextlib.contextmanager
def library_errors() -> Iterator[None]:
    """Turn skrl's errors about a configuration into one sentence, and its prints into log lines."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            yield
    except _MISTAKES as error:
        reason = str(error).splitlines()[0] if str(error) else ""
        raise ConfigurationError(
            f"skrl refuses the agent's configuration ({type(error).__name__}: {reason}). Correct "
            "it by an override agent.<key>=<value>."
        ) from error
    logger.debug("%s", printed.getvalue().strip())


def misfit(part: str, reason: str) -> CheckpointError:
    """Return the error for a checkpoint whose networks differ from the configuration's."""
    return CheckpointError(
        f"The checkpoint does not fit the configured {part} ({reason}). Use the run's own "
        "configuration: leave out overrides of agent.models and agent.agent."
    )


def agent_defaults(algorithm: str) -> dict[str, Any]:
    """Return all settings of an algorithm with skrl's own defaults, as plain data."""
    load_skrl()
    package = "multi_agents" if algorithm in MULTI_AGENT else "agents"
    module = importlib.import_module(f"skrl.{package}.torch.{algorithm}")
    values: dict[str, Any] = {"class": algorithm.upper()}
    for field in dataclasses.fields(getattr(module, f"{algorithm.upper()}_CFG")):
        if field.name == "experiment":
            continue
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        values[field.name] = _number(default, str(field.type))
        if field.name == "rewards_shaper":
            values["rewards_shaper_scale"] = None  # a setting of skrl's runner, not of its agents
    return values


def model_defaults(kind: str, path: str) -> dict[str, Any]:
    """Return all settings of a kind of model with skrl's own defaults.

    Args:
        kind: A name of :data:`MODELS`.
        path: Path of the setting, for the error.

    Raises:
        ConfigurationError: If there is no such kind.
    """
    if kind not in MODELS:
        raise ConfigurationError(
            f"{path} is {kind!r}, but must be one of {', '.join(MODELS)}."
            f"{did_you_mean(str(kind), MODELS)}"
        )
    load_skrl()
    module = importlib.import_module("skrl.utils.model_instantiators.torch")
    defaults = _argument_defaults(getattr(module, MODELS[kind]))
    if kind == SQUASHED:
        return {name: defaults[name] for name in _SQUASHED_SETTINGS}
    return defaults


def component(name: str, path: str, ml_framework: str = "torch") -> Any:
    """Return the class of a scheduler, preprocessor or noise.

    Args:
        name: A name of :data:`COMPONENTS`; skrl would evaluate it as Python instead.
        path: Path of the setting, for the error.
        ml_framework: ``torch`` or ``jax``, which has fewer.

    Raises:
        ConfigurationError: If there is none of this name.
    """
    known = [key for key in COMPONENTS if ml_framework == "torch" or COMPONENTS[key].endswith(".")]
    if name not in known:
        where = "on JAX it " if ml_framework == "jax" else ""
        raise ConfigurationError(
            f"{path} is {name!r}, but {where}must be null or one of {', '.join(known)}."
            f"{did_you_mean(str(name), known)}"
        )
    load_skrl()
    module = COMPONENTS[name] + ml_framework if COMPONENTS[name].endswith(".") else COMPONENTS[name]
    return getattr(importlib.import_module(module), name)


def component_defaults(name: str, path: str) -> dict[str, Any]:
    """Return the settings of a component that have defaults, and null for those without.

    Raises:
        ConfigurationError: If there is no such component.
    """
    return _argument_defaults(component(name, path).__init__)


def component_arguments(name: str, given: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return all arguments of a component.

    Those filled in for another component that an override has replaced are dropped.

    Args:
        name: The component.
        given: ``<path>_kwargs`` of the configuration.
        path: Path of the component's setting, for errors.

    Raises:
        ConfigurationError: If an argument is unknown or missing.
    """
    known = component_defaults(name, path)
    others = [component_defaults(other, path) for other in COMPONENTS]
    for key, value in given.items():
        if key not in known and not any(key in other and other[key] == value for other in others):
            raise ConfigurationError(
                f"{path}_kwargs.{key} is {value!r}, but {name} takes only {', '.join(known)}. "
                f"Remove it by ~{path}_kwargs.{key}."
            )
    arguments = {key: given.get(key, default) for key, default in known.items()}
    missing = [key for key, value in arguments.items() if value is None]
    if missing:
        raise ConfigurationError(
            f"{path} is {name!r}, which needs {', '.join(missing)}. Give it by "
            f"+{path}_kwargs.{missing[0]}=<value>."
        )
    return arguments


def _argument_defaults(function: Any) -> dict[str, Any]:
    """Return the arguments that a configuration may set, null for those without a default."""
    return {
        parameter.name: None
        if parameter.default is inspect.Parameter.empty
        else _number(parameter.default, str(parameter.annotation))
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name not in _NOT_SET_BY_USER
    }


def _number(value: Any, annotation: str) -> Any:
    """Return a default with the annotated type: skrl writes some floats as 0 or 2."""
    return float(value) if isinstance(value, int) and annotation.startswith("float") else value
