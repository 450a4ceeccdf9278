"""Rotations, against MuJoCo's own functions."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest
import torch

from envlab.envs import math as rotations
from envlab.errors import ConfigurationError

QUATS = rotations.random_orientation(torch.rand(64, 3, generator=torch.Generator().manual_seed(1)))
VECTORS = torch.randn(64, 3, generator=torch.Generator().manual_seed(2))


def each(function, size: int, *arguments: torch.Tensor) -> torch.Tensor:
    """Return MuJoCo's function of each row."""
    rows = []
    for row in zip(*(argument.double().numpy() for argument in arguments), strict=True):
        result = np.zeros(size)
        function(result, *row)
        rows.append(torch.from_numpy(result))
    return torch.stack(rows).float()


def assert_close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual, expected, atol=2e-6, rtol=1e-5)


def test_random_orientations_are_unit_and_spread():
    assert_close(QUATS.norm(dim=1), torch.ones(64))
    many = rotations.random_orientation(torch.rand(20000, 3))
    assert many.mean(dim=0).abs().max() < 0.02
    assert (many.square().mean(dim=0) - 0.25).abs().max() < 0.01  # close to uniform


def test_products_and_rotated_vectors_are_mujocos():
    product = each(mujoco.mju_mulQuat, 4, QUATS, QUATS.flip(0))
    assert_close(rotations.quat_mul(QUATS, QUATS.flip(0)), product)
    expected = each(mujoco.mju_rotVecQuat, 3, VECTORS, QUATS)
    assert_close(rotations.quat_apply(QUATS, VECTORS), expected)
    assert_close(rotations.quat_apply_inverse(QUATS, expected), VECTORS)
    matrices = each(mujoco.mju_quat2Mat, 9, QUATS).view(-1, 3, 3)
    assert_close(rotations.matrix_from_quat(QUATS), matrices)
    down = torch.tensor([0.0, 0.0, -1.0]).expand(64, 3)
    assert_close(rotations.gravity_in_body(QUATS), rotations.quat_apply_inverse(QUATS, down))


def test_euler_angles_there_and_back():
    angles = torch.tensor([[0.3, -0.4, 2.9], [-3.0, 1.2, -0.1], [0.0, 0.0, 0.0]])
    quats = rotations.quat_from_euler_xyz(*angles.unbind(1))
    assert_close(torch.stack(rotations.euler_xyz_from_quat(quats), dim=1), angles)
    assert_close(rotations.yaw_from_quat(quats), angles[:, 2])
    flat = rotations.quat_from_euler_xyz(torch.zeros(3), torch.zeros(3), angles[:, 2])
    assert_close(rotations.yaw_quat(quats), flat)


def test_rotation_vectors_there_and_back():
    vectors = torch.cat((VECTORS / VECTORS.norm(dim=1, keepdim=True) * 3.0, torch.zeros(1, 3)))
    vectors = torch.cat((vectors, torch.full((1, 3), 1e-8)))
    quats = rotations.quat_from_rotation_vector(vectors)
    assert_close(rotations.rotation_vector_from_quat(quats), vectors)
    assert_close(rotations.rotation_vector_from_quat(-quats), vectors)
    turned = rotations.quat_mul(quats[:64], QUATS)
    assert_close(rotations.quat_box_minus(turned, QUATS), vectors[:64])
    assert_close(rotations.quat_error_magnitude(turned, -QUATS), torch.full((64,), 3.0))


def test_frames_combine_and_subtract():
    pos, quat = rotations.combine_frame_transforms(VECTORS, QUATS, VECTORS.flip(0), QUATS.flip(0))
    child = rotations.subtract_frame_transforms(VECTORS, QUATS, pos, quat)
    assert_close(child[0], VECTORS.flip(0))
    assert_close(rotations.quat_unique(child[1]), rotations.quat_unique(QUATS.flip(0)))


def test_angles_are_wrapped_and_lengths_become_one():
    angles = torch.tensor([math.pi + 0.1, -7.0, 1.0])
    wrapped = torch.tensor([-math.pi + 0.1, -7.0 + 2 * math.pi, 1.0])
    assert_close(rotations.wrap_to_pi(angles), wrapped)
    values = rotations.normalize(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    assert_close(values, torch.tensor([[0.6, 0.8], [0.0, 0.0]]))


def test_quaternions_are_reordered_for_others_and_back():
    quat = torch.tensor([[[1.0, 2.0, 3.0, 4.0]]])
    assert rotations.convert_quat(quat).tolist() == [[[2.0, 3.0, 4.0, 1.0]]]
    assert rotations.convert_quat(rotations.convert_quat(quat, to="xyzw"), to="wxyz").equal(quat)
    wrong = ("xzyw", quat, "'xyzw' or 'wxyz'"), ("wxyz", quat[..., :3], "of 4")
    for to, values, message in wrong:
        with pytest.raises(ConfigurationError, match=message):
            rotations.convert_quat(values, to=to)  # type: ignore[arg-type]


def test_shorter_ways_round_as_the_longer_ones():
    angle = torch.linspace(-3.0, 3.0, 64)
    none = torch.zeros(64)
    turn = rotations.quat_from_euler_xyz(none, none, angle)
    product = rotations.quat_mul(turn, QUATS)
    assert torch.equal(rotations.turned_about_z(QUATS, angle), product)
    inverse = rotations.quat_conjugate(QUATS)
    assert torch.equal(rotations.quat_difference(turn, QUATS), rotations.quat_mul(turn, inverse))
