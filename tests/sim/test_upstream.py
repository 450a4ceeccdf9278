"""The pages in docs/upstream: their reproductions still show the defects that envlab corrects.

A test that fails here brings good news: the installed version is mended. Then the correction and
its page can go, once the oldest supported version is that one.
"""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mujoco_warp", reason="needs mujoco-warp: pip install -e '.[warp]'")

PAGES = Path(__file__).parents[2] / "docs" / "upstream"
QUIET = "import warp as wp\nwp.config.log_level = wp.LOG_WARNING\n"


def code_of(page: str) -> str:
    (code,) = re.findall(r"```python\n(.*?)```", (PAGES / page).read_text(), re.DOTALL)
    return QUIET + code


def numbers_in(output: str) -> list[float]:
    return [float(word) for word in re.findall(r"-?\d+\.\d+(?:e-?\d+)?", output)]


def test_rays_still_miss_a_mesh_unless_their_direction_has_length_1():
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code_of("ray_directions.md"), {})
    expected, found, expected_of_three, found_of_three = numbers_in(printed.getvalue())
    assert found == pytest.approx(expected)
    assert expected_of_three == pytest.approx(expected / 3)
    assert found_of_three == -1.0, "mended: see docs/upstream/ray_directions.md"


@pytest.mark.long  # test_warp_height_field notices versions with other functions
def test_a_sphere_on_a_height_field_is_still_too_deep():
    """In a separate process without our correction."""
    command = [sys.executable, "-c", code_of("height_field_contacts.md")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    mujocos, warps = numbers_in(result.stdout)
    assert mujocos == pytest.approx(-0.025, abs=1e-3)
    assert warps < -0.3, "mended: see docs/upstream/height_field_contacts.md"
