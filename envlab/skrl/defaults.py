"""Networks and memories for an algorithm for which a task has no configuration."""

from __future__ import annotations

from typing import Any

from envlab.skrl.library import OFF_POLICY, SQUASHED, model_defaults

REPLAY_STEPS = 1000
"""Timesteps that a replay memory holds, of each environment."""

_BOUNDED = "tanh(ACTIONS)"
"""Output of policies that explore by added noise: actions of envlab's tasks are about -1 to 1."""


def default_models(algorithm: str) -> dict[str, Any]:
    """Return networks by role, two hidden layers of 32 each."""
    if algorithm in ("sac", "td3", "ddpg"):
        return _actor_critics(algorithm)
    if algorithm in ("dqn", "ddqn"):
        return {
            "separate": True,
            "q_network": _model("DeterministicMixin", "ACTIONS"),
            "target_q_network": _model("DeterministicMixin", "ACTIONS"),
        }
    if algorithm == "cem":
        return {"separate": True, "policy": _model("CategoricalMixin", "ACTIONS")}
    seen = "STATES" if algorithm == "mappo" else "OBSERVATIONS"
    models: dict[str, Any] = {
        "separate": algorithm in ("trpo", "amp", "ippo", "mappo"),
        "policy": _model("GaussianMixin", "ACTIONS"),
        "value": _model("DeterministicMixin", "ONE", seen),
    }
    if algorithm == "amp":
        models["discriminator"] = _model("DeterministicMixin", "ONE")
    return models


def exploration(algorithm: str) -> dict[str, Any]:
    """Return the exploration of an algorithm's paper, which skrl leaves to its user.

    Without it, DQN, DDPG and TD3 repeat one action in a state forever. The deviations of noise are
    those of Fujimoto et al., "Addressing Function Approximation Error in Actor-Critic Methods"
    (2018), for actions of -1 to 1; their DDPG explores by the same noise, no worse than by the
    correlated noise of DDPG's paper. skrl clips smoothing noise to 0.5 by default.
    """
    if algorithm in ("dqn", "ddqn"):
        return {"exploration_scheduler": "max(0.05, 1 - 2 * timestep / timesteps)"}
    settings: dict[str, Any] = {}
    if algorithm in ("td3", "ddpg"):
        settings |= _noise("exploration_noise", 0.1)
    if algorithm == "td3":
        settings |= _noise("smooth_regularization_noise", 0.2)
    return settings


def default_settings(algorithm: str) -> dict[str, Any]:
    """Return the differences from skrl's defaults for a task without its own settings."""
    if algorithm in OFF_POLICY:
        return {"batch_size": 1024, "learning_starts": 16}
    if algorithm == "cem":
        return {"rollouts": 300}  # it learns from whole episodes
    return {"time_limit_bootstrap": True}  # skrl's default, false, treats a time limit as an end


def _noise(name: str, std: float) -> dict[str, Any]:
    return {name: "GaussianNoise", f"{name}_kwargs": {"mean": 0.0, "std": std}}


def default_memories(algorithm: str) -> dict[str, Any]:
    """Return the memories of an algorithm by their names in the configuration."""
    memories: dict[str, Any] = {"memory": _memory(-1)}
    if algorithm in OFF_POLICY:
        memories["memory"] = _memory(REPLAY_STEPS)
    if algorithm == "amp":
        memories |= {"motion_dataset": _memory(200_000), "reply_buffer": _memory(1_000_000)}
    return memories


def _actor_critics(algorithm: str) -> dict[str, Any]:
    kind = SQUASHED if algorithm == "sac" else "DeterministicMixin"
    output = "ACTIONS" if algorithm == "sac" else _BOUNDED
    names = ["critic"] if algorithm == "ddpg" else ["critic_1", "critic_2"]
    models: dict[str, Any] = {"separate": True, "policy": _model(kind, output)}
    if algorithm != "sac":
        models["target_policy"] = _model(kind, output)
    for name in [*names, *(f"target_{name}" for name in names)]:
        models[name] = _model("DeterministicMixin", "ONE", "concatenate([OBSERVATIONS, ACTIONS])")
    return models


def _model(kind: str, output: str, seen: str = "OBSERVATIONS") -> dict[str, Any]:
    layers = {"name": "net", "input": seen, "layers": [32, 32], "activations": "elu"}
    return {
        "class": kind,
        **model_defaults(kind, "agent.models"),
        "network": [layers],
        "output": output,
    }


def _memory(size: int) -> dict[str, Any]:
    # A rollout is used as a whole; drawing from a replay memory without replacement would shuffle
    # all of it in every step.
    return {"class": "RandomMemory", "memory_size": size, "replacement": size > 0}
