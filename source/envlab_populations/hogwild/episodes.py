"""Agents that learn from whole episodes, as with SLM-Lab's memory ``OnPolicyReplay``."""

from __future__ import annotations

from typing import Any

import torch

from envlab.skrl.torch.memory import QuickMemory


class EpisodeMemory(QuickMemory):
    """Steps of a session's one environment, which skrl's updates treat as a rollout.

    It holds all steps since it was last cleared.

    Attributes:
        steps: These steps, tensors ``(num_envs, dim)`` by name.
    """

    def __init__(self, **values: Any) -> None:
        """Make an empty memory."""
        super().__init__(**values | {"memory_size": 1})
        self.steps: list[dict[str, torch.Tensor]] = []
        self._whole: dict[str, torch.Tensor] = {}

    def __len__(self) -> int:
        return len(self.steps) * self.num_envs

    def add_samples(self, **tensors: Any) -> None:
        """Record a step, ``(num_envs, dim)`` each."""
        self.steps.append({name: one.clone() for name, one in tensors.items() if one is not None})

    def get_tensor_by_name(self, name: str) -> torch.Tensor:
        """Return the records of a name, ``(num_steps, num_envs, dim)``."""
        if name not in self._whole:
            self._whole[name] = torch.stack([step[name] for step in self.steps])
        return self._whole[name]

    def set_tensor_by_name(self, name: str, tensor: torch.Tensor) -> None:
        """Put a tensor, ``(num_steps, num_envs, dim)``, under a name."""
        self._whole[name] = tensor.detach()

    def sample(
        self, names: list[str], *, batch_size: int, mini_batches: int = 1, sequence_length: int = 1
    ) -> list[list[Any]]:
        """Return all steps in a random order and in parts; None for names without records."""
        known = {*self.steps[0], *self._whole}
        found = [name for name in names if name in known]
        flat = {name: self.get_tensor_by_name(name).flatten(0, 1) for name in found}
        order = torch.randperm(len(self), device=self.device)
        return [
            [flat[name][part] if name in flat else None for name in names]
            for part in order.tensor_split(min(mini_batches, len(self)))
        ]

    def clear(self) -> None:
        """Delete all steps."""
        self.steps.clear()
        self._whole.clear()


def with_episodes(stock: Any, num_episodes: int) -> Any:
    """Return an agent's class that learns after every ``num_episodes`` episodes."""

    class WithEpisodes(stock):  # type: ignore[misc]
        num_ended = 0

        def record_transition(self, *, terminated: Any, truncated: Any, **rest: Any) -> None:
            super().record_transition(terminated=terminated, truncated=truncated, **rest)
            self.num_ended += int((terminated | truncated).sum())

        def post_interaction(self, *, timestep: int, timesteps: int) -> None:
            if self.num_ended < num_episodes or len(self.memory) < 2:
                return  # the advantage of a single step cannot be divided by a deviation
            self.num_ended = 0
            self.enable_models_training_mode(True)
            self.update(timestep=timestep, timesteps=timesteps)
            self.enable_models_training_mode(False)
            self.memory.clear()
            self._rollout += 1  # which checkpoints hold: how often it has learned

    return WithEpisodes
