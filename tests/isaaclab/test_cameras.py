"""Cameras of Isaac Lab show what geometry says, in each environment, and refuse the rest."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.isaaclab.scripts import HERE, run, seen


@pytest.mark.slow
def test_cameras_see_a_box_where_it_is(isaaclab: Path, tmp_path: Path) -> None:
    found = seen(tmp_path, "seeing.py")
    assert found["depth"] == pytest.approx([5.0, 5.0], abs=1e-4)
    assert found["focal_length"] == [21.0, 21.0]
    # The pixel two to the side of the middle, whose ray is 2 / 21 to the side for 1 ahead.
    assert found["beside"] == pytest.approx([5.0, 5.0], abs=1e-4)
    longer = 5.0 * math.hypot(1.0, 2.0 / 21.0)
    assert found["beside_by_ray"] == pytest.approx([longer, longer], abs=1e-4)
    assert found["nothing"] == [True, True]
    assert found["sky"] == [[0, 0, 255]] * 2  # of the dome light
    assert found["colour"] != found["sky"]
    assert found["classes"] == [[[1, 2, 3, 255]] * 2, [[0, 0, 0, 0]] * 2]
    assert found["labels_below"] == [{"class": "box"}, {"class": "BACKGROUND"}]
    assert found["normal"] == [pytest.approx([-1.0, 0.0, 0.0], abs=1e-4)] * 2
    # On a body 3 m above the box's middle, 0.1 m below the body; later 2 m higher, in one.
    assert found["below"] == pytest.approx([2.4, 2.4], abs=1e-4)
    assert found["below_later"] == pytest.approx([2.4, 4.4], abs=1e-4)
    assert found["camera_height"] == pytest.approx([2.9, 4.9], abs=1e-4)
    assert found["depth_after_a_move"] == pytest.approx([5.0, 4.0], abs=1e-4)
    assert "sets the intrinsic matrices of /World/envs/env_.*/ahead" in found["refused"]


@pytest.mark.parametrize(
    ("word", "told"),
    [
        (
            "--data_type=motion_vectors",
            "is a camera with 'motion_vectors' in its data_types, but pictures have rgb",
        ),
        pytest.param(
            "--lens=fisheyePolynomial",
            "has the lens 'fisheyePolynomial', but pictures are drawn",
            marks=pytest.mark.long,
        ),
    ],
)
def test_what_is_not_drawn_is_refused(isaaclab: Path, tmp_path: Path, word: str, told: str) -> None:
    code, output = run(tmp_path, str(HERE / "seeing.py"), word, "--headless")
    assert code == 2, output[-2000:]
    assert told in output
    assert "Traceback" not in output
