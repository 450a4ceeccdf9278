"""Commands: goals that policies observe, drawn at resets and at intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import mujoco
import torch

from envlab.envs.managers.term import TermCfg, terms_of
from envlab.envs.masks import assign, clear
from envlab.envs.random import RandomStream
from envlab.envs.vector_env import VectorEnv
from envlab.errors import ConfigurationError, did_you_mean
from envlab.sim.host import on_host
from envlab.state import State


@dataclass(kw_only=True)
class CommandTermCfg(TermCfg):
    """Configuration of a command; :meth:`build` makes the term."""

    resampling_time_range: tuple[float, float]
    """Bounds of the time between two draws, in seconds."""

    def build(self, env: VectorEnv) -> CommandTerm:
        """Return the term for ``env``."""
        raise NotImplementedError


class CommandTerm:
    """A goal per environment. Subclasses fill :attr:`command` in :meth:`resample`."""

    STATE: ClassVar[State] = State(per_env=("command", "time_left", "metrics"))
    mirror: ClassVar[tuple[Sequence[int], Sequence[float]] | None] = None
    """Places and signs of the goal's columns in a mirror, if known; see
    :class:`envlab.envs.mirror.Reflection`."""
    is_drawn_when_due: ClassVar[bool] = True
    """Whether goals are drawn by the clock as well as in resets."""
    TRACKED: ClassVar[Mapping[str, str]] = {}
    """Units of :meth:`tracking_errors`, by name."""
    command: torch.Tensor
    """The goal, ``(num_envs, k)``."""
    metrics: dict[str, torch.Tensor]
    """Sums over the episode by name, ``(num_envs,)`` each, for the log."""

    def __init__(self, cfg: CommandTermCfg, env: VectorEnv) -> None:
        self.cfg = cfg
        self.env = env
        self.metrics = {}
        self._table: torch.Tensor | None = None
        self.time_left = torch.zeros(env.num_envs, device=env.device)

    def make_metrics(self, *names: str) -> torch.Tensor:
        """Make :attr:`metrics` of these names; return their sums as one ``(k, num_envs)``."""
        self._table = torch.zeros(len(names), self.env.num_envs, device=self.env.device)
        self.metrics = dict(zip(names, self._table, strict=True))
        return self._table

    def clear_metrics(self, mask: torch.Tensor) -> None:
        """Reset the sums of the environments of ``mask``."""
        for values in self.metrics.values() if self._table is None else [self._table.T]:
            clear(values, mask)

    def resample(self, mask: torch.Tensor, stream: RandomStream) -> None:
        """Draw new goals for the environments of ``mask``."""
        raise NotImplementedError

    def resample_at_reset(self, mask: torch.Tensor, stream: RandomStream) -> None:
        """Draw the goals of episodes that begin, whose ``env.reset_qpos`` is staged by now."""
        self.resample(mask, stream)

    def measure(self, ended: torch.Tensor) -> None:
        """Update :attr:`metrics` from the state in which a step ends, before its resets.

        Args:
            ended: Environments that will be reset, bool ``(num_envs,)``; some or none.
        """

    def update(self) -> None:
        """Update :attr:`command` and :attr:`metrics` from the state after a step's resets."""

    def update_command(self) -> None:
        """Update :attr:`command` once per step, after new goals have been drawn."""

    def restart(self) -> None:
        """Forget what earlier episodes left, before a reset that repeats all draws."""

    def snapshot(self) -> Any:
        """Return what is to be followed in the next step, for :meth:`tracking_errors`."""
        return self.command.clone()

    def tracking_errors(self, reference: Any) -> torch.Tensor:
        """Return how far robots are from what a :meth:`snapshot` asked, ``(k, num_envs)``.

        There is a row for each of :attr:`TRACKED`. It is called after the step; environments that
        began a new episode in it have no meaningful values.
        """
        raise NotImplementedError

    def bounds(self) -> dict[str, tuple[float, float]]:
        """Return the bounds of values that can be commanded by hand, by name; may be empty."""
        return {}

    def hold(self, values: Sequence[float]) -> None:
        """Command ``values``, one for each of :meth:`bounds`, everywhere until the next draw."""
        self.command.copy_(self.command.new_tensor(values))
        self.time_left.fill_(self.cfg.resampling_time_range[1])

    def add_markers(self, scene: mujoco.MjvScene) -> None:
        """Show environment 0's goal in a scene that is about to be drawn."""


class CommandManager:
    """Keeps the commands' clocks and draws them when they are due.

    Attributes:
        num_changes: Times that commands may have changed, for what is derived from them.
    """

    STATE = State(parts=("_terms",))

    def __init__(self, cfg: Any, env: VectorEnv) -> None:
        self._env = env
        self.num_changes = 0
        self._terms = {
            name: term.build(env) for name, term in terms_of(cfg, CommandTermCfg).items()
        }

    @property
    def active_terms(self) -> list[str]:
        """Names of the terms."""
        return list(self._terms)

    def restart(self) -> None:
        """Restart all terms, see :meth:`CommandTerm.restart`."""
        for term in self._terms.values():
            term.restart()

    def get_term(self, name: str) -> CommandTerm:
        """Return a term.

        Raises:
            ConfigurationError: If there is none of this name.
        """
        if name not in self._terms:
            raise ConfigurationError(
                f"There is no command {name!r}; there are {', '.join(self._terms) or 'none'}."
                f"{did_you_mean(name, self._terms)}"
            )
        return self._terms[name]

    def get_command(self, name: str) -> torch.Tensor:
        """Return a command, ``(num_envs, k)``; see :meth:`get_term`."""
        term = self._terms.get(name)
        return (self.get_term(name) if term is None else term).command

    def episode_values(self) -> dict[str, torch.Tensor]:
        """Return ``Metrics/<command>/<metric>`` of the episode so far."""
        return {
            f"Metrics/{name}/{metric}": values
            for name, term in self._terms.items()
            for metric, values in term.metrics.items()
        }

    def reset(self, mask: torch.Tensor) -> None:
        """Start new episodes in the environments of ``mask``, with new commands."""
        self.num_changes += 1
        for name, term in self._terms.items():
            term.clear_metrics(mask)
            self._draw(name, "reset", term, mask)

    def measure(self, ended: torch.Tensor) -> None:
        """Let the terms look at the state in which a step ends; see :meth:`CommandTerm.measure`."""
        for term in self._terms.values():
            term.measure(ended)

    def compute(self, dt: float) -> None:
        """Let ``dt`` seconds pass, update the terms, and draw the commands that are due."""
        for name, term in self._terms.items():
            term.update()
            if term.is_drawn_when_due:
                term.time_left -= dt
                due = term.time_left < 0.5 * dt  # at the nearest step, whatever the rounding
                if not on_host(self._env.device) or due.any():
                    self._draw(name, "due", term, due)
            term.update_command()
        self.num_changes += 1

    def add_markers(self, scene: mujoco.MjvScene) -> None:
        """Show the goals of environment 0."""
        for term in self._terms.values():
            term.add_markers(scene)

    def _draw(self, name: str, reason: str, term: CommandTerm, mask: torch.Tensor) -> None:
        # One stream per reason: whether another environment was reset in this tick must not shift
        # this one's draws, which would make them depend on how environments are spread over
        # processes.
        streams = self._env.random
        stream = streams.stream(f"commands.{name}.{reason}.time")
        drawn = stream.uniform(*term.cfg.resampling_time_range, 1)
        assign(term.time_left, mask, drawn[:, 0])
        resample = term.resample_at_reset if reason == "reset" else term.resample
        resample(mask, streams.stream(f"commands.{name}.{reason}"))
