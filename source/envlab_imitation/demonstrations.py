"""The demonstrations of a file, dealt to the ranks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from envlab.distributed.context import DistributedContext
from envlab.envs import BatchedEnv
from envlab.envs.dataset_file import Dataset, open_dataset
from envlab.errors import ConfigurationError
from envlab.task import Task
from envlab_imitation.cfg import BcCfg

MAX_BYTES = 1 << 36
"""Most memory for a rank's demonstrations: a small file can claim any size."""


@dataclass(frozen=True, kw_only=True)
class Demonstrations:
    """A rank's part of the demonstrations: every ``world_size``-th, from its rank on."""

    obs: dict[str, torch.Tensor]
    """Observations by group, ``(num_own_steps, ...)``."""
    actions: torch.Tensor
    """What was done then, ``(num_own_steps, num_actions)``."""
    row_of: torch.Tensor
    """By the number of a step among those of all ranks: its row here, -1 if it is another's, int64
    ``(num_steps,)``."""
    num_demonstrations: int
    """Those of all ranks."""
    digest: str
    """SHA-256 of the demonstrations of all ranks, whatever their number."""

    @property
    def num_steps(self) -> int:
        """Steps of all ranks."""
        return len(self.row_of)

    def batch(self, seed: int, number: int, size: int) -> torch.Tensor:
        """Return the rows of a batch that are this rank's, int64.

        Steps are shuffled again in each epoch, by ``seed`` and the epoch alone; the epoch omits
        those that do not fill a batch.

        Args:
            seed: The run's seed.
            number: Number of the batch in the run, from 0.
            size: Steps in a batch, of all ranks.
        """
        size = min(size, self.num_steps)
        epoch, place = divmod(number, self.num_steps // size)
        order = np.random.default_rng((seed, epoch)).permutation(self.num_steps)
        rows = self.row_of[torch.from_numpy(order[place * size : (place + 1) * size])]
        return rows[rows >= 0]


def read_demonstrations(
    cfg: BcCfg, task: Task, env: BatchedEnv, context: DistributedContext
) -> Demonstrations:
    """Read this rank's demonstrations; every rank must call this.

    Raises:
        ConfigurationError: On every rank, if there are none that fit the task.
    """
    path = Path(cfg.dataset)
    if not cfg.dataset:
        raise ConfigurationError(
            "There are no demonstrations to learn from. Give --dataset FILE, a file that 'envlab "
            "record --format=hdf5' wrote."
        )
    names = context.once(lambda: _choose(path, cfg, task, context.world_size))
    mine: list[tuple[dict[str, np.ndarray], str]] = []
    problem = None
    try:
        with open_dataset(path) as dataset:
            room = MAX_BYTES
            for name in names[context.rank :: context.world_size]:
                mine.append(_read(dataset, name, path, cfg, env))
                room -= sum(values.nbytes for values in mine[-1][0].values())
                if room < 0:
                    raise ConfigurationError(
                        f"The demonstrations of {path} take more than {MAX_BYTES:,} bytes of a "
                        "process. Learn from fewer, by agent.num_demonstrations, or on more "
                        "processes."
                    )
    except ConfigurationError as error:
        problem = str(error)
    problems = [one for one in context.gather(problem) if one]
    if problems:
        raise ConfigurationError(problems[0])
    of_ranks = context.gather([(len(arrays["actions"]), digest) for arrays, digest in mine])
    return _join(mine, of_ranks, context)


def _choose(path: Path, cfg: BcCfg, task: Task, world_size: int) -> list[str]:
    """Return the names of the demonstrations to learn from."""
    with open_dataset(path) as dataset:
        if dataset.task and dataset.task not in (task.id, task.trained_id):
            raise ConfigurationError(
                f"{path} holds demonstrations of the task {dataset.task!r}, but {task.id!r} is to "
                "be trained. Name its own task by --task, or record this one."
            )
        names = dataset.names
        if cfg.succeeded_only:
            success = {name: dataset.attributes(name).get("success") for name in names}
            if unknown := [name for name, value in success.items() if value is None]:
                raise ConfigurationError(
                    f"{path} does not say whether {unknown[0]} succeeded: it has no attribute "
                    "'success'. Add agent.succeeded_only=false to learn from all of them."
                )
            names = [name for name in names if success[name]]
    few = f"{path} has {len(dataset.names)} demonstrations, of which {len(names)} can be used"
    if cfg.num_demonstrations is not None:
        if cfg.num_demonstrations > len(names):
            raise ConfigurationError(
                f"{few}, but agent.num_demonstrations is {cfg.num_demonstrations}. Lower it, or "
                "record more."
            )
        names = names[: cfg.num_demonstrations]
    if len(names) < world_size:
        raise ConfigurationError(
            f"{few}, but each of {world_size} process{'es' if world_size > 1 else ''} needs one. "
            "Record more that succeed, or use fewer processes."
        )
    return names


def _read(
    dataset: Dataset, name: str, path: Path, cfg: BcCfg, env: BatchedEnv
) -> tuple[dict[str, np.ndarray], str]:
    """Return a demonstration's actions and observations, and their digest."""
    wanted: Mapping[str, torch.Tensor] = {
        "actions": env.actions,
        **{f"obs/{group}": env.obs_buf[group] for group in cfg.obs_groups},
    }
    arrays, attributes = dataset.episode(name, only=wanted)
    num_samples = int(attributes.get("num_samples", len(arrays.get("actions", ()))))
    digest = hashlib.sha256()
    found: dict[str, Any] = {}
    for key, own in wanted.items():
        values = arrays.get(key)
        shape = None if values is None else tuple(values.shape)
        expected = (num_samples, *own.shape[1:])
        if values is None or shape != expected or num_samples < 1:
            has = "no such array" if shape is None else f"one of {shape}"
            raise ConfigurationError(
                f"The task has {key} with rows of {tuple(own.shape[1:])}, so {name} of {path}, "
                f"with {num_samples} steps, must have an array of {expected}; it has {has}. Record "
                "it again in this task, with the same overrides."
            )
        values = values.astype(np.uint8 if own.dtype == torch.uint8 else np.float32)
        if not np.isfinite(values).all():
            raise ConfigurationError(
                f"{key} of {name} in {path} has values that are not finite. Record it anew."
            )
        digest.update(f"{key} {expected} {values.dtype}".encode())
        digest.update(np.ascontiguousarray(values).tobytes())
        found[key] = values
    return found, digest.hexdigest()


def _join(
    mine: list[tuple[dict[str, np.ndarray], str]],
    of_ranks: list[list[tuple[int, str]]],
    context: DistributedContext,
) -> Demonstrations:
    """Join this rank's demonstrations, and number the steps of all ranks."""
    num_all, row, parts = sum(map(len, of_ranks)), 0, []
    digest = hashlib.sha256()
    for index in range(num_all):
        rank, place = index % len(of_ranks), index // len(of_ranks)
        length, one = of_ranks[rank][place]
        digest.update(one.encode())
        if rank == context.rank:
            parts.append(torch.arange(row, row + length))
            row += length
        else:
            parts.append(torch.full((length,), -1))
    joined = {
        key: torch.from_numpy(np.concatenate([arrays[key] for arrays, _ in mine])).to(
            context.device
        )
        for key in mine[0][0]
    }
    return Demonstrations(
        obs={key.removeprefix("obs/"): joined[key] for key in joined if key != "actions"},
        actions=joined["actions"],
        row_of=torch.cat(parts),
        num_demonstrations=num_all,
        digest=digest.hexdigest(),
    )
