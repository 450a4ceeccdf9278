"""Terms that are functions: their parameters are looked up once, before the first step."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from envlab.envs.entities import SceneEntityCfg, resolve_entity
from envlab.envs.managers.sensor import SensorManager
from envlab.envs.managers.term import TermCfg
from envlab.envs.vector_env import VectorEnv
from envlab.errors import ConfigurationError
from envlab.state import State


@dataclass(kw_only=True)
class FunctionTermCfg(TermCfg):
    """A term that is a function ``func(env, ..., **params)`` over the batch."""

    func: Callable[..., Any]
    """The function, or its ``module:name``."""
    params: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments; a :class:`SceneEntityCfg` arrives as the :class:`SceneEntity` it names."""


class ManagerTermBase:
    """A term with a memory: a class where a function may stand, under Isaac Lab's name.

    It is made once, and then called as a function is: ``__call__(env, **params)``. A subclass
    declares what it remembers in ``STATE``, and forgets it in :meth:`reset`.

    Attributes:
        cfg: The term's configuration, whose ``params`` hold entities already looked up.
        env: The environment.
    """

    STATE = State()

    def __init__(self, cfg: FunctionTermCfg, env: VectorEnv) -> None:
        self.cfg, self.env = cfg, env

    def reset(self, mask: torch.Tensor) -> None:
        """Forget the episodes of ``mask``, bool ``(num_envs,)``, which have ended."""

    def __call__(self, *args: Any, **params: Any) -> Any:
        """Return what the function of such a term returns."""
        raise NotImplementedError


def bind(
    term: FunctionTermCfg, env: Any, sensors: SensorManager, name: str
) -> functools.partial[Any]:
    """Return ``term.func`` with ``env`` and its parameters filled in, scene entities looked up.

    A term that is a class is made, and joins ``env.memories``.

    Args:
        term: The term.
        env: The environment, the function's first argument.
        sensors: The sensors that parameters may name instead of a part of the scene.
        name: Its kind and name, such as ``rewards.feet``.

    Raises:
        ConfigurationError: If the parameters do not fit the function.
    """
    made: Any = term.func
    is_class = inspect.isclass(made)
    check_names(made, term.params)
    signature = inspect.signature(made.__call__ if is_class else made)
    needed = [
        name
        for name, parameter in list(signature.parameters.items())[2 if is_class else 1 :]
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
        name: _look_up(value, env, sensors) if isinstance(value, SceneEntityCfg) else value
        for name, value in (defaults | term.params).items()
    }
    if not is_class:
        return functools.partial(made, env, **params)
    if not issubclass(made, ManagerTermBase):
        raise ConfigurationError(
            f"The term {made.__name__} is a class, but not a ManagerTermBase. Derive it from "
            "envlab.envs.ManagerTermBase."
        )
    made = env.memories[name] = made(dataclasses.replace(term, params=params), env)
    return functools.partial(made, env, **params)


def with_params(
    bound: functools.partial[Any], params: Mapping[str, Any]
) -> functools.partial[Any] | None:
    """Return what :func:`bind` returned with other parameters; None if they are the same.

    Raises:
        ConfigurationError: If the function has no such parameter.
    """
    check_names(bound.func, params)
    merged = {**bound.keywords, **params}
    if merged == bound.keywords:
        return None
    return functools.partial(bound.func, *bound.args, **merged)


def record_anew(env: VectorEnv) -> None:
    """Let steps that are recorded as graphs be recorded again, with other numbers."""
    if env.recording is not None:
        env.recording.record_anew()


def check_names(func: Any, names: Iterable[str]) -> None:
    """Refuse names that are not parameters of a term's function.

    Raises:
        ConfigurationError: With the first of them.
    """
    is_class = inspect.isclass(func)
    parameters = list(inspect.signature(func.__call__ if is_class else func).parameters)
    unknown = set(names) - set(parameters)
    if unknown:
        name = getattr(func, "__name__", type(func).__name__)
        raise ConfigurationError(
            f"The term function {name} has no parameter {sorted(unknown)[0]!r}; "
            f"it has {', '.join(parameters[2 if is_class else 1 :]) or 'none'}."
        )


def _look_up(cfg: SceneEntityCfg, env: VectorEnv, sensors: SensorManager) -> Any:
    """Return the part of the scene, or of the sensor of this name, that ``cfg`` names."""
    if cfg.name in sensors.active_terms:
        return sensors.get_term(cfg.name).select(cfg)
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
