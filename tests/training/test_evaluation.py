"""Evaluation of a fake environment whose returns, lengths and joints follow by hand."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch

from envlab.errors import ConfigurationError, RunDirectoryError
from envlab.training.evaluation import (
    Evaluation,
    evaluate,
    has_free_root,
    write_json,
)
from tests.small_runs import env_of


class CountingEnv:
    """Environment i ends after ``limits[i]`` steps; a step is 0.5 s, and rewards i + 1.

    Its joint is at 10 i + (steps since the reset), negative on even steps.
    """

    def __init__(self, limits: list[int]) -> None:
        self.limits = torch.tensor(limits)
        self.num_envs, self.device, self.step_dt = len(limits), torch.device("cpu"), 0.5
        self.max_episode_length = max(limits)

    def reset(self, *, seed=None) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.int64)
        self._observe()
        # As Quadcopter's, whose first episodes begin late; evaluate() judges them in full.
        self.episode_length_buf = self.limits - 1
        return {}, {}

    def step(self, actions: None) -> tuple[Any, ...]:
        self.episode_length_buf += 1
        ended = self.episode_length_buf >= self.limits
        self.episode_length_buf[ended] = 0
        self._observe()
        truncated = ended & (torch.arange(self.num_envs) > 0)
        rewards = torch.arange(self.num_envs) + 1.0
        return {}, rewards, ended & ~truncated, truncated, {}

    def _observe(self) -> None:
        sign = 2 * (self.episode_length_buf % 2) - 1
        values = 10 * torch.arange(self.num_envs) + self.episode_length_buf
        self._pole = (sign * values).float()

    def joint_positions(self) -> dict[str, torch.Tensor]:
        return {"pole": self._pole}


def test_each_environment_gives_as_many_episodes():
    evaluation = evaluate(CountingEnv([2, 5]), lambda obs: None, episodes_per_env=2)
    # In the order of their ends: steps 2 and 4 of the first, 5 and 10 of the second.
    assert evaluation.lengths.tolist() == [2, 2, 5, 5]
    assert evaluation.returns.tolist() == [2.0, 2.0, 10.0, 10.0]


def test_the_last_second_is_that_of_the_episodes():
    evaluation = evaluate(CountingEnv([1, 5]), lambda obs: None)
    # Two steps make a second. The first lasts one step, at 0; the second ends at 13 and 14.
    assert evaluation.last_second == {"pole": (0.0 + 13.5) / 2}


def test_a_callback_sees_every_step():
    steps = []
    evaluate(CountingEnv([3, 4]), lambda obs: None, after_step=[lambda: steps.append(1)])
    assert len(steps) == 4


TWO = Evaluation(
    returns=torch.tensor([1.0, 3.0]), lengths=torch.tensor([4, 5]), last_second={"pole": 0.05}
)


def test_summary_for_a_person():
    assert TWO.lines(10) == [
        "Mean return 2.000 (std 1.414) over 2 episodes",
        "Mean episode length 4.5 of 10 steps",
        "Mean absolute joint positions in the last second (rad or m): pole 0.0500",
        "95 % intervals over episodes:",
        "  return                                  2  1 to 3",
    ]


def test_one_episode_has_no_deviation():
    evaluation = Evaluation(returns=torch.tensor([1.0]), lengths=torch.tensor([4]), last_second={})
    assert evaluation.lines(10)[0] == "Mean return 1.000 (std 0.000) over 1 episodes"


def test_a_summary_is_written_as_json_or_a_sentence_says_why_not(tmp_path):
    write_json(tmp_path / "new" / "summary.json", TWO.as_dict())
    assert json.loads((tmp_path / "new" / "summary.json").read_text()) == {
        **{"num_episodes": 2, "return": 2.0, "episode_length": 4.5},
        "return_std": pytest.approx(2**0.5),
        "intervals": {"return": [1.0, 3.0]},
    }
    with pytest.raises(RunDirectoryError, match="summary cannot be written to"):
        write_json(tmp_path, TWO.as_dict())


class FollowingEnv(CountingEnv):
    """Environment i is commanded its step's number, and is 0.5 (i + 1) of it off.

    Its errors in an episode are 0, 0.5, 1, ... times i + 1, and 1 more in each later one.
    """

    def __init__(self, limits: list[int]) -> None:
        super().__init__(limits)
        self.command_manager = self
        self.active_terms = ["speed"]
        self.TRACKED = {"lin_vel_error": "m/s"}
        self._num_ended = torch.zeros(self.num_envs)

    def get_term(self, name: str) -> FollowingEnv:
        return self

    def snapshot(self) -> torch.Tensor:
        return self.episode_length_buf.clone()

    def tracking_errors(self, reference: torch.Tensor) -> torch.Tensor:
        errors = 0.5 * reference * (torch.arange(self.num_envs) + 1.0) + self._num_ended
        self._num_ended += self.episode_length_buf == 0
        return errors[None]


def test_errors_are_means_of_an_episode_without_its_last_step():
    evaluation = evaluate(FollowingEnv([4, 1, 3]), lambda obs: None, episodes_per_env=2)
    errors: dict[int, list[float]] = {}
    for length, error in zip(
        evaluation.lengths.tolist(), evaluation.tracked["lin_vel_error"], strict=True
    ):
        errors.setdefault(length, []).append(float(error))
    first, third = 0.5 * (0 + 1 + 2) / 3, 3 * 0.5 * (0 + 1) / 2
    assert errors[4] == pytest.approx([first, first + 1.0])
    assert errors[3] == pytest.approx([third, third + 1.0])
    assert [math.isnan(error) for error in errors[1]] == [True, True]  # its only step is its last
    values = evaluation.as_dict()
    assert values["lin_vel_error"] == pytest.approx(0.5 * (first + third) + 0.5)
    low, high = values["intervals"]["lin_vel_error"]
    assert first < low < values["lin_vel_error"] < high < third + 1.0
    assert "falls_per_hour" not in values  # nobody knows that it can fall


def test_falls_are_counted_by_the_hour():
    evaluation = Evaluation(
        returns=torch.ones(4),
        lengths=torch.tensor([1800, 1800, 1800, 1800]),
        falls=torch.tensor([True, False, True, False]),
        step_dt=0.5,
        last_second={},
    )
    values = evaluation.as_dict()
    assert values["falls_per_hour"] == 2.0  # two in an hour
    assert values["intervals"]["falls_per_hour"] == pytest.approx([0.2422, 7.2247], abs=1e-4)
    assert (
        "  falls per hour                          2  0.2422 to 7.225      (1 h of robot time)"
        in (evaluation.lines(1800))
    )


def test_only_a_robot_that_moves_freely_falls():
    for task_id, may_fall in (("Isaac-Ant-v0", True), ("Isaac-Lift-Cube-Franka-v0", False)):
        env = env_of(task_id, num_envs=2)
        assert has_free_root(env) is may_fall
        env.close()


def test_a_task_without_ends_is_one_sentence():
    env = CountingEnv([3, 10**9])
    env.max_episode_length = 5
    with pytest.raises(ConfigurationError, match=r"do not end: one has lasted 50 steps. Add a te"):
        evaluate(env, lambda obs: None)
    task = env_of("Isaac-Cartpole-v0", num_envs=2)
    task.termination_manager.active_terms.clear()
    with pytest.raises(ConfigurationError, match=r"env\.terminations has no terms"):
        evaluate(task, lambda obs: None)
    task.close()
