"""Refusal of what FastSAC cannot train, before anything is built; and the range of actions."""

from __future__ import annotations

import contextlib

import numpy as np
import torch
from gymnasium import spaces

from envlab.envs import BatchedEnv, ManagerEnv
from envlab.envs.action_use import ActionBound
from envlab.envs.checks import refuse_dictionaries
from envlab.errors import ConfigurationError
from envlab.fast_sac.cfg import FastSacCfg


def check_supported(cfg: FastSacCfg, env: BatchedEnv) -> None:
    """Refuse environments on which this configuration cannot train.

    Raises:
        ConfigurationError: Naming the obstacle, and what to do.
    """
    if not isinstance(env.single_action_space, spaces.Box):
        raise ConfigurationError(
            f"The task's actions are choices ({env.single_action_space}), but fast_sac supports "
            "only real numbers. Train it with rl_games, or with skrl's ppo or dqn."
        )
    refuse_dictionaries(env.obs_buf, ("policy", "critic"), "fast_sac")
    for group in ("policy", "critic"):
        if group in env.obs_buf and env.obs_buf[group].dim() != 2:
            shape = list(env.obs_buf[group].shape[1:])
            raise ConfigurationError(
                f"The task's observations {group!r} are of {shape}, but fast_sac takes only "
                "vectors. Train it with rsl_rl or skrl."
            )


def action_range(env: BatchedEnv, cfg: FastSacCfg) -> tuple[torch.Tensor, torch.Tensor]:
    """Return half the width and the middle of the actions' range, ``(num_actions,)`` each.

    It is the task's own range, or if that has no bounds, from ``-agent.action_limit`` to
    ``agent.action_limit``, or the joints' range (``agent.joint_limits``).

    Raises:
        ConfigurationError: If the latter is set, but actions are not targets of joints.
    """
    space = env.single_action_space
    assert isinstance(space, spaces.Box)
    is_bounded = np.isfinite(space.low) & np.isfinite(space.high)
    limit = _joint_reach(env) if cfg.joint_limits else np.full(space.shape, cfg.action_limit)
    low = np.where(is_bounded, space.low, -limit)
    high = np.where(is_bounded, space.high, limit)
    half_width, middle = (high - low) / 2.0, (high + low) / 2.0
    device = env.context.device
    return (
        torch.as_tensor(half_width, dtype=torch.float32, device=device).flatten(),
        torch.as_tensor(middle, dtype=torch.float32, device=device).flatten(),
    )


def action_bound(cfg: FastSacCfg, env: BatchedEnv) -> ActionBound:
    """Return the range of actions, what sets it, and how to widen it.

    Raises:
        ConfigurationError: See :func:`action_range`.
    """
    half_width, middle = (values.cpu().numpy() for values in action_range(env, cfg))
    setting, wider = f"agent.action_limit={cfg.action_limit:g}", "agent.joint_limits=true"
    frees = f"agent.action_limit={2 * cfg.action_limit:g}"
    if cfg.joint_limits:
        setting, frees = wider, "agent.joint_limits=false and a wider agent.action_limit"
    else:
        with contextlib.suppress(ConfigurationError):  # of a task without such joints
            if np.median(_joint_reach(env)) > cfg.action_limit:
                frees = f"{frees} or {wider}"
    return ActionBound(half_width=half_width, middle=middle, setting=setting, frees=frees)


def _joint_reach(env: BatchedEnv) -> np.ndarray:
    """Return the action that takes each joint's target to its farther limit, ``(num_actions,)``."""
    if not isinstance(env, ManagerEnv):
        raise ConfigurationError(
            "agent.joint_limits=true, but the task's actions are not those of a ManagerEnv, which "
            "name the joints that they move. Set agent.action_limit instead."
        )
    found: list[float] = []
    for name, term in env.action_manager.describe().items():
        if term is None or term["type"] != "JointPositionAction":
            raise ConfigurationError(
                f"agent.joint_limits=true, but the action {name!r} is not a target of joints. Give "
                "agent.action_limit in its place."
            )
        for joint, scale, offset in zip(
            term["joint_names"], term["scale"], term["offset"], strict=True
        ):
            model = env.sim.model.joint(joint)
            if not model.limited[0]:
                raise ConfigurationError(
                    f"agent.joint_limits=true, but the joint {joint!r} has no limits. Give "
                    "agent.action_limit in its place."
                )
            found.append(np.abs(model.range - offset).max() / abs(scale))
    return np.array(found)
