"""Running a policy for whole episodes and summing up its performance."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import torch

from envlab.envs import BatchedEnv, SceneEntityCfg
from envlab.envs.entities import resolve_entity
from envlab.envs.episodes import EpisodeMeasures
from envlab.envs.managers.command import CommandTerm
from envlab.errors import ConfigurationError, RunDirectoryError
from envlab.run.records import NAMES
from envlab.training.intervals import Interval, mean_interval, rate_interval


class Tracking:
    """Mean errors of an environment's commands over the episodes in progress.

    A step's error is that from the command that the policy saw before the step. The last step of an
    episode does not count, because after it the robot is in the next episode.

    Attributes:
        units: Units of the errors, by name; empty if the task has no such command.
    """

    def __init__(self, env: Any) -> None:
        manager: Any = getattr(env, "command_manager", None)
        names = [] if manager is None else manager.active_terms
        terms = {name: manager.get_term(name) for name in names}
        self._terms: list[CommandTerm] = [term for term in terms.values() if term.TRACKED]
        self.units: dict[str, str] = {}
        for name, term in terms.items():
            for error, unit in term.TRACKED.items():
                self.units[f"{name}.{error}" if error in self.units else error] = unit
        self._references: list[Any] = []
        self._sums = torch.zeros(len(self.units), env.num_envs, device=env.device)
        self._steps = torch.zeros(env.num_envs, device=env.device)

    def before_step(self) -> None:
        """Keep what is commanded."""
        self._references = [term.snapshot() for term in self._terms]

    def after_step(self, ended: torch.Tensor) -> None:
        """Add a step's errors, but those of environments that ended, bool ``(num_envs,)``."""
        if not self._terms:
            return
        pairs = zip(self._terms, self._references, strict=True)
        errors = [term.tracking_errors(reference) for term, reference in pairs]
        self._sums += torch.where(ended, 0.0, torch.cat(errors))
        self._steps += ~ended

    def means(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the mean errors of episodes, ``(k, num_rows)``; NaN for those of one step."""
        return self._sums[:, rows] / self._steps[rows]

    def forget(self, rows: torch.Tensor) -> None:
        """Reset the sums of environments."""
        self._sums.masked_fill_(rows, 0.0)
        self._steps.masked_fill_(rows, 0.0)


NUM_JOINTS_MAX = 8
"""Models with more joints get no per-joint line."""
PATIENCE = 10
"""Time limits after which an episode is taken for one without an end."""
LONGEST = 1_000_000
"""Steps after which it is where the task has no time limit."""


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
    tracked: dict[str, np.ndarray] = field(default_factory=dict)
    """Mean distances from what was commanded by name, ``(num_episodes,)`` each; NaN for episodes of
    one step."""
    units: dict[str, str] = field(default_factory=dict)
    """Their units."""
    falls: torch.Tensor | None = None
    """Whether each episode ended by a fall, bool ``(num_episodes,)``; None for robots that stand on
    a base."""
    step_dt: float = 0.0
    """Duration of a step, in s."""

    @property
    def hours(self) -> float:
        """Time that robots were played, in h."""
        return float(self.lengths.sum()) * self.step_dt / 3600.0

    @functools.cached_property
    def intervals(self) -> dict[str, Interval]:
        """95 % intervals over episodes, by name of what :meth:`as_dict` has a mean of."""
        if len(self.returns) < 2:
            return {}
        sampled = {"return": self.returns.double().numpy()}
        if self.success is not None:
            sampled["success_rate"] = self.success.double().numpy()
        sampled |= {name: values[~np.isnan(values)] for name, values in self.tracked.items()}
        found = {name: mean_interval(a) for name, a in sampled.items() if len(a) > 1}
        if self.falls is not None:
            found["falls_per_hour"] = rate_interval(int(self.falls.sum()), self.hours)
        return found

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
        for name, errors in self.tracked.items():
            if not np.isnan(errors).all():
                values[name] = float(np.nanmean(errors))
        if self.falls is not None:
            values["falls_per_hour"] = float(self.falls.sum()) / self.hours
        if intervals := self.intervals:
            values["intervals"] = {name: list(ends) for name, ends in intervals.items()}
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
        lines += self._table()
        if self.measures is not None:
            summary = self.measures.summarise(self.episodes)
            lines += ["", f"In {self.place}:", self.measures.table(summary)]
        return lines

    def _table(self) -> list[str]:
        """Return means with their intervals."""
        values, found = self.as_dict(), self.intervals
        units = {**self.units, "falls_per_hour": f"({self.hours:.3g} h of robot time)"}
        lines = []
        for name, (low, high) in found.items():
            interval = f"{low:.4g} to {high:.4g}"
            words = NAMES.get(name, name.replace("_", " "))
            lines.append(f"  {words:<32}{values[name]:>9.4g}  {interval:<20} {units.get(name, '')}")
        return ["95 % intervals over episodes:", *map(str.rstrip, lines)] if lines else []


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

    Raises:
        ConfigurationError: If an episode does not end.
    """
    check_ends(env)
    obs, _ = env.reset(seed=seed)
    # Some tasks start first episodes at random steps; here all are judged in full.
    env.episode_length_buf = torch.zeros_like(env.episode_length_buf)
    played = _Played(env, episodes_per_env)
    while bool((played.left > 0).any()):
        played.before_step()
        obs, reward, terminated, truncated, info = env.step(policy(obs))
        for call in after_step:
            call()
        played.after_step(reward, terminated, truncated, info)
    return played.evaluation()


class _Played:
    """The episodes of an evaluation, and what is known of those that have not ended.

    Attributes:
        left: Episodes that each environment has yet to end, ``(num_envs,)``.
    """

    def __init__(self, env: BatchedEnv, episodes_per_env: int) -> None:
        joints = list(env.joint_positions())
        self._joints = joints if len(joints) <= NUM_JOINTS_MAX else []
        self._window = max(1, round(1.0 / env.step_dt))
        self._last_second = torch.zeros(
            self._window, env.num_envs, len(self._joints), device=env.device
        )
        self._rows = torch.arange(env.num_envs, device=env.device)
        self._length = torch.zeros(env.num_envs, dtype=torch.int64, device=env.device)
        self._return = torch.zeros(env.num_envs, device=env.device)
        self.left = torch.full_like(self._length, episodes_per_env)
        self._longest = PATIENCE * env.max_episode_length or LONGEST
        self._tracking = Tracking(env)
        self._follows_clip = "mpkpe" in self._tracking.units
        self._env = env
        self._ended: dict[str, list[torch.Tensor]] = {}  # by name, those of each step
        self._measured: dict[str, list[torch.Tensor]] = {}

    def before_step(self) -> None:
        # After the step, an environment that ended is in its next episode.
        if self._joints:
            positions = torch.stack(list(self._env.joint_positions().values()), dim=1).abs()
            self._last_second[torch.remainder(self._length, self._window), self._rows] = positions
        self._tracking.before_step()

    def after_step(
        self,
        reward: torch.Tensor,
        terminated: torch.Tensor,
        truncated: torch.Tensor,
        info: dict[str, Any],
    ) -> None:
        """Raise :class:`ConfigurationError` if an episode does not end."""
        self._return += reward
        self._length += 1
        reset = terminated | truncated
        self._tracking.after_step(reset)
        ended = reset & (self.left > 0)
        if bool(ended.any()):
            self._keep(ended, terminated, truncated, info)
            self.left -= ended.long()
        self._tracking.forget(reset)
        self._return.masked_fill_(reset, 0.0)
        self._length.masked_fill_(reset, 0)
        self._last_second.masked_fill_(reset[None, :, None], 0.0)
        if int(self._length.max()) > self._longest:
            raise ConfigurationError(_ENDLESS.format(f"one has lasted {self._longest:,} steps"))

    def _keep(
        self,
        ended: torch.Tensor,
        terminated: torch.Tensor,
        truncated: torch.Tensor,
        info: dict[str, Any],
    ) -> None:
        """Keep the values of the episodes that ended."""
        seen = self._length[ended].clamp(max=self._window).float().unsqueeze(1)
        kept = {
            "returns": self._return[ended],
            "lengths": self._length[ended],
            "last_second": self._last_second[:, ended].sum(dim=0) / seen,
            "tracked": self._tracking.means(ended).T,
        }
        success = info.get("success")
        if success is None and self._follows_clip:
            success = (truncated & ~terminated).float()  # it followed to the end
        if success is not None:
            kept["success"] = success[ended]
        falls = terminated if success is None else terminated & (success < 0.5)
        kept["falls"] = falls[ended]
        for name, values in kept.items():
            self._ended.setdefault(name, []).append(values.cpu())
        for name, values in info.get("episodes", {}).items():
            self._measured.setdefault(name, []).append(values[ended].cpu())

    def evaluation(self) -> Evaluation:
        env, units = self._env, self._tracking.units
        ended = {name: torch.cat(values) for name, values in self._ended.items()}
        means = ended["last_second"].mean(dim=0).tolist()
        # An episode that follows a clip ends where it is off the clip.
        falls_over = has_free_root(env) and not self._follows_clip
        return Evaluation(
            returns=ended["returns"],
            lengths=ended["lengths"],
            success=ended.get("success"),
            last_second=dict(zip(self._joints, means, strict=True)),
            episodes={name: torch.cat(values).numpy() for name, values in self._measured.items()},
            measures=env.measures if self._measured else None,
            place=env.place if self._measured else "",
            tracked=dict(zip(units, ended["tracked"].T.contiguous().numpy(), strict=True)),
            units=units,
            falls=ended["falls"] if falls_over else None,
            step_dt=env.step_dt,
        )


_ENDLESS = (
    "An evaluation plays whole episodes, but those of this task do not end: {}. Add a termination, "
    "such as mdp.time_out, to the task."
)


def check_ends(env: BatchedEnv) -> None:
    """Refuse a task whose episodes never end.

    Raises:
        ConfigurationError: If it has no terminations.
    """
    manager = getattr(env, "termination_manager", None)
    if manager is not None and not manager.active_terms:
        raise ConfigurationError(_ENDLESS.format("env.terminations has no terms"))


def has_free_root(env: Any) -> bool:
    """Return whether the robot may fall: whether its topmost body moves freely."""
    sim = getattr(env, "sim", None)
    if sim is None:
        return False
    try:
        entity = resolve_entity(SceneEntityCfg("robot"), sim.model, env.device)
    except ConfigurationError:  # it has another name, or joints of several
        return False
    joint = sim.model.body_jntadr[entity.root_body]
    return bool(joint >= 0 and sim.model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE)


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
