"""How runs under skrl's launcher for JAX end: never with 0 and never with workers left behind."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

pytest.importorskip("jax", reason="needs jax: pip install -e '.[jax]'")
pytest.importorskip("flax", reason="needs flax: pip install -e '.[jax]'")

from tests.launcher import Launch
from tests.skrl.jax.runs import PPO, TRAIN, skrl_launch, youngest
from tests.trained import manifest_of, only_run

pytestmark = pytest.mark.slow


def test_a_killed_rank_fails_the_launch_and_the_run(tmp_path: Path):
    flags = [*PPO, "--distributed", "--max_iterations=100000"]
    launch = Launch(skrl_launch(2, TRAIN, *flags), tmp_path)
    try:
        launch.wait_until(lambda: list(tmp_path.glob("logs/*/*/*/checkpoints/model_2.pt")), 180.0)
        os.kill(youngest(launch, rank=1), signal.SIGKILL)
        assert launch.wait() == -signal.SIGTERM
        assert launch.left(10.0) == {}
    finally:
        launch.close()
    manifest = manifest_of(only_run(tmp_path))
    assert manifest["status"] == "failed", (manifest, launch.output)
    assert re.match(r"Rank 1 \(.+\) died .+ last seen", manifest["error"]), manifest
