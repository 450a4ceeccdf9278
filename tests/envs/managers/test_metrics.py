"""Metrics: values of a step that are logged by episode, without a weight."""

from __future__ import annotations

import pytest
import torch

from envlab.envs.managers import MetricsTermCfg
from tests.envs.refusals import assert_refused
from tests.envs.sliders import make_env, push, terms


def ticks(env) -> torch.Tensor:
    """Return 1, 2, 3, ... of an episode; falling after the fifth."""
    age = env.episode_length_buf.float()
    return torch.where(age > 5.0, 10.0 - age, age)


def test_an_episodes_values_are_reduced_and_logged_as_means():
    kinds = ("mean", "last", "max", "sum")
    metrics = {kind: MetricsTermCfg(func=ticks, reduce=kind) for kind in kinds}
    env = make_env(2, metrics=terms(**metrics))
    for _ in range(2):  # episodes of ten steps: 1 2 3 4 5 4 3 2 1 0
        for _ in range(10):
            *_, info = push(env, 0.0, 0.0)
        assert {kind: info["log"][f"Metrics/{kind}"] for kind in kinds} == {
            "mean": 2.5,
            "last": 0.0,
            "max": 5.0,
            "sum": 25.0,
        }
    push(env, 0.0, 0.0)
    state = env.state()
    other = make_env(2, seed=5, metrics=terms(**metrics))
    push(other, 0.0, 0.0)
    other.set_state(state)
    for _ in range(9):
        *_, info = push(other, 0.0, 0.0)
    assert info["log"]["Metrics/mean"] == pytest.approx(2.5)


def test_a_metric_of_another_shape_is_refused():
    def wide(env) -> torch.Tensor:
        return torch.zeros(env.num_envs, 2)

    def stepped() -> None:
        push(make_env(1, metrics=terms(wide=MetricsTermCfg(func=wide))), 0.0)

    assert_refused({r"metric term 'wide' returned shape \(1, 2\)": stepped})
