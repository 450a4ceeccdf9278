"""Bad input to ``scripts/benchmarks/navigation.py``."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

pytest.importorskip("warp", reason="needs warp-lang: pip install -e '.[nav]'")

from envlab.errors import ConfigurationError, RunDirectoryError

SCRIPT = Path(__file__).parents[2] / "scripts" / "benchmarks" / "navigation.py"
SMALL = ["--num_envs=1", "--sizes=8", "--block_s=0.01", "--images=rgb"]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (["--blocks=0"], ConfigurationError, "--blocks is 0, but must be at least 1"),
        (
            ["--blocks=1", "--miniworld=no/python"],
            ConfigurationError,
            "which cannot be run",
        ),
        (["--blocks=1", "--miniworld=/bin/false"], ConfigurationError, "Miniworld ended early"),
        (["--blocks=1", "--json=/dev/null/results"], RunDirectoryError, "Give --json another file"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(given, error, message):
    main = runpy.run_path(str(SCRIPT))["main"]
    with pytest.raises(error, match=message):
        main([*SMALL, *given])
