"""Errors that a user can cause: one family, and the nearest valid words."""

from __future__ import annotations

from envlab import errors
from envlab.errors import EnvlabError, did_you_mean, nearest

TASKS = ["Isaac-Cartpole-v0", "Isaac-Cartpole-Direct-v0", "Isaac-Ant-v0", "Isaac-Humanoid-v0"]


def test_every_error_of_the_module_is_caught_as_one_family():
    kinds = [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, Exception)
    ]
    assert len(kinds) >= 9
    assert all(issubclass(kind, EnvlabError) for kind in kinds)


def test_a_failed_simulation_speaks_on_its_own_rank():
    """Ranks simulate different environments, so rank 0 cannot speak for the others."""
    assert not errors.SimulationError.same_on_all_ranks
    assert errors.ConfigurationError.same_on_all_ranks


def test_nearest_ignores_case_and_typos():
    for word, best in [
        ("Isaac-Cartpole", "Isaac-Cartpole-v0"),
        ("isaac-ant-V0", "Isaac-Ant-v0"),
        ("Isaac-Humaniod-v0", "Isaac-Humanoid-v0"),
    ]:
        assert nearest(word, TASKS)[0] == best


def test_did_you_mean_names_the_candidates_as_they_are_spelled():
    assert did_you_mean("zzzz", TASKS) == ""
    assert did_you_mean("alife", ["alive", "Olive", "x"]) == " Did you mean alive, Olive?"
    assert did_you_mean("alife", ["alive", "Olive"], count=1) == " Did you mean alive?"
