"""Checkpoints of formats 1 and 2, which had other names or layouts.

Format 2 has the names that classes declare (:mod:`envlab.state`); a guest's library names its own
converter, :attr:`envlab.libraries.Library.old_state`. Format 3 has one layout for members; what
guests had before they convert by functions of the group ``envlab.old_checkpoints``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from envlab.errors import CheckpointError
from envlab.libraries import libraries
from envlab.plugins import load_plugins
from envlab.registry import load_entry_point

Old = Mapping[str, Any]
ENTRY_POINT_GROUP = "envlab.old_checkpoints"
_Converter = Callable[[Any], dict[str, Any]]
NOISE = "agent.exploration_noise.state"
_HAND_EVENTS = (
    "robot_physics_material",
    "robot_joint_stiffness_and_damping",
    "robot_joint_pos_limits",
    "object_physics_material",
    "object_scale_mass",
)


def converted(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a checkpoint's contents with the names of today.

    Raises:
        CheckpointError: If a rank's part is damaged.
    """
    ranks, version = values.get("ranks"), values["format_version"]
    if version > 2 or not isinstance(ranks, list):
        return dict(values)
    library = str(values.get("library"))
    try:
        if version < 2:
            values = {**values, "ranks": [_rank_part(part, library) for part in ranks]}
        for convert in load_plugins(ENTRY_POINT_GROUP).found.values():
            values = convert(values)
        return dict(values)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"The checkpoint is damaged, or was not written by envlab: a rank's part of it cannot "
            f"be read ({error!r}). Use another one."
        ) from error


def _rank_part(old: Old, library: str) -> dict[str, Any]:
    if "learner" not in old:  # of a policy that ships, without what its training remembered
        return dict(old)
    learner, episodes = old["learner"], old["episodes"]
    old = {**old, "env": env_state(old["env"])}
    if "since" in learner:  # a population's
        members = {
            index: {**member, "learner": learner_state(member["rank"], library)}
            for index, member in learner["members"].items()
        }
        counted = dict(enumerate(episodes["members"]))
        episodes = {"returns": None, "lengths": None, "parts": counted}
        return {**old, "learner": {**learner, "members": members}, "episodes": episodes}
    return {**old, "learner": learner_state(learner, library)}


def learner_state(old: Old, library: str) -> dict[str, Any]:
    """Return what :func:`envlab.state.save` returns of a library's learner."""
    if library in _LEARNERS:
        return _LEARNERS[library](old)
    known = libraries().get(library)
    if known is None or known.old_state is None:
        return dict(old)
    return dict(load_entry_point(known.old_state)(old))


def _rsl_rl(old: Old) -> dict[str, Any]:
    own = ("ahead", "ahead_generator", "intrinsic_returns")
    return {
        "alg.rnd.reward_normalizer.disc_avg.avg": old["intrinsic_returns"],
        "memories": {name: memory for name, memory in old.items() if name not in own},
        "ahead.overlap": _overlap(old),
    }


def _rl_games(old: Old) -> dict[str, Any]:
    if "position" in old:  # SAC's replay memory
        return {"memory": dict(old)}
    return {
        "agent.dones": old["dones"],
        "agent.rnn_states": old["memory"],
        "agent.central_value_net.rnn_states": old["central_memory"],
    }


def skrl_state(old: Old) -> dict[str, Any]:
    """Return a state of skrl's learner, on PyTorch or on JAX."""
    noise = old["noise"]
    named = {"noises": noise} if isinstance(noise, Mapping) else {NOISE: noise}
    return {"memories": old["memories"], **named}


def _fast_sac(old: Old) -> dict[str, Any]:
    return {
        "returns": old["returns"],
        "collector.noise.deviations": old.get("noise"),
        "overlap": _overlap(old),
        "replay": old.get("replay"),
    }


def _overlap(old: Old) -> dict[str, Any] | None:
    if "ahead_generator" not in old:
        return None
    return {"ahead": old["ahead"], "generator": old["ahead_generator"]}


_LEARNERS: Mapping[str, _Converter] = {
    "rsl_rl": _rsl_rl,
    "rl_games": _rl_games,
    "skrl": skrl_state,
    "fast_sac": _fast_sac,
}


# ---- Environments --------------------------------------------------------------------------------


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
    age = new.pop("event_age", None)
    if age is not None and old.get("noise_biases"):  # OpenAI's hand, which alone has events
        new["event_manager"] = {"time_left": {}, "ages": dict.fromkeys(_HAND_EVENTS, age)}
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
        own.pop("sampling", None)  # also among a motion's metrics
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
    """Return a converter of a part's only value, which had no name."""
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
