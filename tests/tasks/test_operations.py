"""How many operations a step takes: on a GPU they, not the arithmetic, set the pace of small tasks.

The numbers are upper bounds, to be lowered whenever a change needs fewer.
"""

from __future__ import annotations

import pytest
import torch

from envlab.envs import DirectMarlEnv
from envlab.sim import host
from tests.operations import Operations, Reads
from tests.tasks.making import make

MOST = {
    "Isaac-Cartpole-v0": 73,
    "Isaac-Ant-v0": 123,
    "Isaac-Velocity-Flat-Unitree-Go2-v0": 150,
    "Isaac-Velocity-Rough-Unitree-Go2-v0": 309,
    "Mjlab-Velocity-Flat-Unitree-Go1": 229,
    "Mjlab-Velocity-Flat-Unitree-G1": 236,
    "Mjlab-Tracking-Flat-Unitree-G1": 300,
    "Isaac-Repose-Cube-Allegro-v0": 263,
    "Isaac-Repose-Cube-Allegro-Direct-v0": 212,
    "Isaac-Repose-Cube-Shadow-Direct-v0": 213,
    "Isaac-Shadow-Hand-Over-Direct-v0": 274,
    "Isaac-Franka-Cabinet-Direct-v0": 177,
    "Isaac-Reach-UR10-v0": 203,
}


SHORT = (
    "Isaac-Cartpole-v0",
    "Isaac-Ant-v0",
    "Isaac-Velocity-Flat-Unitree-Go2-v0",
    "Mjlab-Tracking-Flat-Unitree-G1",
    "Isaac-Reach-UR10-v0",
)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in SHORT else [pytest.mark.long]) for name in MOST],
)
def test_a_step_takes_few_operations_and_waits_for_none(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(host, "HOST", set())
    env = make(name, num_envs=4, seed=1)
    actions = torch.zeros_like(env.actions)
    if isinstance(env, DirectMarlEnv):
        actions = env.split_actions(actions)
    for _ in range(3):  # one-off work is done by then
        env.step(actions)
    with Operations() as operations, Reads() as reads:
        env.step(actions)
    assert operations.count <= MOST[name]
    assert reads.found == []
