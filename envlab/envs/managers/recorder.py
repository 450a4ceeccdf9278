"""Recorders: terms that keep what happens in each environment, and write whole episodes to a file.

Names are Isaac Lab's. A file is :mod:`envlab.envs.dataset_file`'s; on several processes each writes
its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from envlab.envs.dataset_file import DatasetWriter
from envlab.envs.managers.term import terms_of
from envlab.errors import ConfigurationError
from envlab.sim.recording import between_graphs

Env = Any
"""A :class:`envlab.envs.ManagerEnv`, which makes the manager, so that it is not imported."""
Values = torch.Tensor | Mapping[str, Any]
"""``(num_envs, ...)``, or several by name."""
MAX_BYTES = 1 << 34
"""Maximum memory for the unfinished episodes, in bytes."""


@dataclass(kw_only=True)
class RecorderTermCfg:
    """A recorder."""

    class_type: Any
    """A :class:`RecorderTerm`, or its ``module:name``."""


@dataclass(kw_only=True)
class RecorderManagerBaseCfg:
    """Recorders (``env.recorders``): a subclass has them as fields."""

    dataset_export_dir_path: str = "logs/demos"
    """Folder of the file."""
    dataset_filename: str = "dataset"
    """Its name without ``.hdf5``; of further ranks ``_rank1`` and so on follows."""
    env_name: str = ""
    """Id of the task, which the file names; empty: that of ``env.spec``."""
    dataset_export_mode: Literal["all", "succeeded_only"] = "all"
    """Which episodes are written."""


class RecorderTerm:
    """What is kept of an episode; subclasses define what they need of the four methods.

    Each returns a name and values, ``(num_envs, ...)`` or a dictionary of such; None: nothing.
    Values of the steps' methods have a row for each step of an episode; those of the resets'
    methods are kept once, for the environments of ``mask``.
    """

    def __init__(self, cfg: RecorderTermCfg, env: Env) -> None:
        self.cfg, self.env = cfg, env

    def record_pre_reset(self, mask: torch.Tensor) -> tuple[str, Values] | None:
        """Return what is known when the episodes of ``mask``, bool ``(num_envs,)``, have ended."""
        return None

    def record_post_reset(self, mask: torch.Tensor) -> tuple[str, Values] | None:
        """Return what is known when those of ``mask`` have begun."""
        return None

    def record_pre_step(self) -> tuple[str, Values] | None:
        """Return what is known before the physics of a step."""
        return None

    def record_post_step(self) -> tuple[str, Values] | None:
        """Return what is known after it, before environments reset."""
        return None


class RecorderManager:
    """Keeps the records of unfinished episodes, and writes each episode when it ends."""

    def __init__(self, cfg: RecorderManagerBaseCfg, env: Env) -> None:
        """Begin a file.

        Raises:
            ConfigurationError: If it already exists, no term is configured, or episodes are chosen
                by a success that the task does not measure.
        """
        self.cfg = cfg
        self._env = env
        self._terms = {
            name: term.class_type(term, env)
            for name, term in terms_of(cfg, RecorderTermCfg).items()
        }
        self.active_terms = list(self._terms)
        """Names of the terms."""
        if not self._terms:
            raise ConfigurationError(
                "env.recorders has no terms to record. Set it in Python to an "
                "ActionStateRecorderManagerCfg, or to your own class with terms."
            )
        if cfg.dataset_export_mode == "succeeded_only" and env.success is None:
            raise ConfigurationError(
                "env.recorders.dataset_export_mode is succeeded_only, but the task measures no "
                "success. Set env.success, or record all."
            )
        rank = env.context.rank
        name = cfg.dataset_filename + (f"_rank{rank}" if rank else "")
        self.path = Path(cfg.dataset_export_dir_path) / f"{name}.hdf5"
        """The file."""
        task = cfg.env_name or (env.spec.id if env.spec else "")
        self._writer = DatasetWriter(self.path, task)
        self._length = env.max_episode_length
        self._steps: dict[str, np.ndarray] = {}
        """By name: the latest steps of all environments, ``(length, num_envs, ...)``, a ring."""
        self._once: dict[str, np.ndarray] = {}
        """By name: what is kept once of each environment's episode."""
        self._now = 0
        self._first = np.zeros(env.num_envs, dtype=np.int64)
        """The step in which each environment's episode began."""
        self._is_whole = np.zeros(env.num_envs, dtype=bool)
        """Whether its beginning was seen."""

    @property
    def num_episodes(self) -> int:
        """Episodes that were written."""
        return self._writer.num_episodes

    @between_graphs
    def record_pre_step(self) -> None:
        """Keep what terms know before the physics of a step."""
        for term in self._terms.values():
            self._keep_step(term.record_pre_step())

    @between_graphs
    def record_post_step(self) -> None:
        """Keep what terms know after it."""
        for term in self._terms.values():
            self._keep_step(term.record_post_step())
        if not self._env.is_rehearsing:
            self._now += 1

    @between_graphs
    def record_pre_reset(self, mask: torch.Tensor, success: torch.Tensor | None = None) -> None:
        """Write the episodes of ``mask``, bool ``(num_envs,)``, which have ended.

        Args:
            mask: Which have.
            success: Which succeeded; None: those that the task reports, if it reports any.
        """
        if self._env.is_rehearsing or not mask.any():
            return
        for term in self._terms.values():
            self._keep_once(term.record_pre_reset(mask), mask)
        ended = mask.cpu().numpy() & self._is_whole
        if success is None and self._env.success is not None:
            success = self._env.success > 0.5
        succeeded = None if success is None else success.cpu().numpy()
        if succeeded is not None and self.cfg.dataset_export_mode == "succeeded_only":
            ended &= succeeded
        chosen = np.flatnonzero(ended)
        if not len(chosen):
            return
        lengths = self._now - self._first[chosen]
        rows = np.concatenate([np.arange(self._now - length, self._now) for length in lengths])
        rows, columns = rows % self._length, np.repeat(chosen, lengths)
        attributes = {
            "num_samples": lengths,
            "seed": np.full(len(chosen), self._env.random.base_seed),
        }
        if succeeded is not None:
            attributes["success"] = succeeded[chosen]
        self._writer.write(
            {name: ring[rows, columns] for name, ring in self._steps.items()},
            {name: values[chosen] for name, values in self._once.items()},
            attributes,
        )

    @between_graphs
    def record_post_reset(self, mask: torch.Tensor) -> None:
        """Begin episodes of ``mask``, bool ``(num_envs,)``."""
        if self._env.is_rehearsing or not mask.any():
            return
        chosen = mask.cpu().numpy()
        self._first[chosen], self._is_whole[chosen] = self._now, True
        for term in self._terms.values():
            self._keep_once(term.record_post_reset(mask), mask)

    def close(self) -> None:
        """Write the file, without the unfinished episodes."""
        self._writer.close()

    def _keep_step(self, recorded: tuple[str, Values] | None) -> None:
        if self._env.is_rehearsing:
            return
        for name, values in _arrays(recorded):
            if name not in self._steps:
                shape = (self._length, *values.shape)
                if (size := math.prod(shape) * values.itemsize) > MAX_BYTES:
                    raise ConfigurationError(
                        f"Recording {name!r} would keep {size:,} bytes of {len(values)} episodes "
                        f"of up to {self._length} steps, more than {MAX_BYTES:,}. Record fewer "
                        "environments."
                    )
                self._steps[name] = np.zeros(shape, dtype=values.dtype)
            self._steps[name][self._now % self._length] = values

    def _keep_once(self, recorded: tuple[str, Values] | None, mask: torch.Tensor) -> None:
        chosen = mask.cpu().numpy()
        for name, values in _arrays(recorded):
            self._once.setdefault(name, np.zeros_like(values))[chosen] = values[chosen]


def _arrays(recorded: tuple[str, Values] | None) -> list[tuple[str, np.ndarray]]:
    """Return what a term returned, by paths."""
    if recorded is None:
        return []
    name, values = recorded
    if isinstance(values, torch.Tensor):
        return [(name, values.detach().cpu().numpy())]
    return [item for key, inner in values.items() for item in _arrays((f"{name}/{key}", inner))]
