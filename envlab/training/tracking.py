"""How far robots are from what they are commanded, episode by episode."""

from __future__ import annotations

from typing import Any

import torch

from envlab.envs.managers.command import CommandTerm


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
