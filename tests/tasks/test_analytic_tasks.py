"""The contract of every task, for those that the ``analytic`` backend can simulate."""

from __future__ import annotations

from typing import Any

import pytest

from envlab import registry
from tests.tasks.test_every_task import (  # noqa: F401  (collected here with another backend)
    play_briefly,
    test_a_restored_state_has_the_same_future,
    test_a_seeded_reset_repeats_the_run,
    test_an_environment_that_is_not_finite_is_reset_alone,
    test_environments_start_differently_on_and_across_ranks,
    test_observations_and_actions_are_in_their_spaces,
    test_runs_are_bit_identical_and_seeds_matter,
    test_two_ranks_simulate_the_same_as_one_process,
)

TASKS = [
    "Isaac-Cartpole-v0",
    "Isaac-Cartpole-Direct-v0",
    "Isaac-Cartpole-Showcase-Box-Discrete-Direct-v0",
    "Isaac-Cartpole-Showcase-Box-MultiDiscrete-Direct-v0",
    "Isaac-Cart-Double-Pendulum-Direct-v0",
    "Isaac-Quadcopter-Direct-v0",
]


@pytest.fixture(params=TASKS)
def task(request, monkeypatch) -> registry.Task:
    load = registry.load_env_cfg

    def load_analytic(task: registry.Task):
        cfg = load(task)
        cfg.sim.backend = "analytic"
        return cfg

    monkeypatch.setattr(registry, "load_env_cfg", load_analytic)
    return registry.get_task(request.param)


@pytest.fixture
def played(task) -> Any:
    return play_briefly(task)
