"""The state of one process with eight environments resumes on two with four each, and on one
again."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
import torch

from envlab import registry
from envlab.distributed.context import DistributedContext
from envlab.envs import BatchedEnv, VectorEnv
from envlab.state import Share, deal, restore
from tests.archetypes import ARCHETYPES, OWN_CODE
from tests.tasks.rollouts import (
    Together,
    assert_equal,
    draw_actions,
    make_brief,
    part,
    record,
    rows_of,
)

WHOLE, HALF = 8, 4
CPU = torch.device("cpu")
ANALYTIC = ("Isaac-Cartpole-v0", "Isaac-Quadcopter-Direct-v0")
ALWAYS = [
    ("Isaac-Velocity-Rough-Unitree-Go2-v0", "mujoco"),  # terrain, commands, events, contacts
    ("Isaac-Cartpole-v0", "mujoco"),
    *((name, "analytic") for name in ANALYTIC),
    ("Mjlab-Tracking-Flat-Unitree-G1", "mujoco"),
    ("Nav-ObjectNav-Depth-v0", ""),
]
OTHERS = [
    pytest.param(name, "mujoco", marks=[] if name in ARCHETYPES else [pytest.mark.long])
    for name in sorted({*ARCHETYPES, *OWN_CODE} - {name for name, _ in ALWAYS})
]


def make(name: str, backend: str, **kwargs: Any) -> VectorEnv:
    task = registry.get_task(name)
    if backend:
        kwargs["sim"] = replace(registry.load_env_cfg(task).sim, backend=backend)
    return make_brief(task, **kwargs)


def dealt(env: BatchedEnv, saved: Sequence[dict[str, Any]], rank: int = 0) -> BatchedEnv:
    """Restore the environments of ``rank`` from what other ranks saved."""
    share = Share(rank * env.num_envs, env.num_envs, WHOLE // len(saved))
    restore(env, deal(env, saved, share), CPU)
    return env


def assert_same(one: Any, other: Any, where: str) -> None:
    if isinstance(one, dict):
        other = other or {}
        assert one.keys() == other.keys(), where
        for name, value in one.items():
            assert_same(value, other[name], f"{where}.{name}")
    elif isinstance(one, torch.Tensor):
        # A rank's own starts afresh; after a step it is zero.
        assert torch.equal(one, torch.zeros_like(one) if other is None else other), where
    else:
        assert one == other, where


@pytest.mark.slow
@pytest.mark.parametrize(("name", "backend"), [*ALWAYS, *OTHERS])
def test_environments_go_on_bit_for_bit_in_two_processes_and_in_one_again(
    name, backend, monkeypatch
):
    whole = make(name, backend, num_envs=WHOLE, seed=1)
    actions = draw_actions(whole, 20, WHOLE)
    record(whole, actions[:5])
    saved = whole.state()
    middle, end = record(whole, actions[5:10]), record(whole, actions[10:])
    # Two ranks make five steps, at the same time, because some tasks count failures together.
    monkeypatch.setattr(DistributedContext, "sum", Together(2))

    def run(rank: int) -> tuple[dict[str, Any], dict[str, torch.Tensor], dict[str, Any]]:
        env = dealt(make(name, backend, num_envs=HALF, rank=rank, world_size=2), [saved], rank)
        return (
            env.state(),
            record(env, part(actions[5:10], rank * HALF, (rank + 1) * HALF)),
            env.state(),
        )

    with ThreadPoolExecutor(2) as threads:
        before, halves, after = zip(*threads.map(run, range(2)), strict=True)
    joined = {key: torch.cat([half[key] for half in halves], dim=1) for key in middle}
    # torch sums a reward's terms in an order that depends on the batch, so its last bit may differ.
    for key in rows_of("reward", middle):
        assert torch.allclose(joined.pop(key), middle.pop(key), rtol=1e-5, atol=1e-7), key
    assert_equal(joined, middle)
    monkeypatch.undo()
    back = make(name, backend, num_envs=WHOLE, seed=3)
    assert_same(saved, deal(back, before, Share(0, WHOLE, HALF)), "state")
    assert_equal(record(dealt(back, after), actions[10:]), end)


@pytest.mark.parametrize("name", ANALYTIC)
def test_a_body_that_one_rank_has_pushed_stays_pushed_there_alone(name):
    """The analytic backend reads only wrenches of bodies that were ever pushed on its rank."""
    whole = make(name, "analytic", num_envs=WHOLE)
    force = torch.zeros(WHOLE, 1, 3)
    force[:HALF] = 0.5
    whole.sim.apply_wrench([1], force, torch.zeros_like(force))
    saved, actions = whole.state(), draw_actions(whole, 4, WHOLE)
    expected = record(whole, actions)
    states = []
    for rank in range(2):
        env = make(name, "analytic", num_envs=HALF, rank=rank, world_size=2, seed=5)
        states.append(dealt(env, [saved], rank).state())
    states[1]["sim"]["pushed"].zero_()
    again = make(name, "analytic", num_envs=WHOLE, seed=6)
    assert_equal(record(dealt(again, states), actions), expected)
