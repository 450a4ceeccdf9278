"""Configurations that skrl would answer with a traceback, a hang or wrong numbers are refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from envlab.distributed.context import DistributedContext
from envlab.envs import BatchedEnv
from envlab.envs.action_use import ActionBound
from envlab.errors import ConfigurationError
from envlab.skrl.cfg import SkrlCfg
from envlab.skrl.defaults import default_models
from envlab.skrl.env import SkrlEnv
from envlab.skrl.library import ON_POLICY, SQUASHED

ALONE = ("trpo", "cem")
"""Algorithms without distributed code."""

_ACTIONS: Mapping[type, tuple[str, ...]] = {
    spaces.Box: ("GaussianMixin", SQUASHED, "MultivariateGaussianMixin", "DeterministicMixin"),
    spaces.Discrete: ("CategoricalMixin",),
    spaces.MultiDiscrete: ("MultiCategoricalMixin",),
}
"""Kinds of policies by kind of actions."""
_ACTORS = ("policy", "target_policy")
"""Networks that output actions."""
_READ = re.compile(r"""\b(OBSERVATIONS|STATES)\b(\[['"](\w+)['"]\])?""")
"""skrl's observations or states in the input of a network, and their group."""
_CONTINUOUS = ("td3", "ddpg", "sac")
_DISCRETE = ("dqn", "ddqn")


def check_supported(cfg: SkrlCfg, env: SkrlEnv, context: DistributedContext) -> None:
    """Refuse a configuration that cannot train.

    Args:
        cfg: The configuration, resolved.
        env: The environment as skrl sees it.
        context: The process's context.

    Raises:
        ConfigurationError: Naming the value and what to do.
    """
    algorithm, agent = cfg.algorithm, cfg.agent
    if context.is_distributed and algorithm in ALONE:
        raise ConfigurationError(
            f"--algorithm {algorithm} was requested on {context.world_size} processes, but skrl's "
            f"{algorithm.upper()} works on one. Train without --distributed, or choose ppo."
        )
    if context.is_distributed and agent.get("kl_threshold"):
        raise ConfigurationError(
            f"agent.agent.kl_threshold is {agent['kl_threshold']}, but on {context.world_size} "
            "processes an early stop of one would hang the others. Set it to 0; the scheduler "
            "KLAdaptiveLR also bounds the divergence."
        )
    _check_roles(cfg)
    _check_memory(cfg, env.env.num_envs)
    _check_states(cfg, env)
    _check_actions(cfg, env)
    check_clipping(cfg, env)
    _check_inputs(cfg, env)
    if algorithm == "amp" and not hasattr(env.env, "collect_reference_motions"):
        raise ConfigurationError(
            "AMP needs reference motions, but the task has no amp_observation_space and no "
            "collect_reference_motions. Choose another algorithm."
        )


def needs_bounds(cfg: SkrlCfg) -> bool:
    """Return whether actions without bounds should lie between -1 and 1.

    DDPG and TD3 clip actions with noise, and fail without a bound on PyTorch; a squashed Gaussian
    lies between bounds.
    """
    is_squashed = cfg.models.get("policy", {}).get("class") == SQUASHED
    return is_squashed or cfg.algorithm in ("ddpg", "td3")


def action_bound(cfg: SkrlCfg, env: BatchedEnv) -> ActionBound | None:
    """Return the bound that :func:`needs_bounds` gives to actions."""
    return unit_bound(cfg.algorithm) if needs_bounds(cfg) else None


def unit_bound(algorithm: str) -> ActionBound:
    """Return the bound that skrl's environments have for some algorithms: no setting widens it."""
    return ActionBound(
        half_width=1.0,
        setting=f"-1 to 1 for {algorithm.upper()}",
        frees="--algorithm=ppo, which has no bound, or a larger scale of the task's actions",
    )


def _check_roles(cfg: SkrlCfg) -> None:
    missing = [role for role in default_models(cfg.algorithm) if role not in cfg.models]
    if missing:
        raise ConfigurationError(
            f"agent.models lacks {', '.join(missing)}, which {cfg.agent['class']} needs. Add them, "
            "or leave agent.models out for small default networks."
        )
    if cfg.is_multi_agent and "STATES" in _inputs(cfg.models.get("policy", {})):
        raise ConfigurationError(
            "agent.models.policy.network reads STATES, which only a central critic sees. Write "
            "OBSERVATIONS."
        )


def _check_memory(cfg: SkrlCfg, num_envs: int) -> None:
    size = cfg.memory["memory_size"]
    if str(cfg.memory["class"]).lower() != "randommemory":
        raise ConfigurationError(
            f"agent.memory.class is {cfg.memory['class']!r}, but only 'RandomMemory' is supported."
        )
    if cfg.algorithm not in ON_POLICY:
        if size <= 0:
            raise ConfigurationError(
                f"agent.memory.memory_size is {size}, but {cfg.agent['class']} keeps transitions "
                "for longer than a rollout. Give a number of timesteps, such as 1000."
            )
        return
    rollouts = cfg.agent["rollouts"]
    if size not in (-1, rollouts):
        raise ConfigurationError(
            f"agent.memory.memory_size is {size}, but must be agent.agent.rollouts = {rollouts}, "
            "or -1, which means the same."
        )
    batch = rollouts * num_envs
    if cfg.agent.get("mini_batches", 1) > batch:
        raise ConfigurationError(
            f"agent.agent.mini_batches is {cfg.agent['mini_batches']}, but there are only {batch} "
            "samples per process and iteration. Use fewer, or more environments."
        )


def _check_states(cfg: SkrlCfg, env: SkrlEnv) -> None:
    if all(seen.state_space is not None for seen in env.spaces.values()):
        return
    for role, model in _models(cfg):
        if "STATES" in _inputs(model):
            raise ConfigurationError(
                f"agent.models.{role}.network reads STATES, but the task has no observations for a "
                "critic alone. Write OBSERVATIONS."
            )
    if cfg.agent.get("state_preprocessor") is not None:
        raise ConfigurationError(
            "agent.agent.state_preprocessor is set, but the task has no observations for a critic "
            "alone. Set it to null; observation_preprocessor is for the others."
        )


def _check_actions(cfg: SkrlCfg, env: SkrlEnv) -> None:
    found = next(iter(env.spaces.values())).action_space
    kind = type(found)
    if cfg.algorithm in _CONTINUOUS + _DISCRETE:
        wanted = spaces.Box if cfg.algorithm in _CONTINUOUS else spaces.Discrete
        if not isinstance(found, wanted):
            raise ConfigurationError(
                f"{cfg.agent['class']} needs actions of a {wanted.__name__} space, but the task's "
                f"are {kind.__name__}. Choose another algorithm, such as ppo."
            )
    policy = cfg.models.get("policy")
    if policy is not None and policy["class"] not in _ACTIONS.get(kind, (policy["class"],)):
        raise ConfigurationError(
            f"agent.models.policy.class is {policy['class']!r}, but the task's actions are "
            f"{kind.__name__}. Use {' or '.join(_ACTIONS[kind])}."
        )
    unbounded = isinstance(found, spaces.Box) and not np.isfinite(found.high).all()
    if unbounded and cfg.agent.get("random_timesteps"):
        raise ConfigurationError(
            f"agent.agent.random_timesteps is {cfg.agent['random_timesteps']}, but the task's "
            "actions have no bounds to draw random ones between. Set it to 0."
        )


def check_clipping(cfg: SkrlCfg, env: SkrlEnv) -> None:
    """Refuse to clip without bounds: skrl fails on PyTorch, but not on JAX."""
    is_bounded = all(_has_bounds(seen.action_space) for seen in env.spaces.values())
    for role, model in _models(cfg):
        for name in ("clip_actions", "clip_mean_actions"):
            if not model.get(name):
                continue
            path = f"agent.models.{role}.{name}"
            if role not in _ACTORS:
                raise ConfigurationError(
                    f"{path} is true, but this network gives values, which the bounds of actions "
                    "are not for. Set it to false."
                )
            if not is_bounded:
                raise ConfigurationError(
                    f"{path} is true, but the task's actions have no bounds to clip to. Set it to "
                    "false; a network whose output is 'tanh(ACTIONS)' keeps within -1 to 1."
                )


def _has_bounds(space: spaces.Space[Any]) -> bool:
    if not isinstance(space, spaces.Box):
        return False
    return bool(np.isfinite(space.low).any() or np.isfinite(space.high).any())


def _check_inputs(cfg: SkrlCfg, env: SkrlEnv) -> None:
    """Refuse networks that read missing groups, or the rows of an image as samples."""
    if cfg.is_multi_agent:
        return
    own = env.spaces["agent"]
    seen = {"OBSERVATIONS": own.observation_space, "STATES": own.state_space}
    for role, model in _models(cfg):
        for part in model.get("network", []):
            for token, _, group in _READ.findall(str(part.get("input", ""))):
                path, space = f"agent.models.{role}.network", seen[token]
                if space is not None:
                    _check_input(cfg, path, part, (token, group), space)


def _check_input(
    cfg: SkrlCfg,
    path: str,
    part: Mapping[str, Any],
    read_from: tuple[str, str],
    space: spaces.Space[Any],
) -> None:
    """Check the input of a part of a network: skrl's observations or states, or a group of them."""
    token, group = read_from
    read, key = f'{token}["{group}"]' if group else token, token.lower()
    groups = list(space.spaces) if isinstance(space, spaces.Dict) else []
    if group not in (groups or [""]):
        known = " or ".join(f'{token}["{name}"]' for name in groups) or token
        raise ConfigurationError(
            f"{path} reads {read}, but agent.obs_groups.{key} is {cfg.obs_groups[key]}, of which "
            f"networks read {known}. Write that, or change agent.obs_groups.{key}."
        )
    shape = (space[group] if isinstance(space, spaces.Dict) else space).shape or ()
    layers = str(part.get("layers", []))
    if len(shape) == 3 and "conv2d" not in layers and "flatten" not in layers:
        raise ConfigurationError(
            f"{path} has neither conv2d nor flatten, but {read} is an image of {list(shape)}. Add "
            "layers for it, as Isaac-Cartpole-Depth-Camera-Direct-v0 has them in its agent file."
        )


def _models(cfg: SkrlCfg) -> list[tuple[str, dict[str, Any]]]:
    return [(role, model) for role, model in cfg.models.items() if role != "separate"]


def _inputs(model: Mapping[str, Any]) -> str:
    """Return the inputs of a network's parts, in capitals."""
    return " ".join(str(part.get("input", "")).upper() for part in model.get("network", []))
