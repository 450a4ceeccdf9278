"""Checkpoints of format 1, in which what ranks remember had other names.

Format 2 has the names that classes declare (:mod:`envlab.state`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

Old = Mapping[str, Any]
_Converter = Callable[[Any], dict[str, Any]]


def env_state(old: Old) -> dict[str, Any]:
    """Return what :func:`envlab.state.save` returns of the environments of a rank."""
    if "members" in old:  # a population's
        return {"by_index": {index: env_state(own) for index, own in old["members"].items()}}
    new = {
        "common_step_counter": old["common_step_counter"],
        "random": {"base_seed": old["seed"], "tick": old["tick"]},
        "episode_length": old.get("episode_length"),
    }
    known = {"common_step_counter", "seed", "tick", "episode_length"}
    for name, value in old.items():
        if name in _ENVS:
            new |= _ENVS[name](value)
        elif name not in known:
            new[name] = value
    return new


def _physics(old: Old) -> dict[str, Any]:
    if "pushed" in old:  # the analytic backend's: a list of bodies, and columns of environments
        pushed = torch.zeros(old["xfrc_applied"].shape[:2], dtype=torch.bool)
        pushed[:, old["pushed"]] = True
        return {"sim": {**old, "state": old["state"].T, "pushed": pushed}}
    return {"sim": old}


def _task(old: Old) -> dict[str, Any]:
    if "commands" in old:
        new = {name: value for key, part in old.items() for name, value in _TASK[key](part).items()}
        return new | {"observation_manager": {"stages": {}}, "memories": {}}
    new = dict(old)
    if "event_age" in old:  # one hand
        new["hand"] = {"targets": new.pop("targets")}
    elif isinstance(old.get("targets"), Mapping):  # two hands
        new["hands"] = {agent: {"targets": one} for agent, one in new.pop("targets").items()}
    return new


def _rewards(old: Old) -> dict[str, Any]:
    # The sums of 0.1.0 had no names. They are only logged.
    sums = dict(zip(old.get("terms", ()), old["episode_sums"], strict=False))
    changed = {"new_params": old.get("params", {}), "new_weights": old["weights"]}
    return {"reward_manager": {"episode_sums": sums, **changed}}


def _commands(old: Old) -> dict[str, Any]:
    terms = {}
    for name, term in old.items():
        own = _public(term["own"])
        own.pop("sampling", None)  # among a motion's metrics, too
        terms[name] = {key: value for key, value in term.items() if key != "own"} | own
    return {"command_manager": {"terms": terms}}


def _sensors(old: Old) -> dict[str, Any]:
    return {"sensor_manager": {"terms": {name: _public(term) for name, term in old.items()}}}


def _public(old: Old) -> dict[str, Any]:
    return {name.lstrip("_"): value for name, value in old.items()}


def _named(name: str) -> _Converter:
    """Return a converter that renames a value."""
    return lambda old: {name: old}


def _part(name: str, key: str) -> _Converter:
    """Return a converter of a part's only value, which had no name of its own."""
    return lambda old: {name: None if old is None else {key: old}}


_ENVS: Mapping[str, _Converter] = {
    "obs": _named("obs_buf"),
    "sim": _physics,
    "nan_guard": _part("nan_guard", "bad_obs"),
    "terrain": lambda old: {"terrain": old and {"terrain_levels": old["levels"]}},
    "task": _task,
    "noise_biases": _named("biases"),
    "episodes": _named("agents"),
    "augmentation": _part("augmentation", "bits"),
}
"""By name in the state of environments."""
_TASK: Mapping[str, _Converter] = {
    "actions": _named("action_manager"),
    "rewards": _rewards,
    "events": _part("event_manager", "time_left"),
    "commands": _commands,
    "sensors": _sensors,
    "success": _part("success_manager", "values"),
    "encoder_bias": _named("encoder_bias"),
}
"""By name in the state of a task that has managers."""
