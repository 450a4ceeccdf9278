"""The return of a random policy, which strengths are relative to: measured once per task."""

from __future__ import annotations

import contextlib
import logging
import math
from pathlib import Path
from typing import Any

import torch
from gymnasium import spaces

from envlab.foreign import parse_json, read_text
from envlab.run.manifest import LOG_ROOT, write_json
from envlab.training.evaluation import evaluate

logger = logging.getLogger(f"envlab.{__name__}")

BASELINES = Path(LOG_ROOT, "hogwild", "random_baselines.json")
EPISODES = 16


def random_baseline(task: str, env: Any, path: Path = BASELINES) -> float:
    """Return the mean return of uniform actions; without bounds, they are from -1 to 1.

    Args:
        task: Id of the task.
        env: Its environments, which are reset.
        path: The file of means by task.
    """
    known: dict[str, float] = {}
    with contextlib.suppress(OSError, ValueError):
        known = {str(key): float(value) for key, value in parse_json(read_text(path)).items()}
    if task not in known:
        returns = evaluate(env, uniform_actions(env), math.ceil(EPISODES / env.num_envs)).returns
        known[task] = float(returns.mean())
        logger.info("A random policy returns %.2f on %s.", known[task], task)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, known)
    return known[task]


def uniform_actions(env: Any) -> Any:
    """Return a policy of uniform actions, see :func:`random_baseline`."""
    space, num_envs = env.single_action_space, env.num_envs
    if isinstance(space, spaces.Discrete):
        return lambda obs: torch.randint(int(space.n), (num_envs, 1), device=env.device)
    low, high = (torch.as_tensor(bound, device=env.device) for bound in (space.low, space.high))
    low, high = low.clamp(min=-1e6), high.clamp(max=1e6)
    is_bounded = bool((high - low < 1e6).all())
    low, high = (low, high) if is_bounded else (-torch.ones_like(low), torch.ones_like(high))
    return lambda obs: low + (high - low) * torch.rand(num_envs, *low.shape, device=env.device)
