"""What all terms share: they can be removed, and their parameters are looked up once."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import torch

from envlab.envs.entities import SceneEntityCfg, resolve_entity
from envlab.errors import ConfigurationError

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv

T = TypeVar("T")


@dataclass(kw_only=True)
class TermCfg:
    """A part of an environment; an override may remove it (``env.events.push=null``)."""

    __removable__: ClassVar[bool] = True


@dataclass(kw_only=True)
class FunctionTermCfg(TermCfg):
    """A term that is a function ``func(env, ..., **params)`` over the batch."""

    func: Callable[..., Any]
    """The function, or ``module:name`` of it."""
    params: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments; a :class:`SceneEntityCfg` arrives as the :class:`SceneEntity` it names."""


def terms_of(container: Any, kind: type[T]) -> dict[str, T]:
    """Return the terms of type ``kind`` in a container dataclass by name, without removed ones.

    Args:
        container: A dataclass whose fields are terms, or None.
        kind: The configuration class that its terms derive from.

    Raises:
        ConfigurationError: If a field holds something that is no such term.
    """
    if container is None:
        return {}
    terms = {}
    for item in dataclasses.fields(container):
        value = getattr(container, item.name)
        if isinstance(value, kind):
            terms[item.name] = value
        elif value is not None and isinstance(value, TermCfg):
            raise ConfigurationError(
                f"{type(container).__name__}.{item.name} is a {type(value).__name__}, "
                f"but must be a {kind.__name__}."
            )
    return terms


def bind(term: FunctionTermCfg, env: ManagerEnv) -> Callable[..., Any]:
    """Return ``term.func`` with ``env`` and its parameters filled in, scene entities looked up.

    Raises:
        ConfigurationError: If the parameters do not fit the function.
    """
    signature = inspect.signature(term.func)
    unknown = set(term.params) - set(signature.parameters)
    if unknown:
        raise ConfigurationError(
            f"The term function {term.func.__name__} has no parameter {sorted(unknown)[0]!r}; "
            f"it has {', '.join(list(signature.parameters)[1:]) or 'none'}."
        )
    needed = [
        name
        for name, parameter in list(signature.parameters.items())[1:]
        if parameter.default is parameter.empty and name not in (*term.params, "mask", "stream")
    ]
    if needed:
        raise ConfigurationError(
            f"The term function {term.func.__name__} needs the parameter {needed[0]!r}. Add it to "
            "the term's params."
        )
    defaults = {
        name: parameter.default
        for name, parameter in signature.parameters.items()
        if isinstance(parameter.default, SceneEntityCfg)
    }
    params = {
        name: _look_up(value, env) if isinstance(value, SceneEntityCfg) else value
        for name, value in (defaults | term.params).items()
    }
    return functools.partial(term.func, env, **params)


def _look_up(cfg: SceneEntityCfg, env: ManagerEnv) -> Any:
    """Return the part of the scene, or of the sensor of this name, that ``cfg`` names."""
    if cfg.name in env.sensor_manager.active_terms:
        return env.sensor_manager.get_term(cfg.name).select(cfg)
    return resolve_entity(cfg, env.sim.model, env.device)


def check_shapes(
    kind: str, names: Sequence[str], values: Sequence[torch.Tensor], num_envs: int
) -> None:
    """Refuse terms that do not return one value per environment.

    Raises:
        ConfigurationError: Naming the term and its shape.
    """
    for name, value in zip(names, values, strict=True):
        if value.shape != (num_envs,):
            raise ConfigurationError(
                f"The {kind} term {name!r} returned shape {tuple(value.shape)}, but must "
                f"return ({num_envs},)."
            )
