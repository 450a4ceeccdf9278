"""skrl's agents from a configuration, on either framework and without skrl's runner."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from envlab.skrl.cfg import SkrlCfg
from envlab.skrl.env import SkrlEnv, Spaces
from envlab.skrl.library import MULTI_AGENT, component, load_skrl
from envlab.skrl.settings import library_settings

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
        settings["time_limit_bootstrap"] = False  # done by envlab.skrl.torch.amp instead
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
