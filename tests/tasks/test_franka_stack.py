"""Stacking with the Panda: criteria of a stack and of subtasks, and the cubes' starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from envlab.envs import ManagerEnv
from envlab_tasks.manipulation.stack import stack_terms
from tests.envs.sliders import assert_spans
from tests.tasks.making import make, put

TASK = "Isaac-Stack-Cube-Franka-v0"
EDGE, REST = 0.047, 0.0235
AWAY = (0.3, 0.25)
"""A place that the hand is far from when an episode starts."""
STACK = [(*AWAY, REST + EDGE * level) for level in range(3)]
OPEN = [0.04, 0.04]


def moved(cube: int, x: float = 0.0, z: float = 0.0) -> list[tuple[float, float, float]]:
    """Return the places of a stack, one cube moved."""
    places = list(STACK)
    places[cube] = (places[cube][0] + x, places[cube][1], places[cube][2] + z)
    return places


CASES = [
    (STACK, OPEN, True),
    (STACK, [0.0399, 0.0399], True),
    (STACK, [0.0398, 0.04], False),
    (STACK, [0.04, 0.02], False),
    (moved(2, x=0.039), OPEN, True),
    (moved(2, x=0.041), OPEN, False),
    (moved(0, x=0.041), OPEN, False),
    (moved(2, z=0.0046), OPEN, True),  # 51.6 mm apart, of 46.8 mm and 5 mm
    (moved(2, z=0.005), OPEN, False),
    (moved(0, z=-0.005), OPEN, False),
    (STACK[::-1], OPEN, False),
    ([STACK[1], STACK[0], STACK[2]], OPEN, False),
    ([STACK[0], STACK[2], STACK[1]], OPEN, False),
]
"""Places of the cubes, positions of the fingers, and whether that is a stack."""


@pytest.fixture(scope="module")
def env() -> ManagerEnv:
    return make(TASK, num_envs=len(CASES))


def place(env: ManagerEnv, cubes: Sequence[Any], fingers: Sequence[list[float]]) -> None:
    """Put cubes and fingers of each environment, at rest."""
    qpos = env.default_qpos.expand(env.num_envs, -1).clone()
    qpos[:, 7:9] = torch.tensor(fingers)
    for number in range(3):
        start = 9 + 7 * number
        qpos[:, start : start + 3] = torch.tensor([places[number] for places in cubes])
    put(env, qpos)


def test_success_is_true_exactly_for_stacks(env):
    cubes, fingers, expected = zip(*CASES, strict=True)
    env.reset()
    place(env, cubes, fingers)
    env.success_manager.compute()
    assert env.success.tolist() == list(expected)


def test_a_stack_that_open_fingers_left_ends_the_episode_with_success(env):
    """It stands, and the fingers are held open precisely enough for the threshold."""
    env.reset()
    scattered = [(x, 0.25, REST) for x in (0.4, 0.3, 0.2)]
    place(env, [STACK] * 6 + [scattered] * 7, [OPEN] * 13)
    actions = torch.zeros(13, 8)
    actions[:, 7] = 1.0
    _, reward, terminated, truncated, info = env.step(actions)
    ended = terminated | truncated
    assert ended.tolist() == [True] * 6 + [False] * 7
    assert reward[:6].tolist() == pytest.approx([30.0 + 2.0 / 3.0 * 0.05] * 6)
    assert reward[6:].tolist() == [0.0] * 7
    assert info["log"]["Metrics/success_rate"] == 1.0
    assert info["log"]["Episode_Termination/success"] == 6.0 / 6.0


def test_subtasks_are_seen_and_rewarded(env):
    """Grasps are cubes at the grasp point between fingers that are not open."""
    env.reset()
    place(env, [STACK] * 13, [OPEN] * 13)
    x, *rest = env.sim.data.site_xpos[0, env.sim.model.site("ee").id].tolist()
    hand, near, far = ((x + away, *rest) for away in (0.0, 0.05, 0.07))
    shut, ajar = [0.0235] * 2, [0.036] * 2
    first, second, third = STACK[0], (0.4, 0.25, REST), (0.5, 0.25, REST)
    none = ([first, second, third], OPEN, [0.0, 0.0, 0.0], 0.0)
    cases = [
        ([first, hand, third], shut, [1.0, 0.0, 0.0], 1.0),
        ([first, near, third], shut, [1.0, 0.0, 0.0], 1.0),
        ([first, far, third], shut, [0.0, 0.0, 0.0], 0.0),
        ([first, hand, third], ajar, [0.0, 0.0, 0.0], 0.0),
        ([STACK[0], STACK[1], third], OPEN, [0.0, 1.0, 0.0], 2.0),
        ([STACK[0], STACK[1], hand], shut, [0.0, 0.0, 1.0], 3.0),
        ([STACK[1], STACK[0], third], OPEN, [0.0, 0.0, 0.0], 0.0),
        *[none] * 6,
    ]
    cubes, fingers, subtasks, number = zip(*cases, strict=True)
    place(env, cubes, fingers)
    seen = env.observation_manager.compute(corrupt=False)["subtask_terms"]
    assert seen.tolist() == list(subtasks)
    env.reward_manager.compute()
    name = env.reward_manager.active_terms[0]
    share = env.reward_manager.step_values[0] / (env.reward_manager.get_weight(name) * env.step_dt)
    assert share.tolist() == pytest.approx([one / 3.0 for one in number])


def test_cubes_start_apart_on_the_table_and_the_arm_near_its_pose():
    env = make(TASK, num_envs=512)
    env.reset()
    qpos = env.sim.data.qpos
    cubes = qpos[:, 9:].view(512, 3, 7)
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert float((cubes[:, one, :3] - cubes[:, other, :3]).norm(dim=1).min()) > 0.1
    assert_spans(cubes[..., 0], 0.4, 0.6, margin=0.015)
    assert_spans(cubes[..., 1], -0.1, 0.1, margin=0.015)
    assert torch.allclose(cubes[..., 2], torch.tensor(REST), atol=0.003)
    assert_spans(2.0 * torch.atan2(cubes[..., 6], cubes[..., 3]), -1.0, 1.0, margin=0.01)
    offsets = (qpos - env.default_qpos)[:, :9]
    assert offsets[:, :7].std(dim=0).tolist() == pytest.approx([0.02] * 7, rel=0.15)
    assert offsets[:, :7].mean(dim=0).abs().max() < 0.004
    assert not offsets[:, 7:].any()


def test_a_crowded_range_takes_the_farthest_place():
    drawn = torch.zeros(1, stack_terms.NUM_CANDIDATES, 3)
    drawn[0, 5, 0], drawn[0, 9, 0], drawn[0, 12, 0] = 0.05, 0.08, 0.07
    placed = [torch.zeros(1, 3)]
    for apart, taken in ((0.1, 0.08), (0.06, 0.08), (0.04, 0.05)):
        assert stack_terms.first_apart(drawn, placed, apart)[0, 0] == pytest.approx(taken)
