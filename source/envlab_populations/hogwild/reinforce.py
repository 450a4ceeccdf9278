"""REINFORCE: Williams, "Simple statistical gradient-following algorithms", 1992."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.utils import clip_grad_norm_

from envlab_populations.hogwild.returns import discounted_returns


def reinforce_class(stock: Any) -> Any:
    """Return an agent's class from skrl's A2C, with its memory and policy, but without a value.

    The loss is -mean(log π(a|s) A) - c H(π), with the returns G of a batch as advantages
    A = (G - mean G) / std G: SLM-Lab's (4.3 and 5), while Williams has no entropy H, and a baseline
    of choice.
    """

    class Reinforce(stock):  # type: ignore[misc]
        def __init__(self, **values: Any) -> None:
            super().__init__(**values)
            rate = self.cfg.learning_rate[0]
            self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=rate)
            self.checkpoint_modules["optimizer"] = self.optimizer

        def act(
            self, observations: Any, states: Any, *, timestep: int, timesteps: int
        ) -> tuple[torch.Tensor, dict[str, Any]]:
            actions, outputs = self.policy.act(self._inputs(observations, states), role="policy")
            self._current_log_prob = outputs["log_prob"]
            self._current_values = torch.zeros_like(outputs["log_prob"])
            return actions, outputs

        def update(self, *, timestep: int, timesteps: int) -> None:
            names = ("rewards", "terminated", "truncated", "observations", "actions")
            found = {name: self.memory.get_tensor_by_name(name) for name in names}
            ended = found["terminated"] | found["truncated"]
            returns = discounted_returns(found["rewards"], ended, self.cfg.discount_factor)
            inputs = self._inputs(found["observations"].flatten(0, 1), None, train=True)
            inputs["taken_actions"] = found["actions"].flatten(0, 1)
            _, outputs = self.policy.act(inputs, role="policy")
            entropy = self.policy.get_entropy(role="policy").mean()
            policy_loss = -(outputs["log_prob"] * standardised(returns.flatten(0, 1))).mean()
            self.optimizer.zero_grad()
            (policy_loss - self.cfg.entropy_loss_scale * entropy).backward()
            if self.cfg.grad_norm_clip > 0:
                clip_grad_norm_(self.policy.parameters(), self.cfg.grad_norm_clip)
            self.optimizer.step()
            self.track_data("Loss / Policy loss", policy_loss.item())
            self.track_data("Policy / Entropy", entropy.item())

        def _inputs(self, observations: Any, states: Any, *, train: bool = False) -> dict[str, Any]:
            how = {"train": True} if train else {}
            return {
                "observations": self._observation_preprocessor(observations, **how),
                "states": self._state_preprocessor(states, **how),
            }

    return Reinforce


def standardised(values: torch.Tensor) -> torch.Tensor:
    """Return values of mean 0 and deviation 1; a single one as it is, as in SLM-Lab."""
    return values if len(values) < 2 else (values - values.mean()) / (values.std() + 1e-8)
