"""The contract of every task, for those that the ``analytic`` backend can simulate."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from envlab import registry
from tests.tasks.test_every_task import (  # noqa: F401  (collected here with another backend)
    played,
    test_a_restored_state_has_the_same_future,
    test_a_seeded_reset_repeats_the_run_and_seeds_matter,
    test_an_environment_that_is_not_finite_is_reset_alone,
    test_observations_and_actions_are_in_their_spaces,
    test_two_ranks_simulate_the_same_as_one_process,
)

TASKS = [
    "Isaac-Cartpole-Showcase-Box-MultiDiscrete-Direct-v0",
    "Isaac-Cart-Double-Pendulum-Direct-v0",
    "Isaac-Quadcopter-Direct-v0",
]
"""One for each of its models, and for each kind of actions."""


@pytest.fixture(params=TASKS, scope="module")
def task(request) -> Iterator[registry.Task]:
    load = registry.load_env_cfg

    def load_analytic(task: registry.Task):
        cfg = load(task)
        cfg.sim.backend = "analytic"
        return cfg

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "load_env_cfg", load_analytic)
        yield registry.get_task(request.param)
