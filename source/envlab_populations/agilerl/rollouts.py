"""Rollouts as AgileRL's programs collect them for PPO."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces


def note_scores(agent: Any, scores: Any, reward: Any, is_over: Any) -> list[int]:
    """Add rewards to running returns, record ended ones, and return their environments."""
    scores += reward
    ended = [int(i) for i in np.flatnonzero(is_over)]
    agent.scores += [float(scores[i]) for i in ended]
    scores[ended] = 0.0
    return ended


@torch.no_grad()
def collect_rollouts(
    agent: Any,
    env: Any,
    n_steps: int | None = None,
    last_obs: Any = None,
    last_done: Any = None,
    last_scores: Any = None,
    last_info: Any = None,
    **_: Any,
) -> tuple[list[float], Any, Any, Any, Any]:
    """Fill an agent's rollout; return the returns of ended episodes, and the current state.

    Args:
        agent: A PPO.
        env: The environments.
        n_steps: Steps of all environments; None: ``learn_step`` over their number.
        last_obs: Current observations; None: the environments are reset.
        last_done: Ignored.
        last_scores: Running returns.
        last_info: Ignored.
    """
    count = env.num_envs
    obs: Any = last_obs
    scores: Any = last_scores
    info: Any = last_info
    if obs is None:
        (obs, info), scores = env.reset(), np.zeros(count)
    agent.rollout_buffer.reset()
    completed: list[float] = []
    is_over = last_done
    for _step in range(n_steps or -(int(agent.learn_step) // -count)):
        action, log_prob, _entropy, value = agent.get_action(
            obs, action_mask=(info or {}).get("action_mask")
        )
        taken = action
        if isinstance(agent.action_space, spaces.Box):
            taken = np.clip(action, agent.action_space.low, agent.action_space.high)
        following, reward, terminated, truncated, info = env.step(taken)
        is_over = np.logical_or(terminated, truncated)
        agent.rollout_buffer.add(
            obs=obs,
            action=action,
            log_prob=log_prob,
            value=value,
            reward=reward,
            done=is_over,
            next_obs=following,
        )
        before = len(agent.scores)
        note_scores(agent, scores, reward, is_over)
        completed += agent.scores[before:]
        obs = following
    return completed, obs, is_over, scores, info
