"""rl_games and skrl learn to balance, by their scripts, at a small size."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from pathlib import Path

import pytest

from tests.launcher import ROOT, run, torchrun
from tests.scripts.test_rsl_rl import number_after
from tests.trained import manifest_of, only_run

SCRIPTS = ROOT / "scripts/reinforcement_learning"
TASK = "--task=Isaac-Cartpole-v0"
NO_JAX = importlib.util.find_spec("jax") is None or importlib.util.find_spec("flax") is None
NEEDS_JAX = pytest.mark.skipif(NO_JAX, reason="needs jax: pip install -e '.[jax]'")


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    ("library", "flags", "num_processes", "num_iterations"),
    [
        ("rl_games", ["agent.params.config.minibatch_size=256"], 2, 50),
        ("skrl", [], 2, 50),
        pytest.param("skrl", ["--ml_framework=jax"], 1, 100, marks=NEEDS_JAX),
    ],
    ids=["rl_games", "skrl-torch", "skrl-jax"],
)
def test_a_library_trains_a_policy_that_balances(
    tmp_path: Path,
    compiled: Path,
    library: str,
    flags: list[str],
    num_processes: int,
    num_iterations: int,
):
    train, play = (SCRIPTS / library / f"{name}.py" for name in ("train", "play"))
    size = [f"--num_envs={256 // num_processes}", f"--max_iterations={num_iterations}"]
    command: list[str | Path] = [sys.executable, train]
    if num_processes > 1:
        command = [*torchrun(num_processes, train), "--distributed"]
    framework = [flag for flag in flags if flag.startswith("--")]
    with contextlib.ExitStack() as settings:
        if framework:
            from tests.skrl.jax.runs import compiled_quickly

            settings.enter_context(compiled_quickly(compiled))
        words = [*command, TASK, "--headless", "--device=cpu", *size, *flags]
        code, output = run(words, tmp_path)
        assert code == 0, output
        directory = only_run(tmp_path)
        checkpoint = f"--checkpoint={directory}/checkpoints/model_{num_iterations}.pt"
        words = [sys.executable, play, TASK, checkpoint, *framework]
        code, output = run(words, tmp_path)
        assert code == 0, output
    assert manifest_of(directory)["status"] == "finished"
    assert number_after("Mean return", output) >= 4.5
    assert number_after("cart_to_pole", output) < 0.1  # rad
    names = {path.name for path in (directory / "exported").iterdir()}
    assert "policy.pt" in names
