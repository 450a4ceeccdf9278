"""Learning rates and batch sizes for more than one process.

``--num_envs`` scales weakly: every process adds its own samples, so the batch behind an update
grows with the processes. ``--lr_scaling`` then follows it: ``linear`` (Goyal et al., "Accurate,
large minibatch SGD", arXiv:1706.02677) or ``sqrt`` (Krizhevsky, "One weird trick for parallelizing
convolutional neural networks", arXiv:1404.5997; Hoffer et al., "Train longer, generalize better",
arXiv:1705.08741).

``--global_num_envs`` scales strongly: the samples of an iteration are divided, and so are batch
sizes that a library counts in samples, so that an update sees what it would on one process.

A run's ``params/`` hold the requested values, so that they mean the same on any number of
processes; its manifest holds the resulting ones. A resumed run keeps its total of environments:
batch sizes are divided among the present processes, as they were among the initial ones, and
learning rates stay.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from envlab.agent_cfg import SAVED_RATES, set_value, value_at
from envlab.errors import ConfigurationError
from envlab.training.flags import Flags

logger = logging.getLogger(__name__)

RULES = {"none": lambda size: 1.0, "linear": float, "sqrt": math.sqrt}
"""Factor of the learning rates, by the number of processes."""


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """The effect of the number of processes on an agent's configuration."""

    agent_cfg: Any
    """The configuration as the library's adapter gets it."""
    rule: str
    """``none``, ``linear`` or ``sqrt``."""
    factor: float
    """Factor of the learning rates."""
    size: int
    """Number of processes that learning rates and batch sizes of a process are for: those that the
    run began with."""
    learning_rates: dict[str, Any] = field(default_factory=dict)
    """Learning rates that differ from the configuration's, by path."""
    batch_sizes: dict[str, int] = field(default_factory=dict)
    """Batch sizes per process that differ from the configuration's, by path."""

    @property
    def facts(self) -> dict[str, Any]:
        """The scaling's facts in the manifest."""
        return {
            "rule": self.rule,
            "factor": self.factor,
            "learning_rates": self.learning_rates,
            "batch_sizes_per_process": self.batch_sizes,
        }

    def fit(
        self, checkpoint: Mapping[str, Any], changed: Mapping[str, tuple[Any, Any]]
    ) -> Mapping[str, Any]:
        """Return a checkpoint with the learning rates for this run's settings and process count.

        With the same number of processes, rule and rates it is returned unchanged.

        Args:
            checkpoint: Its contents.
            changed: Settings that differ from its run's, as in :class:`envlab.training.plan.Start`.

        Raises:
            ConfigurationError: If some learning rates have changed by another factor than others.
        """
        ratio = self.factor / checkpoint["learning_rate_factor"]
        change = _change(self.agent_cfg, changed)
        if ratio != 1.0:
            logger.info(
                "The checkpoint's learning rates are multiplied by %g: it was saved with a factor "
                "of %g, and this run has %g (--lr_scaling %s).",
                ratio,
                self.factor / ratio,
                self.factor,
                self.rule,
            )
        if change != 1.0:
            logger.info(
                "The checkpoint's learning rates are multiplied by %g, as the configuration's are.",
                change,
            )
        if ratio * change == 1.0:
            return checkpoint
        return {**checkpoint, "model": _scaled_rates(checkpoint["model"], ratio * change)}


def settle_batches(cfg: Any, flags: Flags) -> Any:
    """Return an agent's configuration with the flags' effect on batch sizes, kept with the run."""
    is_divided = flags.global_num_envs is not None
    if hasattr(cfg, "batch_sizes") and (is_divided or flags.num_envs is not None):
        return set_value(cfg, "batch_sizes", "all" if is_divided else "process")
    return cfg


def scale(cfg: Any, size: int, begun_with: int | None = None) -> Scaling:
    """Return the scaling of an agent's configuration to a number of processes, and log it.

    Args:
        cfg: The configuration.
        size: The number of processes.
        begun_with: The number that the run began with, whose batches and rates it keeps; None:
            ``size``.

    Raises:
        ConfigurationError: If a batch size cannot be divided, or a learning rate is not known.
    """
    begun_with = begun_with or size
    factor = RULES[cfg.lr_scaling](begun_with)
    rates: dict[str, Any] = {}
    batches: dict[str, int] = {}
    if cfg.lr_scaling != "none":
        rates = {
            path: _times(_rate(cfg, path), factor) for path in _present(cfg.LEARNING_RATES, cfg)
        }
        logger.info(
            "--lr_scaling %s: on %d process%s the learning rates are multiplied by %g: %s.",
            cfg.lr_scaling,
            begun_with,
            "es" if begun_with > 1 else "",
            factor,
            ", ".join(f"agent.{path} is {value}" for path, value in rates.items()),
        )
    of_all = 1 if getattr(cfg, "batch_sizes", "process") == "all" else begun_with
    if size != of_all and hasattr(cfg, "batch_sizes"):
        batches = {
            path: _share(path, value * of_all, size, is_resumed=size != begun_with)
            for path, value in (
                (path, value_at(cfg, path)) for path in _present(cfg.BATCH_SIZES, cfg)
            )
            if value is not None and value > 0
        }
    for path, value in batches.items():
        logger.info(
            "A total of environments: agent.%s, %d samples of all processes, is %d on each of %d.",
            path,
            value * size,
            value,
            size,
        )
    for path, value in {**(rates if factor != 1.0 else {}), **batches}.items():
        cfg = set_value(cfg, path, value)
    return Scaling(
        agent_cfg=cfg,
        rule=cfg.lr_scaling,
        factor=factor,
        size=begun_with,
        learning_rates=rates,
        batch_sizes=batches,
    )


def _change(cfg: Any, settings: Mapping[str, tuple[Any, Any]]) -> float:
    """Return the factor by which a resumed run's learning rates have changed."""
    paths = [f"agent.{path}" for path in cfg.LEARNING_RATES]
    changed = {path: settings[path] for path in paths if path in settings}
    ratios = {now / then for then, now in changed.values() if then and now}
    if not changed:
        return 1.0
    alike = len(changed) == len(_present(cfg.LEARNING_RATES, cfg))
    if len(ratios) != 1 or not alike:
        raise ConfigurationError(
            "A resumed run multiplies its current learning rates by one factor, but "
            f"{', '.join(changed)} changed, and the others of {', '.join(paths)} did not, or by "
            "another factor. Change all by the same factor, or none."
        )
    return ratios.pop()


def _share(path: str, value: int, size: int, *, is_resumed: bool) -> int:
    if value % size:
        why, instead = "--global_num_envs requires", "--num_envs, which counts per process"
        if is_resumed:
            why, instead = "a run that keeps its batches requires", "another number of processes"
        raise ConfigurationError(
            f"agent.{path} is {value} samples, which {size} processes cannot share equally, as "
            f"{why}. Use a multiple of {size}, such as {-(-value // size) * size}, or {instead}."
        )
    return value // size


def _rate(cfg: Any, path: str) -> Any:
    value = value_at(cfg, path)
    if value is None:
        raise ConfigurationError(
            f"--lr_scaling is {cfg.lr_scaling}, but agent.{path} is not set, so "
            "there is nothing to multiply. Set it."
        )
    return value


def _present(paths: tuple[str, ...], cfg: Any) -> list[str]:
    """Return the paths to parts that this configuration has, such as a second network.

    A setting next to the first one, in the same dictionary, may be missing in some algorithms.
    """
    found, first = [], paths[0].rpartition(".")[0] if paths else ""
    for path in paths:
        above, _, name = path.rpartition(".")
        holder = value_at(cfg, above)
        is_beside = above == first and path != paths[0]
        is_missing = is_beside and isinstance(holder, Mapping) and name not in holder
        if holder is not None and not is_missing:
            found.append(path)
    return found


def _times(value: Any, factor: float) -> Any:
    """Multiply a learning rate, or those of several networks or agents."""
    if isinstance(value, Mapping):
        return {name: _times(one, factor) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_times(one, factor) for one in value]
    return value * factor


def _scaled_rates(values: Any, ratio: float) -> Any:
    """Return a checkpoint's values with all of their learning rates multiplied."""
    if isinstance(values, Mapping):
        return {
            name: _times(value, ratio) if name in SAVED_RATES else _scaled_rates(value, ratio)
            for name, value in values.items()
        }
    if isinstance(values, (list, tuple)):
        return [_scaled_rates(value, ratio) for value in values]
    return values
