"""Batches with a different number of samples on each rank, and a small objective."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from gymnasium import spaces

from envlab.distributed.context import DistributedContext
from envlab_navigation.ddppo.losses import PPO
from envlab_navigation.ddppo.model import RecurrentActorCritic
from envlab_navigation.ddppo.objective import Objective
from envlab_navigation.ddppo.storage import Batch

NUM_VALUES, NUM_OPTIONS, HIDDEN = 6, 4, 8


def num_samples(rank: int) -> int:
    return 5 + 9 * rank


def share_of(rank: int, world_size: int) -> float:
    return num_samples(rank) * world_size / sum(num_samples(other) for other in range(world_size))


def batch_of(rank: int) -> Batch:
    """Return the samples of a rank: one step of as many environments."""
    generator = torch.Generator().manual_seed(rank)
    shape = (1, num_samples(rank))

    def draw(*sizes: int) -> torch.Tensor:
        return torch.randn(*shape, *sizes, generator=generator)

    obs, memory = {"vector": draw(NUM_VALUES)}, 0.5 * draw(HIDDEN)[0]
    begun = {"previous_actions": torch.zeros(*shape, 1).long(), "starts": torch.zeros(shape).bool()}
    actions = torch.randint(NUM_OPTIONS, (*shape, 1), generator=generator)
    acted = {"actions": actions, "log_probs": -1.4 + 0.05 * draw()}
    drawn = {name: draw() for name in ("values", "returns", "raw_advantages", "advantages")}
    return Batch(obs=obs, memory=memory, **begun, **acted, **drawn)


def make_objective() -> Objective:
    """Return PPO on a small GRU, the same in each process."""
    torch.manual_seed(3)
    env: Any = SimpleNamespace(
        single_observation_space=spaces.Dict({"policy": spaces.Box(-9, 9, (NUM_VALUES,))}),
        single_action_space=spaces.Discrete(NUM_OPTIONS),
        obs_buf={"policy": torch.zeros(1, NUM_VALUES)},
        context=DistributedContext(),
    )
    model = RecurrentActorCritic(env, hidden_dim=HIDDEN, vector_dims=[16])
    return Objective(model, [PPO()])


def terms(objective: Objective) -> list[tuple[str, Any, float]]:
    return [("ppo", PPO(), 1.0)]


def concatenated(num_ranks: int) -> Batch:
    """Return the samples of all ranks in one batch."""
    batches = [batch_of(rank) for rank in range(num_ranks)]

    def joined(name: str) -> Any:
        parts = [getattr(batch, name) for batch in batches]
        if parts[0] is None:
            return None
        if isinstance(parts[0], dict):
            return {key: torch.cat([part[key] for part in parts], dim=1) for key in parts[0]}
        return torch.cat(parts, dim=0 if name == "memory" else 1)

    return Batch(**{name: joined(name) for name in vars(batches[0])})
