"""Terms in one line; tests/tasks/test_fidelity.py compares what tasks make of them."""

from __future__ import annotations

from envlab.envs import mdp
from envlab.envs.terms import observation, reward


def test_a_functions_own_parameter_may_be_called_weight_or_noise():
    assert reward(mdp.is_alive, 2.0, weight=3.0).params == {"weight": 3.0}
    assert observation(mdp.sensor, noise=0.1).params == {"noise": 0.1}
