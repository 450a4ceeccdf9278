"""How runs under skrl's launcher for JAX end: never with 0 and never with workers left behind."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest

pytest.importorskip("jax", reason="skrl on JAX needs jax")
pytest.importorskip("flax", reason="skrl on JAX needs flax")

from tests.launcher import Launch, run
from tests.rl.conftest import manifest_of, only_run
from tests.rl.skrl_jax_runs import PPO, TRAIN, compiled_quickly, skrl_launch

pytestmark = pytest.mark.slow


def pid_of_rank(launch: Launch, rank: int) -> int:
    """Return the process id of a rank's worker, which its supervisor has started after itself."""
    wanted = f"JAX_RANK={rank}".encode()
    found = [
        pid
        for pid in launch.living()
        if wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    ]
    return max(found)


def test_a_killed_rank_fails_the_launch_and_the_run(tmp_path: Path):
    with compiled_quickly(tmp_path / "compiled"):
        flags = [*PPO, "--distributed", "--max_iterations=100000"]
        launch = Launch(skrl_launch(2, TRAIN, *flags), tmp_path)
    try:
        launch.wait_until(lambda: list(tmp_path.glob("logs/*/*/*/checkpoints/model_2.pt")), 180.0)
        os.kill(pid_of_rank(launch, 1), signal.SIGKILL)
        assert launch.wait(45.0) == -signal.SIGTERM
        deadline = time.monotonic() + 10.0
        while launch.living() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert launch.living() == {}
    finally:
        launch.close()
    manifest = manifest_of(only_run(tmp_path))
    assert manifest["status"] == "failed", (manifest, launch.output)
    assert re.match(r"Rank 1 \(.+\) died .+ last seen", manifest["error"]), manifest


def test_bad_input_on_all_ranks_is_said_once(tmp_path: Path):
    words = [*PPO, "--distributed", "agent.agent.kl_threshold=0.1"]
    code, output = run(skrl_launch(2, TRAIN, *words), tmp_path)
    assert code == -signal.SIGTERM
    errors = [line for line in output.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, output
    assert "agent.agent.kl_threshold is 0.1, but on 2 processes" in errors[0]
    assert "Traceback" not in output
