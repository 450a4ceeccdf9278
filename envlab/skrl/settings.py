"""An agent's settings as skrl's classes need them: names become classes, formulas functions.

skrl evaluates such strings as Python. Here a name is looked up, and a formula may only calculate.
"""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

from simpleeval import InvalidExpression, SimpleEval

from envlab.config import resolve
from envlab.errors import ConfigurationError
from envlab.skrl.library import component_arguments

_FORMULA_NODES = (ast.Constant, ast.Name, ast.BinOp, ast.UnaryOp, ast.Call)
"""Allowed nodes of a formula: neither attributes nor subscripts."""


def library_settings(
    agent: Mapping[str, Any], component: Callable[[str, str], Any]
) -> dict[str, Any]:
    """Return an agent's settings for skrl's dataclass of the algorithm.

    Args:
        agent: ``agent.agent`` of the configuration, without ``experiment``.
        component: Returns the framework's class for a scheduler's, preprocessor's or noise's name
            and the path of its setting.

    Raises:
        ConfigurationError: For a name or formula that is not understood.
    """
    path = "agent.agent"
    settings = {name: value for name, value in agent.items() if name not in ("class", "experiment")}
    for name, value in agent.items():
        if f"{name}_kwargs" in agent and value is not None:
            at, given = f"{path}.{name}", agent[f"{name}_kwargs"]
            settings[name] = _each(value, functools.partial(_named, component, at))
            settings[f"{name}_kwargs"] = _arguments(value, given, at)
    if agent.get("exploration_scheduler") is not None:
        formula = str(agent["exploration_scheduler"])
        settings["exploration_scheduler"] = schedule(formula, f"{path}.exploration_scheduler")
    scale = settings.pop("rewards_shaper_scale", None)
    shaper = settings.get("rewards_shaper")
    if isinstance(shaper, str):
        settings["rewards_shaper"] = resolve(shaper)
    if scale not in (None, 1.0):
        if shaper is not None:
            raise ConfigurationError(
                "agent.agent.rewards_shaper and rewards_shaper_scale are both set, but one would "
                "hide the other. Set one of them to null."
            )
        settings["rewards_shaper"] = _Scaled(float(scale))
    return settings


def schedule(formula: str, path: str) -> Callable[[int, int], float]:
    """Return a formula in ``timestep`` and ``timesteps`` as a function of them.

    It may contain numbers, ``+ - * / **``, parentheses, ``min``, ``max`` and ``exp``.

    Raises:
        ConfigurationError: If it contains anything else.
    """
    evaluator = SimpleEval(functions={"min": min, "max": max, "exp": math.exp})
    evaluator.nodes = {kind: evaluator.nodes[kind] for kind in _FORMULA_NODES}
    text = formula.strip().replace("math.exp", "exp")  # as in skrl's own examples

    def value(timestep: int, timesteps: int) -> float:
        evaluator.names = {"timestep": timestep, "timesteps": timesteps}
        return float(evaluator.eval(text, previously_parsed=parsed))

    try:
        parsed = ast.parse(text, mode="eval").body
        value(1, 2)
    except (InvalidExpression, SyntaxError, TypeError, ArithmeticError, ValueError) as error:
        raise ConfigurationError(
            f"{path} is {formula!r}, but must be a formula in timestep and timesteps such as "
            "'max(0.05, 1 - timestep / timesteps)'."
        ) from error
    return value


def _named(component: Callable[[str, str], Any], path: str, name: str) -> Any:
    return component(name, path)


class _Scaled:
    """Rewards times a number."""

    def __init__(self, scale: float) -> None:
        self._scale = scale

    def __call__(self, rewards: Any, *_: Any) -> Any:
        return rewards * self._scale


def _arguments(named: Any, given: Any, path: str) -> Any:
    """Return a component's arguments, or a tuple of them for a list of components."""
    if isinstance(named, list | tuple):
        each = given if isinstance(given, list | tuple) else [given] * len(named)
        return tuple(
            {} if name is None else component_arguments(name, kwargs, path)
            for name, kwargs in zip(named, each, strict=True)
        )
    return component_arguments(named, given, path)


def _each(value: Any, function: Callable[[Any], Any]) -> Any:
    """Apply a function to a value, or to each in a list of values for an agent's networks."""
    if isinstance(value, list | tuple):
        return tuple(None if one is None else function(one) for one in value)
    return function(value)
