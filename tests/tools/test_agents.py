"""The agents without a brain step every kind of task."""

from __future__ import annotations

import torch
from gymnasium import spaces

from envlab.envs.random import EnvRandom
from envlab.tools.agents import draw_actions, random_main, zero_main

TASKS = [
    "Isaac-Cartpole-v0",
    "Isaac-Cartpole-Showcase-Box-Discrete-Direct-v0",
    "Isaac-Cartpole-Showcase-Box-MultiDiscrete-Direct-v0",
    "Isaac-Cart-Double-Pendulum-Direct-v0",
]


def test_any_task_is_stepped_and_summed_up(capsys):
    for main in [random_main, zero_main]:
        for task_id in TASKS:
            flags = ["--num_envs", "4", "--num_steps", "3", "--device", "cpu", "--seed", "1"]
            assert main(["--task", task_id, *flags]) == 0
            printed = capsys.readouterr().out
            assert f"{task_id}: 4 environments on cpu" in printed
            assert "3 steps in" in printed


def test_random_choices_take_every_option():
    for space, options in [(spaces.Discrete(3), [3]), (spaces.MultiDiscrete([3, 2]), [3, 2])]:
        stream = EnvRandom(0, 0, 100, torch.device("cpu")).stream("test")
        drawn = draw_actions(space, stream)
        assert drawn.dtype == torch.int64
        assert [column.unique().tolist() for column in drawn.T] == [list(range(n)) for n in options]
