"""Actions that are choices among options instead of real numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from gymnasium import spaces

from envlab.errors import ConfigurationError

_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


@dataclass(kw_only=True)
class DiscreteCfg:
    """A choice, or several made together (``env.action_space.*``).

    It replaces Isaac Lab's ``{3}`` and ``[{3}, {2}]``: neither YAML nor Hydra's grammar has sets.
    """

    num_options: int | list[int] = 2
    """Options of the choice, a ``Discrete`` space; or a list, one number for each of several
    choices, a ``MultiDiscrete`` space. Options count from 0."""

    @property
    def sizes(self) -> list[int]:
        """Options of each choice."""
        return [self.num_options] if isinstance(self.num_options, int) else list(self.num_options)

    def make_space(self) -> spaces.Discrete | spaces.MultiDiscrete:
        """Return Gymnasium's space.

        Raises:
            ConfigurationError: If a choice has no option.
        """
        if any(size < 1 for size in self.sizes):
            raise ConfigurationError(
                f"env.action_space.num_options is {self.num_options}, but every choice needs at "
                "least one option. Give numbers greater than 0."
            )
        if isinstance(self.num_options, int):
            return spaces.Discrete(self.num_options)
        return spaces.MultiDiscrete(self.sizes)

    def columns(self, actions: torch.Tensor) -> torch.Tensor:
        """Return ``actions`` with a column per choice: ``(num_envs,)`` becomes ``(num_envs, 1)``.

        Raises:
            ConfigurationError: If they are not whole numbers.
        """
        if actions.dtype not in _INTEGERS:
            raise ConfigurationError(
                f"actions are {actions.dtype}, but choose among options. Give their numbers as "
                "torch.int64."
            )
        alone = isinstance(self.num_options, int) and actions.dim() == 1
        return actions.unsqueeze(1) if alone else actions

    def check_range(self, actions: torch.Tensor) -> None:
        """Refuse options that do not exist.

        Args:
            actions: On the host, integers ``(num_envs, num_choices)``.

        Raises:
            ConfigurationError: With the first of them.
        """
        given = actions.numpy()
        wrong = (given < 0) | (given >= self.sizes)
        if wrong.any():
            env, choice = np.argwhere(wrong)[0].tolist()
            raise ConfigurationError(
                f"Environment {env} is given option {given[env, choice]} of choice "
                f"{choice}, which has {self.sizes[choice]}. Options count from 0."
            )
