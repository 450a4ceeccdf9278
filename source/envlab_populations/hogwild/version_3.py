"""Specs of SLM-Lab 3 in the words of version 4.

Version 3 counts in episodes or in steps, has the kind of observations in the memory's name, and one
environment in each session. This follows the sources of its tag v3.2.1.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import gymnasium

from envlab.errors import ConfigurationError
from envlab_populations.hogwild.spec import Spec

logger = logging.getLogger(f"envlab.{__name__}")

MEMORIES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "SeqReplay": ("Replay", {"frame_op": "stack"}),
    "OnPolicySeqReplay": ("OnPolicyReplay", {"frame_op": "stack"}),
    "OnPolicySeqBatchReplay": ("OnPolicyBatchReplay", {"frame_op": "stack"}),
    "ConcatReplay": ("Replay", {"frame_op": "concat"}),
    "OnPolicyConcatReplay": ("OnPolicyReplay", {"frame_op": "concat"}),
    "AtariReplay": ("Replay", {"reward_scale": "sign"}),
    "AtariPrioritizedReplay": ("PrioritizedReplay", {"reward_scale": "sign"}),
    "OnPolicyAtariReplay": ("OnPolicyReplay", {"reward_scale": "sign"}),
    "OnPolicyAtariBatchReplay": ("OnPolicyBatchReplay", {"reward_scale": "sign"}),
}
"""Memories by name: version 4's, and what its ``env`` says of them."""
COUNTS = {"training_epoch": "training_iter", "training_batch_epoch": "training_batch_iter"}
"""Gradient steps of off-policy learning and of self-imitation."""
SCHEDULES = ("explore_var_spec", "entropy_coef_spec", "clip_eps_spec")
"""Schedules whose steps are in the unit of the budget."""
BUDGETS = {"max_tick": None, "max_epi": "epi", "max_total_t": "total_t"}
"""Budgets and their units, None for that of ``meta.max_tick_unit``; the last two are 3.0's."""
UNITS = ("epi", "total_t")


def in_version_4(spec: Spec) -> Spec:
    """Return a spec of version 3 in the words of version 4, and any other spec as it is.

    Raises:
        ConfigurationError: If its budget is in episodes whose length has no limit.
    """
    if not {*BUDGETS} & {*spec.env} and "max_tick_unit" not in spec.meta:
        return spec
    agent, env, meta = (deepcopy(dict(part)) for part in (spec.agent, spec.env, spec.meta))
    algorithm, memory, net = agent["algorithm"], agent["memory"], agent["net"]
    unit = spec.file().choice("meta.max_tick_unit", "total_t", known=UNITS)
    _budget(env, meta, algorithm, unit)
    if meta.get("distributed") is True:
        meta["distributed"] = "shared"
    meta.pop("resources", None)  # cores of the search
    name = memory.get("name")
    memory["name"], seen = MEMORIES.get(name, (name, {}))
    env |= seen
    if "frame_op" in seen:
        env["frame_op_len"] = memory.pop("concat_len", None) or net.get("seq_len")
        env["frame_padding"] = "zero"
    elif "reward_scale" in seen:
        env |= {"frame_op": "concat", "frame_op_len": memory.pop("stack_len", None)}
    env["normalize_state"] = bool(algorithm.pop("normalize_state", False))
    is_ppo = str(algorithm.get("name")).startswith("PPO")
    for old, new in COUNTS.items():
        if old in algorithm:
            algorithm[new] = algorithm[old] if is_ppo else algorithm.pop(old)
    return replace(spec, agent=agent, env=env, meta=meta)


def _budget(
    env: dict[str, Any], meta: dict[str, Any], algorithm: dict[str, Any], unit: str
) -> None:
    """Replace the budget by ``max_frame``, and schedules in episodes by those in frames."""
    budget = None
    for key, its_unit in BUDGETS.items():
        if key in env:
            unit, budget = its_unit or unit, env.pop(key)
    meta.pop("max_tick_unit", None)
    steps = 1 if unit == "total_t" else _steps_of_an_episode(env)
    if isinstance(budget, int | float):
        env.setdefault("max_frame", budget * steps)
    for part in (algorithm, *(algorithm.get(key) or {} for key in SCHEDULES)):
        for key in ("start_step", "end_step", "training_start_step"):
            if isinstance(part, dict) and isinstance(part.get(key), int | float):
                part[key] *= steps
    if unit == "epi":
        logger.warning(
            "The spec counts in episodes (meta.max_tick_unit 'epi'). Frames are counted here: an "
            "episode counts as its longest, %d frames, in env.max_frame and in schedules.",
            steps,
        )


def _steps_of_an_episode(env: Mapping[str, Any]) -> int:
    """Return the longest episode, in steps."""
    name, limit = env.get("name"), env.get("max_t")
    registered = gymnasium.registry.get(str(name))
    limit = limit or (registered.max_episode_steps if registered is not None else None)
    if not isinstance(limit, int | float) or limit < 1:
        raise ConfigurationError(
            f"The spec counts in episodes (meta.max_tick_unit 'epi'), but episodes of {name!r} "
            "have no limit, so the number of frames is unknown. Set env.max_t to the steps of the "
            "longest episode, or the budget in frames by -s meta.max_tick_unit=total_t -s "
            "env.max_tick=FRAMES."
        )
    return int(limit)
