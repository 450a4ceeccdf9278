"""Configurations of agents for rsl_rl 2 and 3 as those for rsl_rl 5.

They are those of ``isaaclab_rl.rsl_rl`` (``RslRlOnPolicyRunnerCfg``); the tables say what each of
their names is in rsl_rl 5.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

from rsl_rl.algorithms import PPO, Distillation

from envlab.errors import ConfigurationError

NETWORKS = {
    "ActorCritic": ("actor", "critic"),
    "ActorCriticRecurrent": ("actor", "critic"),
    "StudentTeacher": ("student", "teacher"),
    "StudentTeacherRecurrent": ("student", "teacher"),
}
"""Classes of ``policy``, and rsl_rl 5's networks for each."""
_DISTRIBUTION = {"init_noise_std": "init_std", "noise_std_type": "std_type"}
"""Fields of ``policy``, and what they are of rsl_rl 5's distribution."""
_MEMORY = {
    "rnn_type": "rnn_type",
    "rnn_hidden_dim": "rnn_hidden_dim",
    "rnn_hidden_size": "rnn_hidden_dim",
    "rnn_num_layers": "rnn_num_layers",
}
_ALGORITHMS: dict[str, type] = {"PPO": PPO, "Distillation": Distillation}


def new_paths(path: str, networks: tuple[str, str]) -> list[str]:
    """Return what a setting is in :func:`new_configuration`'s result: itself, or others.

    Args:
        path: Its path in the configuration of rsl_rl 2 or 3, such as ``policy.activation``.
        networks: Names of the networks, the acting one first.
    """
    first = networks[0]
    if path == "empirical_normalization":
        return [f"{network}.obs_normalization" for network in networks]
    if path.startswith("obs_groups.policy"):
        return [path.replace("policy", first, 1)]
    name = path.removeprefix("policy.")
    if name == path:
        return [path]
    if name in _DISTRIBUTION:
        return [f"{first}.distribution_cfg.{_DISTRIBUTION[name]}"]
    network, _, rest = name.partition("_")
    if network in networks:
        return [f"{network}.{rest}"]
    return [f"{one}.{_MEMORY.get(name, name)}" for one in networks]


def new_configuration(cfg: Mapping[str, Any]) -> dict[str, Any]:
    """Return rsl_rl 5's configuration for one of rsl_rl 2 or 3.

    Raises:
        ConfigurationError: If it names a network or an algorithm that rsl_rl 5 does not have.
    """
    values = _given(cfg)
    policy, algorithm = values.pop("policy"), values["algorithm"]
    kind = str(policy.pop("class_name", "ActorCritic"))
    if kind not in NETWORKS:
        raise ConfigurationError(
            f"agent.policy.class_name is {kind!r}, but the installed rsl_rl 5 has only "
            f"{', '.join(NETWORKS)} of the networks of rsl_rl 2 and 3."
        )
    if values.get("empirical_normalization"):
        for network in NETWORKS[kind]:
            policy.setdefault(f"{network}_obs_normalization", True)
    for network in NETWORKS[kind]:
        values[network] = _network(policy, network, kind)
    known = _ALGORITHMS.get(algorithm.get("class_name", "PPO"))
    if known is not None:
        _check_known(algorithm, known)
    first = NETWORKS[kind][0]
    groups = values.get("obs_groups") or {}
    values["obs_groups"] = {first if name == "policy" else name: g for name, g in groups.items()}
    return values


def _given(cfg: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that were set: Isaac Lab marks the others as missing."""
    return {
        name: _given(value) if isinstance(value, Mapping) else value
        for name, value in cfg.items()
        if value is not dataclasses.MISSING
    }


def _network(policy: Mapping[str, Any], network: str, kind: str) -> dict[str, Any]:
    is_first = network == NETWORKS[kind][0]
    recurrent = kind.endswith("Recurrent") and (
        network != "teacher" or bool(policy.get("teacher_recurrent"))
    )
    made: dict[str, Any] = {
        "class_name": "RNNModel" if recurrent else "MLPModel",
        "hidden_dims": list(policy.get(f"{network}_hidden_dims", (256, 256, 256))),
        "activation": policy.get("activation", "elu"),
        "obs_normalization": bool(policy.get(f"{network}_obs_normalization", False)),
    }
    if recurrent:
        made |= {new: policy[old] for old, new in _MEMORY.items() if old in policy}
    if is_first or network == "teacher":
        depends = bool(policy.get("state_dependent_std"))
        name = "HeteroscedasticGaussianDistribution" if depends else "GaussianDistribution"
        noise = {new: policy[old] for old, new in _DISTRIBUTION.items() if old in policy}
        made["distribution_cfg"] = {"class_name": name, **noise}
    return made


def _check_known(algorithm: Mapping[str, Any], kind: type) -> None:
    names = set(inspect.signature(kind).parameters) | {"class_name", "rnd_cfg", "symmetry_cfg"}
    unknown = sorted(set(algorithm) - names)
    if unknown:
        raise ConfigurationError(
            f"agent.algorithm has {', '.join(unknown)}, which {kind.__name__} of the installed "
            "rsl_rl 5 does not know. Take it out, or give the project its own rsl_rl."
        )
