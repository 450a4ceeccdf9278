"""Checkpoints of format 1, in which what ranks remember had other names.

Format 2 has the names that classes declare (:mod:`envlab.state`). A guest's library names its own
converter, :attr:`envlab.libraries.Library.old_state`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from envlab.errors import CheckpointError
from envlab.libraries import libraries
from envlab.registry import load_entry_point

Old = Mapping[str, Any]
_NOISE = "agent.exploration_noise.state"


def converted(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a checkpoint's contents with the names of today.

    Raises:
        CheckpointError: If a rank's part is damaged.
    """
    ranks = values.get("ranks")
    if values["format_version"] > 1 or not isinstance(ranks, list):
        return dict(values)  # a policy that ships has no ranks
    library = str(values.get("library"))
    try:
        return {**values, "ranks": [_part(part, library) for part in ranks]}
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"The checkpoint is damaged, or was not written by envlab: a rank's part of it cannot "
            f"be read ({error!r}). Use another one."
        ) from error


def _part(old: Old, library: str) -> dict[str, Any]:
    learner, episodes = old["learner"], old["episodes"]
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
    named = {"noises": noise} if isinstance(noise, Mapping) else {_NOISE: noise}
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


_LEARNERS: Mapping[str, Callable[[Old], dict[str, Any]]] = {
    "rsl_rl": _rsl_rl,
    "rl_games": _rl_games,
    "skrl": skrl_state,
    "fast_sac": _fast_sac,
}
