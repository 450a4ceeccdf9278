"""skrl 2.1.1: what it offers and its own defaults, without what an import of it does to a process.

``import skrl`` joins a process group of its own (NCCL, or JAX's) where there are several processes,
and gives its logger a coloured handler. :func:`load_skrl` prevents both, so everything of envlab
imports skrl through it first. Whoever builds an agent then tells ``skrl.config`` the ranks.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import logging
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from envlab.distributed.ranks import hidden_world_size
from envlab.errors import ConfigurationError, did_you_mean

ON_POLICY = ("ppo", "a2c", "rpo", "trpo", "cem", "amp", "ippo", "mappo")
"""Algorithms that learn from a rollout and forget it."""
OFF_POLICY = ("sac", "td3", "ddpg", "dqn", "ddqn")
"""Algorithms with a replay memory."""
MULTI_AGENT = ("ippo", "mappo")
"""Algorithms that train several agents."""
ALGORITHMS = ON_POLICY + OFF_POLICY

MODELS = {
    "GaussianMixin": "gaussian_model",
    "MultivariateGaussianMixin": "multivariate_gaussian_model",
    "CategoricalMixin": "categorical_model",
    "MultiCategoricalMixin": "multicategorical_model",
    "DeterministicMixin": "deterministic_model",
}
"""Kinds of models, and skrl's functions that make them."""
COMPONENTS = {
    "RunningStandardScaler": "skrl.resources.preprocessors.torch",
    "KLAdaptiveLR": "skrl.resources.schedulers.torch",
    "GaussianNoise": "skrl.resources.noises.torch",
    "OrnsteinUhlenbeckNoise": "skrl.resources.noises.torch",
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
"""What an agent's configuration may name, and the PyTorch module that has it."""

_GIVEN_BY_ADAPTER = {"optimizer", "last_epoch", "verbose", "size", "device", "self"}
_OF_ENVIRONMENT = {"observation_space", "state_space", "action_space", "device", "return_source"}


class _Once(logging.Filter):
    """Lets a message through once; CEM repeats some in every update."""

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
    """Import skrl without a process group of its own, its log in envlab's, and return it."""
    with hidden_world_size():
        skrl = importlib.import_module("skrl")
    skrl.logger.handlers.clear()
    skrl.logger.parent = logging.getLogger("envlab")
    skrl.logger.setLevel(logging.WARNING)  # else every rank tells that it broadcasts parameters
    skrl.logger.addFilter(_Once())
    return skrl


def agent_defaults(algorithm: str, ml_framework: str) -> dict[str, Any]:
    """Return all settings of an algorithm with skrl's own defaults, as plain data."""
    load_skrl()
    package = "multi_agents" if algorithm in MULTI_AGENT else "agents"
    module = importlib.import_module(f"skrl.{package}.torch.{algorithm}")
    values: dict[str, Any] = {"class": algorithm.upper()}
    for field in dataclasses.fields(getattr(module, f"{algorithm.upper()}_CFG")):
        if field.name == "experiment" or (field.name, ml_framework) == ("mixed_precision", "jax"):
            continue
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        values[field.name] = _number(default, str(field.type))
        if field.name == "rewards_shaper":
            values["rewards_shaper_scale"] = None  # a setting of skrl's runner, not of its agents
    return values


@functools.cache
def _model_defaults(kind: str) -> dict[str, Any]:
    load_skrl()
    module = importlib.import_module("skrl.utils.model_instantiators.torch")
    parameters = inspect.signature(getattr(module, MODELS[kind])).parameters.values()
    return {
        parameter.name: _number(parameter.default, str(parameter.annotation))
        for parameter in parameters
        if parameter.name not in _OF_ENVIRONMENT
    }


def model_defaults(kind: str, path: str) -> dict[str, Any]:
    """Return all settings of a kind of model with skrl's own defaults.

    Args:
        kind: A name of :data:`MODELS`.
        path: Where it was named, for the error.

    Raises:
        ConfigurationError: If there is no such kind.
    """
    if kind not in MODELS:
        raise ConfigurationError(
            f"{path} is {kind!r}, but must be one of {', '.join(MODELS)}."
            f"{did_you_mean(str(kind), MODELS)}"
        )
    return dict(_model_defaults(kind))


def component(name: str, path: str) -> Any:
    """Return the PyTorch class of a scheduler, preprocessor or noise.

    Args:
        name: A name of :data:`COMPONENTS`; skrl would evaluate it as Python instead.
        path: Where it was named, for the error.

    Raises:
        ConfigurationError: If there is none of this name.
    """
    if name not in COMPONENTS:
        raise ConfigurationError(
            f"{path} is {name!r}, but must be null or one of {', '.join(COMPONENTS)}."
            f"{did_you_mean(str(name), COMPONENTS)}"
        )
    load_skrl()
    return getattr(importlib.import_module(COMPONENTS[name]), name)


def component_defaults(name: str, path: str) -> dict[str, Any]:
    """Return the settings of a component that have defaults, and null for those without.

    Raises:
        ConfigurationError: If there is no such component.
    """
    parameters = inspect.signature(component(name, path).__init__).parameters.values()
    return {
        parameter.name: None
        if parameter.default is inspect.Parameter.empty
        else _number(parameter.default, str(parameter.annotation))
        for parameter in parameters
        if parameter.name not in _GIVEN_BY_ADAPTER
    }


def component_arguments(name: str, given: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return all arguments of a component.

    Those that were filled in for another one, which an override has replaced, are dropped.

    Args:
        name: The component.
        given: ``<path>_kwargs`` of the configuration.
        path: Where the component was named, for errors.

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


def _number(value: Any, annotation: str) -> Any:
    """Return a default as what its annotation says: skrl writes some floats as 0 or 2."""
    return float(value) if isinstance(value, int) and annotation.startswith("float") else value
