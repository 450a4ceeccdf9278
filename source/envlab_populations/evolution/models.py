"""The networks of a member: skrl's models around evolvable bodies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from gymnasium import spaces

from envlab.distributed.context import DistributedContext
from envlab.envs.action_use import ActionBound
from envlab.errors import ConfigurationError
from envlab.skrl.checks import unit_bound
from envlab.skrl.env import SkrlVectorEnv, Spaces
from envlab.skrl.torch.heads import Head, make_heads
from envlab_populations.crew import ENV_ID, MODULE, CrewSpace
from envlab_populations.evolution.cfg import NOISY, SEVERAL, EvolutionCfg
from envlab_populations.evolution.networks import EvolvableNetwork
from envlab_populations.population.architecture import Architecture

BOUNDED = ("sac", *NOISY)
"""Algorithms whose actions lie between -1 and 1 where the task sets no bounds."""


def seen_by(algorithm: str, env: Any) -> SkrlVectorEnv:
    """Return the environments in the form for an algorithm's members.

    Raises:
        ConfigurationError: If the algorithm does not fit them.
    """
    wrapper = SkrlVectorEnv(env, bounded=algorithm in BOUNDED)
    seen = wrapper.spaces["agent"]
    if algorithm in SEVERAL:
        crew = getattr(env, "unflattened_space", None)
        if not isinstance(crew, CrewSpace):
            raise ConfigurationError(
                f"--algorithm is {algorithm.upper()}, which trains several agents, but the task "
                f"has one. Name an environment of PettingZoo's by --task=gym:{MODULE}:{ENV_ID} "
                "env.kwargs.environment=mpe2.simple_spread_v3, or choose "
                f"{SEVERAL[algorithm].upper()}."
            )
        wrapper.spaces["agent"] = seen._replace(observation_space=crew)
    check_actions(algorithm, seen.action_space)
    return wrapper


def action_bound(cfg: EvolutionCfg, env: Any) -> ActionBound | None:
    """Return the bound of actions that need one."""
    return unit_bound(cfg.algorithm) if cfg.algorithm in BOUNDED else None


def check_actions(algorithm: str, space: spaces.Space[Any]) -> None:
    """Refuse an algorithm that does not fit the actions.

    Raises:
        ConfigurationError: Naming an algorithm that fits.
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
    if algorithm in SEVERAL:
        from envlab_populations.evolution.maddpg import make_joint_heads

        return make_joint_heads(algorithm, seen, body, device, context)
    return make_heads(algorithm, seen, body, device, context)
