"""Any Gymnasium environment as a :class:`VectorEnv`: ``--task=gym:CartPole-v1``.

The environments are Gymnasium's own, on the host, without a :class:`Simulation`; see
:mod:`envlab.host` for what steps them. docs/gymnasium.md says what is theirs and what is envlab's.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector.utils import batch_space

from envlab.distributed.context import DistributedContext
from envlab.envs.cfg import NanGuardCfg
from envlab.envs.checks import base_seed, positive, unbounded
from envlab.envs.discrete import DiscreteCfg
from envlab.envs.random import EnvRandom
from envlab.envs.vector_env import VectorEnv
from envlab.errors import ConfigurationError, SimulationError
from envlab.host.batch import Ended, find_time_limit
from envlab.host.maker import EnvMaker, known_kwargs
from envlab.host.spaces import Actions, Observations
from envlab.host.workers import make_batch

logger = logging.getLogger(__name__)

RENDER_FPS = 30
"""Steps per second of an environment that does not say."""


@dataclass(kw_only=True)
class GymSceneCfg:
    """The number of environments (``env.scene.*``)."""

    num_envs: int = 16
    """Environments per process."""


@dataclass(kw_only=True)
class GymEnvCfg:
    """Configuration of a Gymnasium environment (``env.*``)."""

    kwargs: dict[str, Any] = field(default_factory=dict)
    """What ``gymnasium.make`` is given; filled with the environment's own defaults."""
    max_episode_steps: int | None = None
    """Time limit of an episode, in steps; null: the registration's."""
    is_finite_horizon: bool = False
    """Whether the time limit is part of the task, so that it ends an episode as a failure does."""
    num_workers: int | None = None
    """Processes that the environments are stepped in; 0: this one; null: what a measurement at the
    start finds faster. Results do not depend on it."""
    worker_timeout_s: float = 120.0
    """How long workers may take for a step, or to start."""
    seed: int | None = None
    """Base seed of the environments; null: the agent's."""
    scene: GymSceneCfg = field(default_factory=GymSceneCfg)
    """Number of environments."""
    nan_guard: NanGuardCfg = field(default_factory=NanGuardCfg)
    """Limits for non-finite values."""


class GymEnv(VectorEnv):
    """``num_envs`` environments of one Gymnasium id.

    Each has a generator of its own, seeded from the base seed and its global index, so that two
    processes of N environments see what one of 2N would, in any number of workers.

    What is observed is the group ``policy``: float32 ``(num_envs, dim)``, flattened; an image is
    ``(num_envs, height, width, channels)`` in [0, 1]. Actions are ``(num_envs, num_actions)``:
    numbers are clipped to their bounds, choices count from 0.
    """

    cfg: GymEnvCfg  # type: ignore[assignment]
    sim = None  # type: ignore[assignment]
    resumes_exactly = False

    def __init__(
        self,
        spec: EnvSpec,
        cfg: GymEnvCfg | None = None,
        *,
        context: DistributedContext | None = None,
        num_envs: int | None = None,
        device: str | None = None,
        seed: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Make the environments, and reset them.

        Args:
            spec: Gymnasium's registration.
            cfg: The configuration; None: the defaults.
            context: Where this process is; None: a lone process on ``device``.
            num_envs: Overrides ``cfg.scene.num_envs``.
            device: Of the tensors, where there is no ``context``.
            seed: Base seed; None: ``cfg.seed``, or a random one.
            render_mode: None or ``rgb_array``.

        Raises:
            ConfigurationError: If the configuration makes no environment.
            SimulationError: If a worker process fails.
        """
        # Not VectorEnv's own, which would build a simulation.
        self.spec, self.render_mode = spec, render_mode
        self.cfg = cfg = cfg or GymEnvCfg()
        self.context = context or DistributedContext.single(None if device is None else str(device))
        self.device, self.log_dir = self.context.device, None
        self.num_envs = positive(
            "env.scene.num_envs", cfg.scene.num_envs if num_envs is None else num_envs
        )
        _check(cfg)
        first_env = self.context.rank * self.num_envs
        self._batch, model = make_batch(
            _maker(spec, cfg),
            self.num_envs,
            num_workers=cfg.num_workers,
            num_threads=self.context.num_threads,
            first_env=first_env,
            timeout_s=cfg.worker_timeout_s,
            render_mode=render_mode,
        )
        limit = find_time_limit(model)
        self._max_episode_length = 0 if limit is None else limit._max_episode_steps
        self._step_dt = 1.0 / (model.metadata.get("render_fps") or RENDER_FPS)
        seed = seed if seed is not None else cfg.seed
        if seed is None:
            seed = self.context.broadcast(secrets.randbits(31))
        self.random = EnvRandom(seed, first_env, self.num_envs, self.device)
        self.env_ids = self.random.env_ids
        self.common_step_counter, self._num_failed, self._checked_step = 0, 0, 0
        self._episode_length = torch.zeros(self.num_envs, dtype=torch.int64, device=self.device)
        self._observed = Observations(model.observation_space)
        self._acted = Actions(model.action_space)
        self._choices = _choices(self._acted)
        self._low, self._high = (
            torch.from_numpy(bound).to(self.device) for bound in (self._acted.low, self._acted.high)
        )
        self._make_spaces()
        self.reset()

    @property
    def physics_dt(self) -> float:
        return self._step_dt

    @property
    def step_dt(self) -> float:
        """Time between two pictures as the environment wants them shown, in seconds."""
        return self._step_dt

    @property
    def max_episode_length(self) -> int:
        """Time limit of an episode, in steps; 0: none."""
        return self._max_episode_length

    @property
    def episode_length_buf(self) -> torch.Tensor:
        """Steps since the last reset, int64 ``(num_envs,)``; time limits follow what is set."""
        return self._episode_length

    @episode_length_buf.setter
    def episode_length_buf(self, values: torch.Tensor) -> None:
        self._episode_length.copy_(values)
        self._batch.arrays.elapsed[:] = values.cpu().numpy()
        self._batch.set_elapsed()

    def reset(  # type: ignore[override]
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """Seed and reset all environments, or those of ``options["reset_mask"]``.

        Seeds are drawn from the base seed and the environments' steps so far.
        """
        if seed is not None:
            self.random.seed(base_seed(seed))
        self.random.advance()
        mask = torch.ones(self.num_envs, dtype=torch.bool)
        if options and "reset_mask" in options:
            mask = torch.as_tensor(options["reset_mask"], dtype=torch.bool).cpu()
            if mask.shape != (self.num_envs,):
                raise ValueError(
                    f"reset_mask has shape {tuple(mask.shape)}, but must be ({self.num_envs},)."
                )
        seeds = self.random.stream("gymnasium").bits(1)[:, 0] & 0x7FFFFFFF
        self._batch.arrays.mask[:], self._batch.arrays.seeds[:] = mask.numpy(), seeds.cpu().numpy()
        self._batch.reset()
        self._episode_length.masked_fill_(mask.to(self.device), 0)
        self.obs_buf = self._observations(self._batch.arrays.observations)
        return self.obs_buf, {}

    def step(  # type: ignore[override]
        self, actions: torch.Tensor | np.ndarray
    ) -> tuple[dict[str, torch.Tensor], torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """See :meth:`VectorEnv.step`; info holds numbers on every device.

        ``log`` holds the last infos' single numbers, averaged over the episodes that ended.
        """
        self.actions = self._check_actions(actions)
        self.random.advance()
        self.common_step_counter += 1
        arrays = self._batch.arrays
        bounded = self.actions
        if self._choices is None:
            bounded = torch.clamp(bounded, self._low, self._high)
        arrays.actions[:] = bounded.cpu().numpy()
        ended = self._batch.step()
        self._episode_length += 1
        self._count_failures(int(arrays.failed.sum()))
        terminated, truncated = self._copy(arrays.terminated), self._copy(arrays.truncated)
        if self.cfg.is_finite_horizon:
            terminated, truncated = terminated | truncated, torch.zeros_like(truncated)
        info: dict[str, Any] = {}
        if ended:
            info["final_obs"] = self._observations(arrays.final_observations)
            info["_final_obs"] = terminated | truncated
            info["num_ended"] = len(ended)
            info["log"] = _log(ended, int(arrays.truncated.sum()))
            self._episode_length.masked_fill_(info["_final_obs"], 0)
        self.obs_buf = self._observations(arrays.observations)
        return self.obs_buf, self._copy(arrays.rewards), terminated, truncated, info

    def check_health(self) -> None:
        """Report environments that were not finite since the last call."""
        steps = self.common_step_counter - self._checked_step
        failed, self._num_failed, self._checked_step = self._num_failed, 0, self.common_step_counter
        if failed:
            logger.warning(
                "%d environment episodes were ended by non-finite values in the last %d steps.",
                failed,
                steps,
            )

    def state(self) -> dict[str, Any]:
        """Return the counters; Gymnasium's environments themselves cannot be saved."""
        return {
            "common_step_counter": self.common_step_counter,
            "seed": self.random.base_seed,
            "tick": self.random.tick,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore the counters, and begin new episodes, whose seeds follow from them."""
        self.common_step_counter = self._checked_step = int(state["common_step_counter"])
        self.random.seed(int(state["seed"]))
        self.random.tick = int(state["tick"])
        self.reset()

    def render(self) -> tuple[np.ndarray, ...] | None:  # type: ignore[override]
        """Return a picture of environment 0, uint8 ``(height, width, 3)``, in a tuple of one.

        Height and width are even, as videos need: an odd last row or column is left out.
        """
        if self.render_mode is None:
            return None
        picture = np.asarray(self._batch.render(), dtype=np.uint8)
        height, width = (size // 2 * 2 for size in picture.shape[:2])
        return (np.ascontiguousarray(picture[:height, :width]),)

    def close(self, **kwargs: Any) -> None:
        """Close the environments, and end their workers."""
        self._batch.close()

    def _make_spaces(self) -> None:
        acted, shape = self._acted, self._observed.shape
        self.actions = torch.zeros(
            self.num_envs,
            acted.num,
            dtype=torch.float32 if self._choices is None else torch.int64,
            device=self.device,
        )
        is_image = self._observed.is_image
        observed = spaces.Box(0.0, 1.0, shape, np.float32) if is_image else unbounded(shape)
        self.single_observation_space = spaces.Dict({"policy": observed})
        self.single_action_space = (
            spaces.Box(acted.low, acted.high, dtype=np.float32)
            if self._choices is None
            else self._choices.make_space()
        )
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def _check_actions(self, actions: torch.Tensor | np.ndarray) -> torch.Tensor:
        if self._choices is None:
            return super()._check_actions(actions)
        columns = self._choices.columns(torch.as_tensor(actions, device=self.device))
        columns = super()._check_actions(columns)
        self._choices.check_range(columns)  # the host has to wait for them anyway
        return columns

    def _observations(self, rows: np.ndarray) -> dict[str, torch.Tensor]:
        values = self._copy(rows)
        return {"policy": values.float() / 255.0 if self._observed.is_image else values}

    def _copy(self, rows: np.ndarray) -> torch.Tensor:
        """Return a copy of shared rows on the device."""
        return torch.from_numpy(rows).to(self.device, copy=True)

    def _count_failures(self, failed: int) -> None:
        self._num_failed += failed
        share = self.cfg.nan_guard.max_bad_share
        if failed > max(1.0, share * self.num_envs):
            raise SimulationError(
                f"{failed} of {self.num_envs} environments became non-finite in step "
                f"{self.common_step_counter}, more than the share "
                f"env.nan_guard.max_bad_share={share}. Look at the environment's observations and "
                "rewards."
            )


def action_kind(spec: EnvSpec, cfg: GymEnvCfg) -> str:
    """Return ``box``, ``discrete`` or ``multidiscrete``: see :class:`Actions`.

    Raises:
        ConfigurationError: If the environment cannot be made.
    """
    model = _maker(spec, cfg).make()
    model.close()
    return Actions(model.action_space).kind


def _maker(spec: EnvSpec, cfg: GymEnvCfg) -> EnvMaker:
    """Return what makes an environment: with keywords that differ from its own defaults."""
    known = known_kwargs(spec)
    changed = {
        name: value
        for name, value in cfg.kwargs.items()
        if name not in known or value != known[name]
    }
    return EnvMaker(spec=spec, kwargs=changed, max_episode_steps=cfg.max_episode_steps)


def _check(cfg: GymEnvCfg) -> None:
    """Refuse numbers that make no environment."""
    if cfg.max_episode_steps is not None:
        positive("env.max_episode_steps", cfg.max_episode_steps)
    positive("env.worker_timeout_s", cfg.worker_timeout_s)
    if cfg.num_workers is not None and cfg.num_workers < 0:
        raise ConfigurationError(
            f"env.num_workers is {cfg.num_workers}, but must be at least 0, or null to measure "
            "what pays."
        )


def _choices(acted: Actions) -> DiscreteCfg | None:
    """Return what actions choose among; None where they are numbers."""
    if acted.kind == "box":
        return None
    return DiscreteCfg(num_options=acted.sizes[0] if acted.kind == "discrete" else acted.sizes)


def _log(ended: Ended, num_truncated: int) -> dict[str, float]:
    """Return what ended the episodes, and the means of their last infos' numbers."""
    share = num_truncated / len(ended)
    log = {
        "Episode_Termination/time_out": share,
        "Episode_Termination/terminated": 1.0 - share,
    }
    for name in dict.fromkeys(name for _, info in ended for name in info):
        values = [info[name] for _, info in ended if name in info]
        log[f"Episode_Info/{name}"] = sum(values) / len(values)
    return log
