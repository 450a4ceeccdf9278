"""The expert of an AllenAct experiment, whose advice is one of the observations."""

from __future__ import annotations

import torch

from envlab.envs import BatchedEnv
from envlab.errors import ConfigurationError

SENSOR = "expert_action"
"""``uuid`` of AllenAct's expert sensors."""


class ObservedExpert:
    """Reads the observation of AllenAct's ``ExpertActionSensor``; see :class:`.teacher.Expert`.

    The sensor returns each choice followed by a 1 if the expert had advice, else a 0; numbers are
    followed by one such flag for all.
    """

    def __init__(self, env: BatchedEnv) -> None:
        """Check the observations.

        Raises:
            ConfigurationError: If there is no expert among them.
        """
        if SENSOR not in env.obs_buf:
            raise ConfigurationError(
                f"A stage learns from an expert, but no sensor has the uuid {SENSOR!r}: the "
                f"sensors are {', '.join(env.obs_buf)}. Add AllenAct's ExpertActionSensor."
            )
        self._env = env

    def act(self) -> torch.Tensor:
        """Return its advice, ``(num_envs, num_actions)``; -1 or NaN where it has none."""
        seen = self._env.obs_buf[SENSOR]
        if self._env.actions.is_floating_point():
            return seen[:, :-1].masked_fill(seen[:, -1:] == 0, float("nan"))
        advice = seen.long().unflatten(1, (-1, 2))
        return advice[..., 0].masked_fill(advice[..., 1] == 0, -1)

    def note_taken(self, actions: torch.Tensor) -> None:
        """Do nothing: the sensor asks the expert in each step."""
