"""The README's command: two processes train a policy that balances."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.launcher import PLAY, ROOT, TRAIN, run
from tests.trained import manifest_of, only_run


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
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nnodes=1", "--nproc_per_node=2"]
    # A port of its own, as others may run on this machine.
    launcher += ["--rdzv_backend=c10d", "--rdzv_endpoint=127.0.0.1:0"]
    flags = ["--task=Isaac-Cartpole-v0", "--headless", "--distributed", *size]
    code, output = run([*launcher, TRAIN, *flags], tmp_path)
    assert code == 0, output
    directory = only_run(tmp_path)
    assert manifest_of(directory)["status"] == "finished"
    for printed in ("Run directory: ", "Last checkpoint: ", "Play it: "):
        assert printed in output
    (command,) = re.findall(r"^Play it: .*python (.*)$", output, re.MULTILINE)
    script, *arguments = command.split()
    assert ROOT / script == PLAY
    code, output = run([sys.executable, PLAY, *arguments], tmp_path)
    assert code == 0, output
    assert number_after("Mean return", output) >= 4.5
    assert number_after("Mean episode length", output) >= 290.0
    assert number_after("cart_to_pole", output) < 0.1  # rad


def number_after(words: str, output: str) -> float:
    match = re.search(rf"{words} (-?[\d.]+)", output)
    assert match is not None, output
    return float(match.group(1))
