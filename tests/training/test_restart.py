"""Restarts by torchrun: a killed rank costs only the iterations after the last checkpoint."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.agents import end
from tests.launcher import Launch, torchrun
from tests.rl_games.worker import CARTPOLE
from tests.skrl.torch.worker import PPO
from tests.small_runs import check_same_end
from tests.trained import SMALL, manifest_of
from tests.training.worker_killed import KILL_ITERATION, SAVE_ITERATION

NAMES = "whole,killed"
LIBRARIES = {
    "rsl_rl": [*SMALL, f"agent.run_name={NAMES}"],
    "rl_games": [*CARTPOLE, f"agent.run_name={NAMES}"],
    "skrl": [*PPO, f"agent.agent.experiment.experiment_name={NAMES}"],
    "skrl_jax": [*PPO, "--ml_framework=jax", f"agent.agent.experiment.experiment_name={NAMES}"],
}


OTHERS = [(library, num_ranks) for library in LIBRARIES for num_ranks in (1, 2)]
OTHERS.remove(("rsl_rl", 2))
"""These only repeat it: each library's test_resume.py shows that it resumes bit for bit."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "num_ranks"),
    [("rsl_rl", 2), *(pytest.param(*other, marks=pytest.mark.long) for other in OTHERS)],
)
def test_a_killed_rank_is_restarted_and_the_run_ends_bit_identical(
    tmp_path: Path, library: str, num_ranks: int, compiled: Path
):
    check_restart(tmp_path, library, num_ranks, LIBRARIES[library], compiled)


@pytest.mark.slow
def test_a_rank_killed_between_two_averages_is_restarted_and_the_run_ends_bit_identical(
    tmp_path: Path, compiled: Path
):
    local = ["--grad_sync=local", "agent.sync_interval=2", "agent.outer_momentum=0.5"]
    check_restart(tmp_path, "rsl_rl", 2, [*LIBRARIES["rsl_rl"], *local], compiled)


def check_restart(
    tmp_path: Path, library: str, num_ranks: int, words: Sequence[str], compiled: Path
) -> None:
    """Train twice, with a rank killed in the second training; compare the results."""
    worker = Path(__file__).with_name("worker_killed.py")
    victim = 0 if library == "rl_games" else num_ranks - 1
    *launcher, _ = torchrun(num_ranks, worker)
    job = [worker, library.removesuffix("_jax"), str(victim), *words]
    command = [*launcher, "--max_restarts=1", *job]
    with contextlib.ExitStack() as settings:
        if library == "skrl_jax":
            pytest.importorskip("flax", reason="needs flax: pip install -e '.[jax]'")
            from tests.skrl.jax.runs import compiled_quickly

            settings.enter_context(compiled_quickly(compiled))
        launch = Launch(command, tmp_path)
    assert end([launch]) == [0], launch.output
    (whole,), (killed,) = (tmp_path.glob(f"logs/*/*/*{name}*") for name in NAMES.split(","))
    assert "already finished" in launch.output  # the first of the two trainings
    (restart,) = manifest_of(killed)["restarts"]
    assert (restart["iteration"], restart["world_size"]) == (SAVE_ITERATION, num_ranks)
    assert manifest_of(killed)["status"] == "finished"
    assert "restarts" not in manifest_of(whole)
    check_same_end(killed, whole, resumed_at=0, iteration=KILL_ITERATION)
