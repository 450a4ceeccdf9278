"""An expert that agents learn from: its advice, and its actions in place of theirs.

A task names its expert in the registry, as ``expert_entry_point``, so this module knows only the
interface of navigation's.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch

from envlab.errors import ConfigurationError
from envlab.registry import load_entry_point
from envlab.state import State
from envlab.task import Task


class Expert(Protocol):
    """Chooses actions for all environments; it may see more than agents do.

    It declares what a resume needs; see :mod:`envlab.state`.
    """

    def act(self) -> torch.Tensor:
        """Return the next actions, ``(num_envs, num_actions)``; -1, or NaN, where it has none."""

    def note_taken(self, actions: torch.Tensor) -> None:
        """Note which actions were taken in its place, ``(num_envs, num_actions)``."""


class Teacher:
    """Asks the expert in each step, and lets it act for a share of the environments.

    Shares are drawn with torch's default generator, which is each rank's own and saved.
    """

    STATE = State(parts=("_expert",))

    def __init__(self, expert: Expert) -> None:
        self._expert = expert

    def advise(self) -> torch.Tensor:
        """Return the expert's actions, ``(num_envs, num_actions)``."""
        return self._expert.act()

    def mix(self, actions: torch.Tensor, advice: torch.Tensor, share: float) -> torch.Tensor:
        """Return the actions to take: advice in a share of the environments, where there is some.

        Args:
            actions: The agents' own, ``(num_envs, num_actions)``.
            advice: The result of :meth:`advise`.
            share: From 0 to 1.
        """
        advice = advice.to(actions.device)
        known = (advice >= 0 if not advice.is_floating_point() else advice.isfinite()).all(dim=1)
        if share > 0.0:
            forced = torch.rand(len(actions)).to(actions.device) < share
            actions = torch.where((forced & known).unsqueeze(1), advice, actions)
        self._expert.note_taken(actions)
        return actions


def make_teacher(task: Task, env: Any) -> Teacher:
    """Return a teacher with the task's expert.

    Raises:
        ConfigurationError: If the task has none.
    """
    entry_point = task.kwargs.get("expert_entry_point")
    if entry_point is None:
        raise ConfigurationError(
            f"A stage learns from an expert, but the task {task.id} has none. Navigation's tasks "
            "have one; a task names its own as expert_entry_point where it is registered."
        )
    return Teacher(load_entry_point(entry_point)(env))
