"""Pixels and points, by hand."""

from __future__ import annotations

import pytest
import torch

from envlab.envs import math as rotations
from envlab.errors import ConfigurationError

CAMERA = torch.tensor([[4.0, 0.0, 1.0], [0.0, 2.0, 0.0], [0.0, 0.0, 1.0]])
DEPTH = torch.tensor([[2.0, 4.0], [6.0, 8.0]])
POINTS = [[-0.5, 0.0, 2.0], [-1.5, 3.0, 6.0], [0.0, 0.0, 4.0], [0.0, 4.0, 8.0]]
"""Of the pixels (0, 0), (0, 1), (1, 0) and (1, 1): (u - 1) / 4 and v / 2 of the depth."""


def test_pixels_become_points_and_points_pixels():
    points = rotations.unproject_depth(DEPTH, CAMERA)
    torch.testing.assert_close(points, torch.tensor(POINTS))
    assert rotations.unproject_depth(DEPTH[None, ..., None], CAMERA).equal(points[None])
    pixels = [[0.0, 0.0, 2.0], [0.0, 1.0, 6.0], [1.0, 0.0, 4.0], [1.0, 1.0, 8.0]]
    assert rotations.project_points(points, CAMERA).tolist() == pixels
    assert rotations.project_points(points[None], CAMERA).tolist() == [pixels]


def test_distances_from_the_centre_become_distances_from_the_plane():
    slant = torch.tensor([[1.0625, 1.0], [1.3125, 1.25]]).sqrt()
    away = DEPTH * slant
    for shape in ((2, 2), (2, 2, 1), (1, 2, 2), (1, 2, 2, 1)):
        flat = rotations.orthogonalize_perspective_depth(away.view(shape), CAMERA)
        torch.testing.assert_close(flat, DEPTH.view(shape))
    points = rotations.unproject_depth(away, CAMERA, is_ortho=False)
    torch.testing.assert_close(points, torch.tensor(POINTS))


def test_a_camera_looks_at_its_target_with_its_top_up():
    eyes, targets = torch.zeros(3, 3), torch.tensor([[3.0, 0, 0], [0, -2.0, 0], [0, 0, -1.0]])
    views = rotations.create_rotation_matrix_from_view(eyes, targets)
    assert (views @ torch.tensor([0.0, 0.0, -1.0])).tolist() == [[1, 0, 0], [0, -1, 0], [0, 0, -1]]
    assert views[:2, :, 1].tolist() == [[0.0, 0.0, 1.0]] * 2  # up
    assert views[0, :, 0].tolist() == [0.0, -1.0, 0.0]  # to the right
    assert views[2, :, 0].tolist() == [0.0, 0.0, 0.0]  # straight down, where right is not defined
    sideways = rotations.create_rotation_matrix_from_view(eyes[:1], targets[:1], "Y")
    assert sideways[0, :, 1].tolist() == [0.0, 1.0, 0.0]


def test_other_shapes_and_axes_are_refused():
    for call, message in (
        (lambda: rotations.unproject_depth(torch.zeros(3), CAMERA), r"\(3,\), but images are"),
        (lambda: rotations.project_points(torch.zeros(1, 3), torch.eye(4)), r"\(4, 4\), but matri"),
        (
            lambda: rotations.create_rotation_matrix_from_view(CAMERA, CAMERA, "X"),
            "'X', but must be 'Y' or 'Z'",
        ),
    ):
        with pytest.raises(ConfigurationError, match=message):
            call()
