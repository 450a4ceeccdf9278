"""AMP's returns at a time limit.

skrl 1.4.3, for which Isaac Lab's settings were made, always adds the discounted value of the next
state in AMP, unless the episode terminated, whatever ``time_limit_bootstrap`` says. skrl 2.1.1 adds
it to the task's reward with that setting only, and then scales it with ``task_reward_scale``, which
is 0 in Isaac Lab's agents: a policy that imitates would see each time limit as a failure.
"""

from __future__ import annotations

from typing import Any

import torch

from envlab.envs.masks import computed_where
from envlab.skrl.torch.ranks import ComputeGae


class FinalValues:
    """Values of the states in which time limits ended episodes, of the steps of a rollout."""

    def __init__(self) -> None:
        self._steps: list[torch.Tensor] = []

    def of(self, stock: Any) -> Any:
        """Return skrl's class of the agent, changed to keep these values of each step."""
        add = self._steps.append

        def record_transition(agent: Any, **step: Any) -> None:
            add(_final_values(agent, **step))
            stock.record_transition(agent, **step)

        return type(stock.__name__, (stock,), {"record_transition": record_transition})

    def added(self, stock: ComputeGae) -> ComputeGae:
        """Return skrl's ``compute_gae``, changed to add them, discounted, to the rewards.

        ``update`` gives it the sum of the task's and the discriminator's rewards, so that the
        values are not scaled with either.
        """

        def compute_gae(**values: Any) -> tuple[torch.Tensor, torch.Tensor]:
            finals = torch.stack(self._steps)
            self._steps.clear()
            values["rewards"] = values["rewards"] + values["discount_factor"] * finals
            return stock(**values)

        return compute_gae


def _final_values(
    agent: Any,
    *,
    next_observations: torch.Tensor,
    next_states: torch.Tensor | None,
    truncated: torch.Tensor,
    **_: Any,
) -> torch.Tensor:
    """Return the values of final states, 0 where no time limit ended it, ``(num_envs, 1)``."""

    def compute(rows: torch.Tensor | slice) -> torch.Tensor:
        inputs = {
            "observations": agent._observation_preprocessor(next_observations[rows]),
            "states": agent._state_preprocessor(None if next_states is None else next_states[rows]),
        }
        with torch.autocast(device_type=agent._device_type, enabled=agent.cfg.mixed_precision):
            values, _ = agent.value.act(inputs, role="value")
            values = agent._value_preprocessor(values, inverse=True)
        return values.float()

    return computed_where(truncated.squeeze(1), compute).expand(len(truncated), 1)
