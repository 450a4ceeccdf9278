"""How often actions lie at a bound that an agent's configuration sets, and a warning about it.

A bound that the policy should exceed shows nowhere else: the run looks well, and stays below what
the task allows. Bounds that the task itself sets are not reported, because no setting widens them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from gymnasium import spaces

from envlab.distributed.readings import Readings

logger = logging.getLogger(__name__)

NEAR = 0.95
"""Share of the way from the middle to the bound from which an action counts as at its bound."""
SHARE = 0.2
"""Share of such actions beyond which a warning is due. Of shipped policies of fast_sac it is 0.26
for G1's walk, 0.12 for the Franka's drawer, 0.05 for Humanoid, 0.005 for Go1's getting up."""
STRIDE = 8
"""Only one in this many steps is counted, because consecutive actions are much alike."""
WINDOW = 256
"""Steps that are judged together while training."""
WINDOWS = 3
"""Windows in a row that must exceed the share while training, as exploration may fill one or two:
fast_sac's first on Ant reach 0.17, rl_games' on Cartpole 0.44 and 0.36, and then 0.02."""
NUM_NAMED = 4
"""Most actions that a warning names."""


@dataclass(frozen=True, kw_only=True)
class ActionBound:
    """The range that an agent's configuration gives to actions."""

    half_width: float | np.ndarray
    """Of all actions, or ``(num_actions,)``."""
    middle: float | np.ndarray = 0.0
    """Likewise."""
    setting: str
    """What sets the bound: ``agent.action_limit=1``."""
    frees: str
    """What to train with for freer actions: ``agent.action_limit=2``."""


def clip_bound(limit: float, path: str = "agent.clip_actions") -> ActionBound:
    """Return the bound to which the setting at ``path`` clips actions."""
    return ActionBound(half_width=limit, setting=f"{path}={limit:g}", frees=f"{path}={2 * limit:g}")


class ActionUse:
    """Counts actions at their bound on their device, and warns once if they are many.

    Attributes:
        bound: The bound.
    """

    def __init__(
        self, bound: ActionBound, is_counted: np.ndarray, names: Sequence[str], device: torch.device
    ) -> None:
        """Count from 0.

        Args:
            bound: The bound.
            is_counted: Whether it bounds each action, ``(num_actions,)``.
            names: What each action moves, or its place.
            device: Device of the actions.
        """
        self.bound, self._names = bound, names
        self._is_counted = torch.from_numpy(is_counted)
        near = np.where(is_counted, NEAR * np.asarray(bound.half_width), np.inf)
        middle = np.broadcast_to(bound.middle, near.shape)
        self._near, self._middle = (
            torch.tensor(values, dtype=torch.float32, device=device) for values in (near, middle)
        )
        self._counts = torch.zeros(near.shape, dtype=torch.int64, device=device)
        self._num_steps = self._num_actions = self._num_windows = 0
        self._known: Sequence[float] | None = None
        self._is_told = False

    @classmethod
    def of(cls, env: Any, bound: ActionBound) -> Self | None:
        """Return the counter for environments, None if the task's bounds are as narrow."""
        names = env.action_names()
        reach = np.broadcast_to(bound.middle + np.asarray(bound.half_width), (len(names),))
        space = getattr(env, "single_action_space", None)  # several agents have none
        high = space.high.flatten() if isinstance(space, spaces.Box) else np.inf
        is_counted = np.isfinite(reach) & (reach < high)
        return cls(bound, is_counted, names, env.device) if is_counted.any() else None

    def add(self, actions: torch.Tensor) -> None:
        """Count a step's actions, ``(num_envs, num_actions)``; never waits for a GPU."""
        self._num_steps += 1
        if self._num_steps % STRIDE == 0:
            self._counts += ((actions - self._middle).abs() >= self._near).sum(dim=0)
            self._num_actions += len(actions)

    def ask(self, readings: Readings) -> None:
        """Have what :meth:`check` needs read along with others."""
        if self._is_due:
            readings.ask(self._counts, self._know)

    def _know(self, numbers: Sequence[float]) -> None:
        self._known = numbers

    @property
    def _is_due(self) -> bool:
        return not self._is_told and self._num_steps >= WINDOW

    def check(self) -> None:
        """Warn if actions have long been at their bound; for between iterations of training."""
        if not self._is_due:
            return
        shares = self._take()
        self._num_windows = self._num_windows + 1 if self._mean(shares) > SHARE else 0
        if self._num_windows == WINDOWS:
            self._tell(shares)

    def report(self) -> None:
        """Warn if actions were at their bound; for the end of playing a policy."""
        if self._num_actions and self._mean(shares := self._take()) > SHARE:
            self._tell(shares)

    def _take(self) -> torch.Tensor:
        """Return the share of steps in which each action was at its bound, and count from 0."""
        known, self._known = self._known, None
        counts = self._counts.cpu().double() if known is None else torch.tensor(known).double()
        shares = counts / max(self._num_actions, 1)
        self._counts.zero_()
        self._num_steps = self._num_actions = 0
        return shares

    def _mean(self, shares: torch.Tensor) -> float:
        return float(shares[self._is_counted].mean())

    def _tell(self, shares: torch.Tensor) -> None:
        self._is_told = True
        most = [i for i in shares.argsort(descending=True).tolist() if shares[i] > SHARE]
        named = ", ".join(f"{self._names[i]} {100 * shares[i]:.0f} %" for i in most[:NUM_NAMED])
        logger.warning(
            "%.0f %% of the actions lie within %.0f %% of their bound (%s), most often those of "
            "%s. There, the policy cannot act more strongly where the task needs it. To free them, "
            "train with %s.",
            *(100 * self._mean(shares), 100 * (1 - NEAR), self.bound.setting),
            *(named, self.bound.frees),
        )
