"""SARSA: values of actions learned from the actions that were taken (Rummery and Niranjan 1994)."""

from __future__ import annotations

from typing import Any

import torch


def sarsa_class(stock: Any, num_steps: int) -> Any:
    """Return an agent's class from skrl's DQN, with its network and exploration.

    It learns once from each rollout. The target of Q(s, a) is r + γ Q(s', a') of the next state and
    the action taken there (Sutton and Barto 2018, eq. 6.7), and r where s' is terminal. A step
    whose next action is unknown, because it is the last of the rollout or of the time limit, is
    omitted; SLM-Lab assumes the first action.
    """

    class Sarsa(stock):  # type: ignore[misc]
        def init(self, *, trainer_cfg: Any = None) -> None:
            super().init(trainer_cfg=trainer_cfg)
            self.memory.create_tensor(name="truncated", size=1, dtype=torch.bool)

        def record_transition(self, *, truncated: Any, **rest: Any) -> None:
            row = self.memory.memory_index
            super().record_transition(truncated=truncated, **rest)
            self.memory.tensors["truncated"][row] = truncated

        def post_interaction(self, *, timestep: int, timesteps: int) -> None:
            if (timestep + 1) % num_steps == 0:
                self.update(timestep=timestep, timesteps=timesteps)

        def update(self, *, timestep: int, timesteps: int) -> None:
            steps = {name: self.memory.get_tensor_by_name(name) for name in self.memory.tensors}
            values = self.values_of(steps["observations"], steps["actions"])
            is_known = self._known(steps)
            with torch.no_grad():
                next_actions = steps["actions"].roll(-1, 0)
                following = self.values_of(steps["next_observations"], next_actions)
                going = ~steps["terminated"]
                targets = steps["rewards"] + self.cfg.discount_factor * going * following
            if not bool(is_known.any()):
                return
            loss = self.loss(values[is_known], targets[is_known])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.track_data("Loss / Q-network loss", loss.item())

        def values_of(self, observations: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
            inputs = {"observations": self._observation_preprocessor(observations.flatten(0, 1))}
            found = self.q_network.act(inputs, role="q_network")[0]
            return found.gather(1, actions.flatten(0, 1).long()).view(actions.shape)

        def _known(self, steps: dict[str, torch.Tensor]) -> torch.Tensor:
            is_last = torch.zeros_like(steps["terminated"])
            is_last[-1] = True
            return steps["terminated"] | ~(steps["truncated"] | is_last)

    return Sarsa
