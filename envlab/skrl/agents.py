"""skrl's agents from a configuration, on either framework and without skrl's runner.

Names in settings become classes, formulas functions. skrl evaluates such strings as Python; here a
name is looked up, and a formula may only calculate.
"""

from __future__ import annotations

import ast
import functools
import importlib
import math
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from simpleeval import InvalidExpression, SimpleEval

from envlab.config import resolve
from envlab.errors import ConfigurationError
from envlab.skrl.cfg import SkrlCfg
from envlab.skrl.env import SkrlEnv, Spaces
from envlab.skrl.library import MULTI_AGENT, component, component_arguments, load_skrl

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


Models = dict[str, dict[str, Any]]
"""Models by agent and role; the one agent of a single-agent task is ``agent``."""

_NO_FILES = {"write_interval": 0, "checkpoint_interval": 0, "wandb": False}


def agent_class(
    algorithm: str, ml_framework: str, replacements: Mapping[str, Callable[[Any], Any]]
) -> Any:
    """Return a subclass of skrl's class of an algorithm that suits our loop.

    Args:
        algorithm: Its name in lower case.
        ml_framework: ``torch`` or ``jax``.
        replacements: By the name of a function that ``update`` calls in skrl's module, a function
            that returns its replacement when given skrl's own. skrl itself is not changed: the
            subclass has the same ``update``, which looks up its functions in another place.
    """
    load_skrl()
    package, base_name = (
        ("multi_agents", "MultiAgent") if algorithm in MULTI_AGENT else ("agents", "Agent")
    )
    modules = importlib.import_module(f"skrl.{package}.{ml_framework}")
    base = getattr(modules, base_name)
    stock = getattr(importlib.import_module(f"{modules.__name__}.{algorithm}"), algorithm.upper())
    update: FunctionType = stock.update
    called = {
        name: replace(update.__globals__[name])
        for name, replace in replacements.items()
        if name in update.__code__.co_names
    }
    own = FunctionType(
        update.__code__, {**update.__globals__, **called}, closure=update.__closure__
    )
    own.__kwdefaults__ = update.__kwdefaults__
    # Between the algorithm and its base class: the former calls this instead of the latter's.
    untracked = type("Untracked", (base,), {"record_transition": _track_nothing})
    return type(stock.__name__, (stock, untracked), {"update": own})


def _track_nothing(agent: Any, **_: Any) -> None:
    """Stand in for the statistics of skrl's base classes, which wait for the device three times."""


def make_agent(
    stock: Any,
    models: Models,
    env: SkrlEnv,
    cfg: SkrlCfg,
    *,
    device: Any,
    memory_class: Any,
    scaler_class: Any,
) -> Any:
    """Return an agent, or several as one.

    Args:
        stock: The class, see :func:`agent_class`.
        models: Networks, by agent and role.
        env: The environments.
        cfg: The configuration, resolved.
        device: The framework's device.
        memory_class: The framework's ``RandomMemory``.
        scaler_class: The class for ``RunningStandardScaler``, which works across ranks.
    """

    def named(name: str, path: str) -> Any:
        found = component(name, path, cfg.ml_framework)
        return scaler_class if name == "RunningStandardScaler" else found

    memory = functools.partial(_make_memory, cfg, device, memory_class)
    settings = library_settings(cfg.agent, named) | {"experiment": _NO_FILES}
    if cfg.ml_framework == "jax":
        settings.pop("mixed_precision", None)  # false, see SkrlCfg.resolved()
    special: dict[str, Any] = {}
    motions: dict[str, Any] = {}
    if cfg.algorithm == "amp":
        settings["time_limit_bootstrap"] = False  # done by envlab.skrl.torch.ranks instead
        motions["amp_observation_preprocessor"] = {"size": env.env.amp_observation_space}
        special = {
            "amp_observation_space": env.env.amp_observation_space,
            "motion_dataset": memory(cfg.motion_dataset, 1),
            "reply_buffer": memory(cfg.reply_buffer, 1),
            "collect_reference_motions": env.env.collect_reference_motions,
        }
    each = {
        name: _with_sizes(settings, _sizes(spaces) | motions, device)
        for name, spaces in env.spaces.items()
    }
    memories = {name: memory(cfg.memory, env.env.num_envs) for name in env.spaces}
    if cfg.is_multi_agent:
        return _make_agents(stock, models, env, settings, each, memories, device)
    return stock(
        models=models["agent"],
        memory=memories["agent"],
        device=device,
        cfg=each["agent"],
        **env.spaces["agent"]._asdict(),
        **special,
    )


def _make_agents(
    stock: Any,
    models: Models,
    env: SkrlEnv,
    settings: Mapping[str, Any],
    each: Mapping[str, Mapping[str, Any]],
    memories: Mapping[str, Any],
    device: Any,
) -> Any:
    """Return several agents as one, from the settings of all and of ``each`` by name."""
    # skrl rejects a dictionary that is empty, or that lacks the agents' names.
    by_agent = {
        key: {name: each[name][key] for name in each} for key in settings if key.endswith("_kwargs")
    }
    spaces_by_agent = {name: spaces._asdict() for name, spaces in env.spaces.items()}
    return stock(
        possible_agents=list(env.spaces),
        models=models,
        memories=memories,
        device=device,
        cfg={**settings, **by_agent},
        **{
            f"{key}s": {name: spaces[key] for name, spaces in spaces_by_agent.items()}
            for key in Spaces._fields
        },
    )


def _make_memory(
    cfg: SkrlCfg,
    device: Any,
    memory_class: Any,
    values: Mapping[str, Any] | None,
    num_envs: int,
) -> Any:
    """Return a memory from a configuration; a negative size means that of a rollout."""
    assert values is not None
    size = int(values["memory_size"])
    return memory_class(
        memory_size=cfg.agent["rollouts"] if size < 0 else size,
        num_envs=num_envs,
        device=device,
        replacement=bool(values.get("replacement", False)),
    )


def _sizes(spaces: Spaces) -> dict[str, dict[str, Any]]:
    """Return the sizes in an environment that an agent's components need."""
    return {
        "observation_preprocessor": {"size": spaces.observation_space},
        "state_preprocessor": {"size": spaces.state_space},
        "value_preprocessor": {"size": 1},
        "exploration_noise": {},
        "smooth_regularization_noise": {},
    }


def _with_sizes(
    settings: Mapping[str, Any], sizes: Mapping[str, dict[str, Any]], device: Any
) -> dict[str, Any]:
    """Return an agent's settings with sizes and device for the components that it has."""
    result = dict(settings)
    for name, size in sizes.items():
        if settings.get(name) is not None:
            result[f"{name}_kwargs"] = {**settings[f"{name}_kwargs"], **size, "device": device}
    return result
