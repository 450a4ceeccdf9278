"""Any Gymnasium environment as a :class:`BatchedEnv`: ``--task=gym:CartPole-v1``.

The environments are Gymnasium's own, on the host, without a :class:`Simulation`; see
:mod:`envlab.host` for the workers. docs/gymnasium.md says what is theirs and what is envlab's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from envlab.config import NonNegativeInt, PositiveFloat, PositiveInt
from envlab.distributed.context import DistributedContext
from envlab.envs.batched_env import BatchedEnv
from envlab.envs.cfg import NanGuardCfg
from envlab.envs.checks import unbounded
from envlab.envs.discrete import DiscreteCfg
from envlab.envs.episodes import Log
from envlab.host.batch import Ended, find_time_limit
from envlab.host.maker import EnvMaker, known_kwargs
from envlab.host.spaces import Actions, Observations
from envlab.host.workers import make_batch

RENDER_FPS = 30
"""Steps per second of an environment that does not declare them."""


@dataclass(kw_only=True)
class GymSceneCfg:
    """The number of environments (``env.scene.*``)."""

    num_envs: PositiveInt = 16
    """Environments per process."""


@dataclass(kw_only=True)
class GymEnvCfg:
    """Configuration of a Gymnasium environment (``env.*``)."""

    kwargs: dict[str, Any] = field(default_factory=dict)
    """Keywords for ``gymnasium.make``; filled with the environment's own defaults."""
    max_episode_steps: PositiveInt | None = None
    """Time limit of an episode, in steps; null: the registration's."""
    num_frames: PositiveInt = 1
    """Observations of the last steps that are joined to one, the newest last; of vectors only."""
    frame_padding: Literal["reset", "zero"] = "reset"
    """The padding for steps before an episode: its first observation, or zeros."""
    is_finite_horizon: bool = False
    """Whether the time limit is part of the task, so that it ends an episode like a failure."""
    num_workers: NonNegativeInt | None = None
    """Number of processes that step the environments; 0: this one; null: whatever a measurement at
    the start finds faster. Results do not depend on it."""
    worker_timeout_s: PositiveFloat = 120.0
    """Time limit of workers for a step, or to start, in seconds."""
    seed: int | None = None
    """Base seed of the environments; null: the agent's."""
    scene: GymSceneCfg = field(default_factory=GymSceneCfg)
    """Number of environments."""
    nan_guard: NanGuardCfg = field(default_factory=NanGuardCfg)
    """Limits for non-finite values."""


class GymEnv(BatchedEnv):
    """``num_envs`` environments of one Gymnasium id.

    Each has its own generator, seeded from the base seed and its global index, so that two
    processes of N environments see the same as one of 2N, in any number of workers.

    Observations are the group ``policy``: float32 ``(num_envs, dim)``, flattened; an image is
    ``(num_envs, height, width, channels)`` in [0, 1]. Actions are ``(num_envs, num_actions)``:
    numbers are clipped to their bounds, choices count from 0.
    """

    cfg: GymEnvCfg
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
            ConfigurationError: If the configuration is not valid.
            SimulationError: If a worker process fails.
        """
        self.spec, cfg = spec, cfg or GymEnvCfg()
        self._maker = _maker(spec, cfg)
        super().__init__(
            cfg,
            context=context,
            num_envs=num_envs,
            device=device,
            seed=seed,
            render_mode=render_mode,
        )

    @property
    def step_dt(self) -> float:
        """Time between two pictures at the environment's frame rate, in seconds."""
        return self._step_dt

    @property
    def max_episode_length(self) -> int:
        return self._max_episode_length

    @property
    def unflattened_space(self) -> spaces.Space[Any]:
        """Observation space of the environment itself."""
        return self._observed.space

    @property
    def has_bytes(self) -> bool:
        """Whether observations are bytes divided by 255: images."""
        return self._observed.is_image

    @property
    def episode_length_buf(self) -> torch.Tensor:
        """Steps since the last reset, int64 ``(num_envs,)``; time limits follow what is set."""
        return self._episode_length

    @episode_length_buf.setter
    def episode_length_buf(self, values: torch.Tensor) -> None:
        self._episode_length.copy_(values)
        self._batch.arrays.elapsed[:] = values.cpu().numpy()
        self._batch.set_elapsed()

    def on_restore(self) -> None:
        """Begin new episodes with seeds derived from the restored counters.

        Gymnasium's environments themselves cannot be saved.
        """
        super().on_restore()
        self.reset()

    def render(self) -> np.ndarray | None:  # type: ignore[override]
        """Return a picture of environment 0, uint8 ``(height, width, 3)``.

        Height and width are even, as videos need: an odd last row or column is cropped.
        """
        if self.render_mode is None:
            return None
        picture = np.asarray(self._batch.render(), dtype=np.uint8)
        height, width = (size // 2 * 2 for size in picture.shape[:2])
        return np.ascontiguousarray(picture[:height, :width])

    def close(self, **kwargs: Any) -> None:
        """Close the environments, and end their workers."""
        self._batch.close()

    def _build(self) -> None:
        self._batch, model = make_batch(
            self._maker,
            self.num_envs,
            num_workers=self.cfg.num_workers,
            num_threads=self.context.num_threads,
            first_env=self.context.rank * self.num_envs,
            timeout_s=self.cfg.worker_timeout_s,
            render_mode=self.render_mode,
        )
        limit = find_time_limit(model)
        self._max_episode_length = 0 if limit is None else limit._max_episode_steps
        self._step_dt = 1.0 / (model.metadata.get("render_fps") or RENDER_FPS)
        self._ended: Ended = []
        """Rows whose episodes ended in this step."""
        self._observed = Observations(model.observation_space)
        self._acted = Actions(model.action_space)
        self._low, self._high = (
            torch.from_numpy(bound).to(self.device) for bound in (self._acted.low, self._acted.high)
        )
        self._make_spaces()
        self.reset()

    def _explain_failures(self) -> str:
        return "Look at the environment's observations and rewards."

    def _num_actions(self) -> int:
        return self._acted.num

    def _choices(self) -> DiscreteCfg | None:
        return _options(self._acted)

    def _make_observation_space(self) -> spaces.Space:
        shape = self._observed.shape
        is_image = self._observed.is_image
        observed = spaces.Box(0.0, 1.0, shape, np.float32) if is_image else unbounded(shape)
        return spaces.Dict({"policy": observed})

    def _make_action_space(self) -> spaces.Space:
        if self._options is not None:
            return self._options.make_space()
        return spaces.Box(self._acted.low, self._acted.high, dtype=np.float32)

    def _apply_actions(self, actions: torch.Tensor) -> None:
        if self._options is None:
            actions = torch.clamp(actions, self._low, self._high)
        actions = actions.cpu()
        if self._options is not None and self.device.type != "cpu":
            self._options.check_range(actions)
        self._batch.arrays.actions[:] = actions.numpy()

    def _advance(self) -> None:
        self._ended = self._batch.step()
        failed = self._batch.arrays.failed
        if failed.any():
            self._failures.add(torch.from_numpy(failed))

    def _get_dones(self) -> tuple[torch.Tensor, torch.Tensor]:
        arrays = self._batch.arrays
        return self._copy(arrays.terminated), self._copy(arrays.truncated)

    def _get_rewards(self) -> torch.Tensor:
        return self._copy(self._batch.arrays.rewards)

    def _count(self, ended: torch.Tensor) -> int:
        return len(self._ended)

    def _final_observations(self) -> dict[str, torch.Tensor]:
        return self._observations(self._batch.arrays.final_observations)

    def _reset_ended(self, mask: torch.Tensor, count: torch.Tensor | int) -> Log:
        """Log the episodes that ended, whose environments have reset themselves."""
        self._clear_lengths(mask)
        return _log(self._ended, int(self._batch.arrays.truncated.sum()))

    def _reset_masked(self, mask: torch.Tensor, count: torch.Tensor | int) -> Log:
        """Reset environments with seeds from the base seed and the steps so far."""
        seeds = self.random.stream("gymnasium").bits(1)[:, 0] & 0x7FFFFFFF
        self._batch.arrays.mask[:] = mask.cpu().numpy()
        self._batch.arrays.seeds[:] = seeds.cpu().numpy()
        self._batch.reset()
        self._clear_lengths(mask)
        return {}

    def _get_observations(self) -> dict[str, torch.Tensor]:
        return self._observations(self._batch.arrays.observations)

    def _observations(self, rows: np.ndarray) -> dict[str, torch.Tensor]:
        values = self._copy(rows)
        return {"policy": values.float() / 255.0 if self._observed.is_image else values}

    def _copy(self, rows: np.ndarray) -> torch.Tensor:
        """Return a copy of shared rows on the device."""
        return torch.from_numpy(rows).to(self.device, copy=True)


class GroupedGymEnv(GymEnv):
    """Environments that observe a ``Dict`` of boxes and choices: each entry is its own group.

    Boxes keep their shape and type; a choice becomes a one-hot row.
    """

    def _make_observation_space(self) -> spaces.Space:
        parts: Mapping[str, spaces.Space] = self._observed.space.spaces  # type: ignore[attr-defined]
        return spaces.Dict(
            {
                name: space if isinstance(space, spaces.Box) else spaces.flatten_space(space)
                for name, space in parts.items()
            }
        )

    def _observations(self, rows: np.ndarray) -> dict[str, torch.Tensor]:
        """Return groups from rows that hold one after the other."""
        groups, first = {}, 0
        groups_space = self.single_observation_space
        for name, space in groups_space.spaces.items():  # type: ignore[attr-defined]
            last = first + int(np.prod(space.shape))
            values = rows[:, first:last].reshape(-1, *space.shape).astype(space.dtype)
            groups[name], first = self._copy(values), last
        return groups


def action_kind(spec: EnvSpec, cfg: GymEnvCfg) -> str:
    """Return ``box``, ``discrete`` or ``multidiscrete``: see :class:`Actions`.

    Raises:
        ConfigurationError: If the environment cannot be made.
    """
    model = _maker(spec, cfg).make()
    model.close()
    return Actions(model.action_space).kind


def _maker(spec: EnvSpec, cfg: GymEnvCfg) -> EnvMaker:
    """Return a maker of environments, with the keywords that differ from their defaults."""
    known = known_kwargs(spec)
    changed = {
        name: value
        for name, value in cfg.kwargs.items()
        if name not in known or value != known[name]
    }
    return EnvMaker(
        spec=spec,
        kwargs=changed,
        max_episode_steps=cfg.max_episode_steps,
        num_frames=cfg.num_frames,
        frame_padding=cfg.frame_padding,
    )


def _options(acted: Actions) -> DiscreteCfg | None:
    """Return what actions choose among; None where they are numbers."""
    if acted.kind == "box":
        return None
    return DiscreteCfg(num_options=acted.sizes[0] if acted.kind == "discrete" else acted.sizes)


def _log(ended: Ended, num_truncated: int) -> Log:
    """Return the reasons for which episodes ended, and means of the numbers in their last infos."""
    share = num_truncated / len(ended)
    log: Log = {
        "Episode_Termination/time_out": share,
        "Episode_Termination/terminated": 1.0 - share,
    }
    for name in dict.fromkeys(name for _, info in ended for name in info):
        values = [info[name] for _, info in ended if name in info]
        log[f"Episode_Info/{name}"] = sum(values) / len(values)
    return log
