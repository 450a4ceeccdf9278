"""From the numbers of a program of AgileRL's to the configuration of members."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from envlab.config import merge
from envlab.config.translator import NoEffect, Translator
from envlab.distributed.ranks import launched_rank
from envlab_populations.agilerl.file import NETWORK_NAMES
from envlab_populations.agilerl.file_network import network_values
from envlab_populations.agilerl.words import PATHS, RECURRENT, ROWS, exploration_noise
from envlab_populations.evolution.cfg import NOISY, SEVERAL, BoundsCfg, EvolutionCfg

_OFF_POLICY = {"batch_size": 64, "learn_step": 5, "gamma": 0.99, "tau": 1e-3}
_DQN = _OFF_POLICY | {"lr": 1e-4, "double": False}
_DDPG = _OFF_POLICY | {
    **{"lr_actor": 1e-4, "lr_critic": 1e-3, "policy_freq": 2, "O_U_noise": True},
    **{"expl_noise": 0.1, "mean_noise": 0.0, "theta": 0.15, "dt": 0.01},
}
_MADDPG = _DDPG | {"lr_actor": 1e-3, "lr_critic": 1e-2, "gamma": 0.95, "tau": 0.01}
DEFAULTS: dict[str, dict[str, Any]] = {
    "dqn": _DQN,
    "cqn": _DQN,
    "ddpg": _DDPG,
    "td3": _DDPG | {"tau": 0.005},
    "maddpg": _MADDPG,
    "matd3": _MADDPG,
    "ppo": {
        **{"batch_size": 64, "lr": 1e-4, "learn_step": 2048, "gamma": 0.99, "gae_lambda": 0.95},
        **{"clip_coef": 0.2, "ent_coef": 0.01, "vf_coef": 0.5, "max_grad_norm": 0.5},
        **{"update_epochs": 4},
    },
}
"""Defaults of AgileRL's constructors (2.9.1)."""
_printed: set[str] = set()


def tell(line: str) -> None:
    """Print a line on a difference from AgileRL, once and on rank 0 alone."""
    if line not in _printed and launched_rank() == 0:
        print(f"[agilerl] {line}", file=sys.stderr)
    _printed.add(line)


@dataclass(kw_only=True)
class RLParameter:
    """The bounds between which a number evolves, and its factors."""

    min: float
    max: float
    shrink_factor: float = 0.8
    grow_factor: float = 1.2
    dtype: type = float

    def bounds(self) -> BoundsCfg:
        """Return envlab's bounds; a factor of 1 leaves the number unchanged."""
        return BoundsCfg(
            min=self.min, max=self.max, shrink=self.shrink_factor, grow=self.grow_factor
        )


class HyperparameterConfig(dict[str, RLParameter]):
    """Numbers that evolve, by name."""

    @classmethod
    def around(cls, values: Mapping[str, Any]) -> HyperparameterConfig:
        """Return AgileRL's bounds where a program gives none: a tenth to ten times a rate."""
        found = cls()
        for name in ("lr", "lr_actor", "lr_critic", "batch_size", "learn_step"):
            value = values.get(name)
            if isinstance(value, int):
                found[name] = RLParameter(
                    min=max(1, value // 4), max=value * 4, shrink_factor=0.75, grow_factor=1.5
                )
            elif isinstance(value, float):
                found[name] = RLParameter(min=value / 10, max=value * 10)
        return found


def numbers_of(algorithm: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return an agent's numbers by AgileRL's names, with defaults for those left out.

    Numbers without effect here are printed.

    Args:
        algorithm: Its lower-case name.
        given: ``INIT_HP``, in upper or lower case, or a constructor's arguments.

    Raises:
        ConfigurationError: If a recurrent agent is wanted.
    """
    values = {str(name).lower(): value for name, value in given.items()}
    if "o_u_noise" in values:
        values["O_U_noise"] = values.pop("o_u_noise")
    Translator(values, peer="agilerl", file="the program").refuse("recurrent", RECURRENT)
    numbers = dict(DEFAULTS[algorithm])
    if "lr" in values and "lr_actor" in numbers:  # 0.1 and 1.0 had one rate
        numbers |= {"lr_actor": values["lr"], "lr_critic": values["lr"]}
    for name, value in values.items():
        is_idle = name == "policy_freq" and algorithm not in ("td3", "matd3")
        row = ROWS.get(f"algorithm.{name}")
        if name in numbers and not is_idle:
            numbers[name] = value
        elif isinstance(row, NoEffect) and value not in (None, False):
            tell(f"{name} has no effect: {row.why}")
    return numbers


def network_of(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return ``agent.network`` for a program's ``net_config``, and print the differences.

    Raises:
        ConfigurationError: For networks that members do not have.
    """
    renamed = {NETWORK_NAMES.get(name, name): value for name, value in (config or {}).items()}
    file = Translator({"network": renamed}, peer="agilerl", file="net_config")
    values = network_values(file)
    for note in file.notes:
        tell(note)
    return values


def member_cfg(
    algorithm: str, numbers: Mapping[str, Any], network: Mapping[str, Any], *, is_scaled: bool
) -> EvolutionCfg:
    """Return the configuration of a member; its numbers are those of :func:`agent_values`.

    Args:
        algorithm: Its lower-case name.
        numbers: The result of :func:`numbers_of`.
        network: ``agent.network``.
        is_scaled: Whether observations are normalised by their running statistics.
    """
    name = "ddqn" if algorithm == "dqn" and numbers["double"] else algorithm
    cfg = EvolutionCfg.of("dqn" if algorithm == "cqn" else name)
    cfg.mutations.rl_hp = 0.0
    cfg.mutations.rl_hp_selection = {}
    agent = agent_values(algorithm, numbers)
    if algorithm in SEVERAL:
        agent["grad_norm_clip"] = 0.0
    if algorithm in NOISY:
        sigma, mean, theta, dt = (
            float(np.mean(numbers[name])) for name in ("expl_noise", "mean_noise", "theta", "dt")
        )
        kind, noise_values = exploration_noise(sigma, mean, theta, dt, bool(numbers["O_U_noise"]))
        cfg.agent["exploration_noise_kwargs"] = noise_values
        agent |= {"exploration_noise": kind, "random_timesteps": 0, "learning_starts": 0}
    if algorithm == "ppo":
        agent |= {"value_preprocessor": None, "time_limit_bootstrap": False}
        agent |= {"value_clip": float(numbers["clip_coef"])}
    if algorithm in ("dqn", "cqn"):
        agent |= {"loss": "mse", "grad_norm_clip": 0.0, "gradient_steps": 1}
    agent["observation_preprocessor"] = "RunningStandardScaler" if is_scaled else None
    values = {"agent": agent, "network": dict(network), "population": {"tournament_size": 1}}
    return merge(cfg, values, "agent").resolved()


def agent_values(algorithm: str, numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``agent.agent`` for numbers that may evolve."""
    found: dict[str, Any] = {}
    for theirs, ours in PATHS.items():
        on_policy_batch = algorithm == "ppo" and theirs == "batch_size"
        if theirs in numbers and not on_policy_batch and ours not in found:
            is_idle = theirs == "policy_freq" and algorithm not in ("td3", "matd3")
            if not is_idle:
                whole = theirs in ("batch_size", "update_epochs", "policy_freq")
                found[ours] = int(numbers[theirs]) if whole else float(numbers[theirs])
    if "lr_actor" in numbers:
        found["learning_rate"] = float(numbers["lr_actor"])
        found["critic_learning_rate"] = float(numbers["lr_critic"])
    return found
