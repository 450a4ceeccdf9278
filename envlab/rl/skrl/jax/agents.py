"""skrl's models and agents on JAX, made from a configuration and without skrl's runner.

The runner would evaluate strings of the configuration as Python, seed everything with an offset of
its own and make a trainer.
"""

from __future__ import annotations

import importlib
import logging
import re
from collections.abc import Mapping
from typing import Any

import jax

from envlab.distributed.context import DistributedContext
from envlab.errors import ConfigurationError, did_you_mean
from envlab.rl.skrl.cfg import SkrlCfg
from envlab.rl.skrl.env import SkrlMarlEnv, SkrlVectorEnv
from envlab.rl.skrl.jax.arrays import CompiledMemory
from envlab.rl.skrl.jax.ranks import PooledScaler
from envlab.rl.skrl.library import MODELS, MULTI_AGENT
from envlab.rl.skrl.settings import library_settings

logger = logging.getLogger(__name__)

ALGORITHMS = ("ppo", "a2c", "sac", "td3", "ddpg", "dqn", "ddqn", "ippo", "mappo")
"""What is offered of skrl on JAX. RPO is not: skrl's own networks would make it PPO, and flax ones
cannot be given the missing noise from outside, as PyTorch's are."""

_COMPONENTS = {
    "KLAdaptiveLR": "skrl.resources.schedulers.jax",
    "GaussianNoise": "skrl.resources.noises.jax",
    "OrnsteinUhlenbeckNoise": "skrl.resources.noises.jax",
}

_CHANNELS_FIRST = re.compile(r"permute\(\s*(\w+)\s*,\s*[(\[]0,\s*3,\s*1,\s*2[)\]]\s*\)")

Models = dict[str, dict[str, Any]]
"""Models by agent and role; the one agent of a single-agent task is ``agent``."""


def make_models(env: SkrlVectorEnv | SkrlMarlEnv, cfg: SkrlCfg, device: jax.Device) -> Models:
    """Return models without parameters yet.

    Raises:
        ConfigurationError: If skrl has a kind of model on PyTorch only.
    """
    if not cfg.models.get("separate", True):
        logger.info(
            "On JAX, skrl's networks do not share layers: agent.models.separate is taken for true."
        )
    instantiators = importlib.import_module("skrl.utils.model_instantiators.jax")
    models: Models = {}
    for name, spaces in _spaces(env).items():
        models[name] = {}
        for role, settings in cfg.models.items():
            if role == "separate":
                continue
            function = getattr(instantiators, MODELS[settings["class"]], None)
            if function is None:
                raise ConfigurationError(
                    f"agent.models.{role}.class is {settings['class']!r}, which skrl has on "
                    "PyTorch only. Use GaussianMixin, or leave --ml_framework jax out."
                )
            given = {key: value for key, value in settings.items() if key != "class"}
            given["network"] = [_channels_last(layers) for layers in given["network"]]
            models[name][role] = function(device=device, **spaces, **given)
    return models


def _channels_last(container: Mapping[str, Any]) -> dict[str, Any]:
    """Return a part of a network as flax wants it.

    Images keep their channels last, where PyTorch wants them permuted; and one number for both
    sides of a kernel, as PyTorch takes it, would be a convolution along one axis.
    """
    layers = [
        {
            name: _paired(given) if name.lower() == "conv2d" else given
            for name, given in part.items()
        }
        if isinstance(part, Mapping)
        else part
        for part in container["layers"]
    ]
    source = _CHANNELS_FIRST.sub(r"\1", str(container["input"]))
    return {**container, "input": source, "layers": layers}


def _paired(given: Any) -> Any:
    """Return a convolution's arguments, named or in order, with pairs for kernel and stride."""
    if isinstance(given, list):
        return [[v, v] if i in (1, 2) and isinstance(v, int) else v for i, v in enumerate(given)]
    sides = ("kernel_size", "stride", "strides")
    return {k: [v, v] if k in sides and isinstance(v, int) else v for k, v in given.items()}


def make_agent(
    models: Models,
    env: SkrlVectorEnv | SkrlMarlEnv,
    cfg: SkrlCfg,
    device: jax.Device,
    context: DistributedContext,
) -> Any:
    """Return skrl's agent, or its agents as one where there are several."""
    package = "multi_agents" if cfg.algorithm in MULTI_AGENT else "agents"
    module = importlib.import_module(f"skrl.{package}.jax.{cfg.algorithm}")
    agent_class = getattr(module, cfg.algorithm.upper())
    values = cfg.for_library()["agent"]
    settings = library_settings(values, _components(context)) | {"experiment": values["experiment"]}
    spaces = _spaces(env)
    memories = {name: _memory(cfg, env.num_envs, device) for name in spaces}
    if not isinstance(env, SkrlMarlEnv):
        settings = _with_sizes(settings, spaces["agent"], device)
        return agent_class(
            models=models["agent"],
            memory=memories["agent"],
            device=device,
            cfg=settings,
            **spaces["agent"],
        )
    # skrl takes a dictionary without the agents' names for one that lacks them.
    each = {name: _with_sizes(settings, spaces[name], device) for name in spaces}
    for key in [name for name in settings if name.endswith("_kwargs")]:
        settings[key] = {name: each[name][key] for name in spaces}
    return agent_class(
        possible_agents=env.possible_agents,
        models=models,
        memories=memories,
        device=device,
        cfg=settings,
        **{
            f"{key}s": {name: spaces[name][key] for name in spaces} for key in spaces[env.agents[0]]
        },
    )


def _components(context: DistributedContext) -> Any:
    """Return a function that looks up a scheduler, preprocessor or noise by its name."""

    def component(name: str, path: str) -> Any:
        if name == "RunningStandardScaler":
            return PooledScaler.of(context)
        if name not in _COMPONENTS:
            known = (*_COMPONENTS, "RunningStandardScaler")
            raise ConfigurationError(
                f"{path} is {name!r}, but on JAX it must be null or one of {', '.join(known)}."
                f"{did_you_mean(str(name), known)}"
            )
        return getattr(importlib.import_module(_COMPONENTS[name]), name)

    return component


def _spaces(env: SkrlVectorEnv | SkrlMarlEnv) -> dict[str, dict[str, Any]]:
    """Return the three spaces by agent, under the names of skrl's arguments."""
    if not isinstance(env, SkrlMarlEnv):
        names = ("observation_space", "state_space", "action_space")
        return {"agent": {name: getattr(env, name) for name in names}}
    return {
        agent: {
            "observation_space": env.observation_spaces[agent],
            "state_space": env.state_spaces[agent],
            "action_space": env.action_spaces[agent],
        }
        for agent in env.possible_agents
    }


def _with_sizes(
    settings: Mapping[str, Any], spaces: Mapping[str, Any], device: jax.Device
) -> dict[str, Any]:
    """Return an agent's settings with what its components must know of the environment."""
    sizes = {
        "observation_preprocessor": {"size": spaces["observation_space"]},
        "state_preprocessor": {"size": spaces["state_space"]},
        "value_preprocessor": {"size": 1},
        "exploration_noise": {},
        "smooth_regularization_noise": {},
    }
    result = dict(settings)
    for name, size in sizes.items():
        if settings.get(name) is not None:
            result[f"{name}_kwargs"] = {**settings[f"{name}_kwargs"], **size, "device": device}
    return result


def _memory(cfg: SkrlCfg, num_envs: int, device: jax.Device) -> CompiledMemory:
    size = int(cfg.memory["memory_size"])
    return CompiledMemory(
        memory_size=cfg.agent["rollouts"] if size < 0 else size,
        num_envs=num_envs,
        device=device,
        replacement=bool(cfg.memory.get("replacement", False)),  # skrl's own default
    )
