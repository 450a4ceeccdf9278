"""Checkpoints of earlier versions: formats 1 and 2; see :mod:`envlab.run.old_states`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envlab.run.old_states import NOISE, skrl_state


def hogwild_state(old: Mapping[str, Any]) -> dict[str, Any]:
    """Return a session's state: skrl's, running returns, and episodes under way."""
    under_way = None
    if "under_way" in old:
        names = ("agent.memory.steps", "agent.num_ended", "agent.episodes")
        under_way = {name: old["under_way"].get(name.rpartition(".")[2]) for name in names}
    return {
        **skrl_state(old),
        "agent.reward_normaliser.returns": old.get("returns"),
        "under_way": under_way,
    }


def whole_member(old: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an agent of an AgileRL program saved, or today's layout unchanged."""
    return dict(old) if "model" in old else {**_evolved_record(old), "model": _model(old)}


# ---- Populations until 0.2.0 ---------------------------------------------------------------------


def population(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a checkpoint with the layout of today's populations; others unchanged.

    Until 0.2.0, members of any library and members that evolve had a layout each.
    """
    model = values["model"]
    if isinstance(model.get("members"), list):
        return _evolved(values)
    if "values" in model.get("population", ()):
        return _of_any_library(values)
    return dict(values)


def _of_any_library(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a checkpoint of population-based training."""
    state, ranks = values["model"]["population"], []
    for part in values["ranks"]:
        members = {
            index: {name: one for name, one in member.items() if name != "hyperparameters"}
            | {"frames": member["metrics"]["frames"]}
            for index, member in part["learner"]["members"].items()
        }
        ranks.append({**part, "learner": {**part["learner"], "members": members}})
    own = {"mutation": "none", "copied": False, "architecture": None, "fitness": []}
    records = [
        {**own, "index": index, "parent": parent, "hyperparameters": dict(numbers)}
        for index, (parent, numbers) in enumerate(
            zip(state["parents"], state["values"], strict=True)
        )
    ]
    kept = {name: state[name] for name in ("size", "leader", "frames", "generations")}
    model = {
        "population": {**kept, "kept": None, "members": records},
        "networks": {},
        "best": state["best"],
    }
    return {**values, "model": model, "ranks": ranks}


def _evolved(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a checkpoint of evolution.

    With ``--parallel=members``, process ``r`` of ``n`` had places r, r + n, ...; now it has
    successive ones.
    """
    model, world_size = values["model"], len(values["ranks"])
    learners = [part["learner"] if part else {} for part in values["ranks"]]
    own_parts = [one.get("own_members", one) for one in learners]  # format 1 had no name for it
    is_apart = any(own["members"] for own in own_parts if own)
    size = len(model["members"])
    order = [p for r in range(world_size) for p in range(r, size, world_size)]
    order = order if is_apart else [*range(size)]
    place_of = {old: new for new, old in enumerate(order)}
    everyone = [model["members"][place] for place in order]
    found = {new: _model(one) for new, one in enumerate(everyone)}
    if (apart := model["apart"]) is not None:
        found[-1] = _model(apart)
    leaders = [new for new, one in enumerate(everyone) if one["index"] == model["elite"]]
    state = {
        "size": size,
        "leader": leaders[0] if apart is None else -1,
        "kept": None if apart is None else _evolved_record(apart),
        "frames": model["frames"],
        "members": [_evolved_record(one) for one in everyone],
        "generations": model["generations"],
    }
    ranks = []
    for part, learner, own in zip(values["ranks"], learners, own_parts, strict=True):
        members = {}
        for place, noise in own.get("noise", {}).items():
            now = own["members"].get(place, model["members"][place])
            noises = noise if isinstance(noise, Mapping) else {NOISE: noise}
            members[place_of[place]] = {
                "frames": now["frames"],
                "learner": {**noises, "memories": {}},
                **({"model": _model(now)} if is_apart else {}),
            }
        memory = learner.get("nursery.memory", learner.get("replay"))
        new = {"members": members, "since": [0.0, 0.0], "nursery.memory": memory}
        ranks.append({**part, "learner": new} if part else part)
    return {**values, "model": {"population": state, "networks": found}, "ranks": ranks}


def _evolved_record(old: Mapping[str, Any]) -> dict[str, Any]:
    names = ("index", "parent", "mutation", "hyperparameters", "fitness")
    shape = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in old["architecture"].items()
    }
    return {**{name: old[name] for name in names}, "architecture": shape, "copied": False}


def _model(old: Mapping[str, Any]) -> dict[str, Any]:
    return {"agent": old["agent"], "optimized": old["optimized"]}
