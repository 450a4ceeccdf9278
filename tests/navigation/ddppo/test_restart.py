"""DD-PPO's restart after a rank was killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.navigation.ddppo.test_learner import SMALL
from tests.training.test_restart import NAMES, check_restart


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("num_ranks", [1, 2])
def test_a_killed_rank_is_restarted_and_the_run_ends_bit_identical(
    tmp_path: Path, num_ranks: int, compiled: Path
):
    check_restart(tmp_path, "ddppo", num_ranks, [*SMALL, f"agent.run_name={NAMES}"], compiled)
