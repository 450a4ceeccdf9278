"""Running a policy for whole episodes and summing up its performance."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from envlab.envs import BatchedEnv
from envlab.envs.measures import EpisodeMeasures
from envlab.errors import RunDirectoryError

NUM_JOINTS_MAX = 8
"""Models with more joints get no per-joint line."""


@dataclass(kw_only=True)
class Evaluation:
    """Episodes of one policy."""

    returns: torch.Tensor
    """Undiscounted returns, ``(num_episodes,)``."""
    lengths: torch.Tensor
    """Lengths in steps, ``(num_episodes,)``."""
    success: torch.Tensor | None = None
    """Success, 0 to 1, ``(num_episodes,)``; None if the task has no goal."""
    last_second: dict[str, float]
    """Mean absolute position of each hinge or slide joint over the last second of the episodes."""
    episodes: dict[str, np.ndarray] = field(default_factory=dict)
    """The task's own measures of episodes by name, ``(num_episodes,)`` each; mostly empty."""
    measures: EpisodeMeasures | None = None
    """Sums up the task's measures."""
    place: str = ""
    """Where the episodes took place, such as ``houses of val``."""

    def as_dict(self) -> dict[str, Any]:
        """Return the summary for a JSON file; returns and lengths are means of all episodes."""
        values: dict[str, Any] = {
            "num_episodes": len(self.returns),
            "return": float(self.returns.mean()),
            "return_std": float(self.returns.std()) if len(self.returns) > 1 else 0.0,
            "episode_length": float(self.lengths.float().mean()),
        }
        if self.success is not None:
            values["success_rate"] = float(self.success.mean())
        if self.measures is not None:
            values |= {"place": self.place, "measures": self.measures.summarise(self.episodes)}
        return values

    def lines(self, max_episode_length: int) -> list[str]:
        """Return the summary for a person; a limit of 0 steps means no limit."""
        num = len(self.returns)
        std = float(self.returns.std()) if num > 1 else 0.0
        lines = [
            f"Mean return {float(self.returns.mean()):.3f} (std {std:.3f}) over {num} episodes",
            f"Mean episode length {float(self.lengths.float().mean()):.1f} of "
            f"{max_episode_length or 'any number of'} steps",
        ]
        if self.success is not None:
            lines.append(f"Success rate {float(self.success.mean()):.3f}")
        if self.last_second:
            joints = ", ".join(f"{name} {value:.4f}" for name, value in self.last_second.items())
            lines.append(f"Mean absolute joint positions in the last second (rad or m): {joints}")
        if self.measures is not None:
            summary = self.measures.summarise(self.episodes)
            lines += ["", f"In {self.place}:", self.measures.table(summary)]
        return lines


def evaluate(
    env: BatchedEnv,
    policy: Callable[[dict[str, torch.Tensor]], torch.Tensor],
    episodes_per_env: int = 1,
    after_step: Sequence[Callable[[], None]] = (),
    *,
    seed: int | None = None,
) -> Evaluation:
    """Run the same number of episodes in each environment, so that short ones don't dominate.

    Args:
        env: The environment, which is reset first.
        policy: Maps observations by group to actions ``(num_envs, num_actions)``.
        episodes_per_env: Episodes of each environment.
        after_step: Called after each step, as for a video.
        seed: Restarts the environment's random streams; None: they continue.
    """
    obs, _ = env.reset(seed=seed)
    # Some tasks start first episodes at random steps; here all are judged in full.
    env.episode_length_buf = torch.zeros_like(env.episode_length_buf)
    joints = list(env.joint_positions())
    if len(joints) > NUM_JOINTS_MAX:
        joints = []
    window = max(1, round(1.0 / env.step_dt))
    history = torch.zeros(window, env.num_envs, len(joints), device=env.device)
    length = torch.zeros(env.num_envs, dtype=torch.int64, device=env.device)
    total = torch.zeros(env.num_envs, device=env.device)
    left = torch.full_like(length, episodes_per_env)
    returns, lengths, ends, success = [], [], [], []
    measured: dict[str, list[torch.Tensor]] = {}
    while bool((left > 0).any()):
        # Positions before the step: after it, an environment that ended is in its next episode.
        if joints:
            positions = torch.stack(list(env.joint_positions().values()), dim=1).abs()
            rows = torch.arange(env.num_envs, device=env.device)
            history[torch.remainder(length, window), rows] = positions
        obs, reward, terminated, truncated, info = env.step(policy(obs))
        total += reward
        length += 1
        for call in after_step:
            call()
        ended = (terminated | truncated) & (left > 0)
        if bool(ended.any()):
            returns.append(total[ended].cpu())
            lengths.append(length[ended].cpu())
            seen = length[ended].clamp(max=window).float().unsqueeze(1)
            ends.append((history[:, ended].sum(dim=0) / seen).cpu())
            if "success" in info:
                success.append(info["success"][ended].cpu())
            for name, values in info.get("episodes", {}).items():
                measured.setdefault(name, []).append(values[ended].cpu())
            left -= ended.long()
        reset = terminated | truncated
        total.masked_fill_(reset, 0.0)
        length.masked_fill_(reset, 0)
        history.masked_fill_(reset[None, :, None], 0.0)
    means = torch.cat(ends).mean(dim=0).tolist() if joints else []
    return Evaluation(
        returns=torch.cat(returns),
        lengths=torch.cat(lengths),
        success=torch.cat(success) if success else None,
        last_second=dict(zip(joints, means, strict=True)),
        episodes={name: torch.cat(values).numpy() for name, values in measured.items()},
        measures=env.measures if measured else None,
        place=env.place if measured else "",
    )


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write a summary.

    Raises:
        RunDirectoryError: If it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values, indent=1) + "\n")
    except OSError as error:
        raise RunDirectoryError(
            f"The summary cannot be written to {path}: {error.strerror or error}. "
            "Give --json another file."
        ) from error
