"""The networks of a member: skrl's models around evolvable bodies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from gymnasium import spaces

from envlab.distributed.context import DistributedContext
from envlab.errors import ConfigurationError
from envlab.skrl.env import Spaces
from envlab.skrl.torch.heads import Head, make_heads
from envlab_populations.evolution.architecture import Architecture
from envlab_populations.evolution.networks import EvolvableNetwork


def check_actions(algorithm: str, space: spaces.Space[Any]) -> None:
    """Refuse an algorithm that does not fit the actions.

    Raises:
        ConfigurationError: Naming one that does.
    """
    is_box, is_choice = isinstance(space, spaces.Box), isinstance(space, spaces.Discrete)
    fits = {"ppo": is_box or is_choice, "dqn": is_choice, "ddqn": is_choice}.get(algorithm, is_box)
    if not fits:
        better = "SAC, TD3, DDPG or PPO" if is_box else "DQN, DDQN or PPO" if is_choice else "none"
        raise ConfigurationError(
            f"--algorithm is {algorithm.upper()}, but the task's actions are {space}. "
            + (f"Choose {better}." if better != "none" else "No algorithm that evolves takes them.")
        )


def make_models(
    algorithm: str,
    seen: Spaces,
    architecture: Architecture,
    device: torch.device,
    context: DistributedContext,
) -> dict[str, Head]:
    """Return an algorithm's networks by role, all of one shape between inputs and outputs."""

    def body(shape: Sequence[int], num_extra: int, num_outputs: int) -> EvolvableNetwork:
        return EvolvableNetwork(shape, num_extra, num_outputs, architecture)

    seen = seen._replace(state_space=None)  # members learn from observations alone
    return make_heads(algorithm, seen, body, device, context)
