"""Libraries learn to balance, by their scripts: rsl_rl by the README's command, and the others."""

from __future__ import annotations

import contextlib
import importlib.util
import re
import sys
from pathlib import Path

import pytest

from tests.launcher import PLAY, ROOT, TRAIN, run, torchrun
from tests.trained import manifest_of, only_run

SCRIPTS = ROOT / "scripts/reinforcement_learning"
TASK = "--task=Isaac-Cartpole-v0"
NO_JAX = importlib.util.find_spec("jax") is None or importlib.util.find_spec("flax") is None
NEEDS_JAX = pytest.mark.skipif(NO_JAX, reason="needs jax: pip install -e '.[jax]'")


def run_well(words: list[str | Path], folder: Path) -> str:
    code, output = run(words, folder)
    assert code == 0, output
    return output


def check_balances(played: str) -> None:
    """Require what ``play`` measures of a policy that balances for nearly all of 5 s."""
    assert number_after("Mean return", played) >= 4.5
    assert number_after("cart_to_pole", played) < 0.1  # rad


def number_after(words: str, output: str) -> float:
    match = re.search(rf"{words} (-?[\d.]+)", output)
    assert match is not None, output
    return float(match.group(1))


@pytest.mark.slow
@pytest.mark.parametrize(
    "size",
    [
        pytest.param([], id="as it is written", marks=pytest.mark.long),
        pytest.param(["--num_envs=128", "--max_iterations=60"], id="small"),
    ],
)
def test_the_readme_command_trains_a_policy_that_balances(tmp_path: Path, size: list[str]):
    """With --all, it is executed as a user does it."""
    flags = [TASK, "--headless", "--distributed", *size]
    # On a free port, because others may run on this machine.
    output = run_well([*torchrun(2, TRAIN), *flags], tmp_path)
    assert manifest_of(only_run(tmp_path))["status"] == "finished"
    for printed in ("Run directory: ", "Last checkpoint: ", "Play it: "):
        assert printed in output
    (command,) = re.findall(r"^Play it: .*python (.*)$", output, re.MULTILINE)
    script, *arguments = command.split()
    assert ROOT / script == PLAY
    played = run_well([sys.executable, PLAY, *arguments], tmp_path)
    check_balances(played)
    assert number_after("Mean episode length", played) >= 290.0


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
    tmp_path: Path, compiled: Path, library: str, flags: list[str], num_processes, num_iterations
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
        run_well([*command, TASK, "--headless", "--device=cpu", *size, *flags], tmp_path)
        directory = only_run(tmp_path)
        checkpoint = f"--checkpoint={directory}/checkpoints/model_{num_iterations}.pt"
        check_balances(run_well([sys.executable, play, TASK, checkpoint, *framework], tmp_path))
    assert manifest_of(directory)["status"] == "finished"
    assert (directory / "exported/policy.pt").is_file()
