"""Rotations, against MuJoCo's own functions; poses, pixels and distributions, by hand."""

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


def test_what_follows_from_orientations_is_the_same_together_and_apart():
    matrices = rotations.matrix_from_quat(QUATS)
    rows = rotations.frame_rows(QUATS)
    assert torch.equal(rows[:9].T, matrices.flatten(1))
    assert torch.equal(rows[9:].T, rotations.gravity_in_body(QUATS))
    assert torch.equal(rotations.axes_from_quat(QUATS), matrices[..., :2].flatten(1))
    angles = VECTORS[:, :3]
    assert torch.equal(
        rotations.quat_from_angles(angles), rotations.quat_from_euler_xyz(*angles.unbind(1))
    )
    assert torch.equal(
        rotations.squared_difference(VECTORS, angles.flip(0)), (VECTORS - angles.flip(0)).square()
    )


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


HALF = 2**-0.5
LEFT = torch.tensor([[HALF, 0.0, 0.0, HALF]])  # a quarter turn about z
ROLLED = torch.tensor([[HALF, HALF, 0.0, 0.0]])  # about x
LEVEL = torch.tensor([[1.0, 0.0, 0.0, 0.0]])
X, Y, Z = torch.eye(3).split(1)
QUARTER = 0.5 * math.pi


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("scale_transform", (torch.tensor([-1.0, 1.0, 4.0]), -X[0, 0], 3 * X[0, 0]), [-1, 0, 1.5]),
        ("unscale_transform", (torch.tensor([-1.0, 0, 1.5]), -X[0, 0], 3 * X[0, 0]), [-1, 1, 4]),
        ("saturate", (torch.tensor([-9.0, 1.0, 9.0]), -X[0, 0], 3 * X[0, 0]), [-1, 1, 3]),
        ("copysign", (-2.0, torch.tensor([3.0, -3.0, -0.0])), [2, -2, -2]),
        ("quat_inv", (2.0 * LEFT,), [[0.5 * HALF, 0, 0, -0.5 * HALF]]),
        ("quat_rotate", (LEFT, X), [[0, 1, 0]]),
        ("quat_rotate_inverse", (LEFT, X), [[0, -1, 0]]),
        ("quat_apply_yaw", (rotations.quat_mul(LEFT, ROLLED), X + Z), [[0, 1, 1]]),
        ("quat_from_angle_axis", (torch.tensor([QUARTER]), 3.0 * Z), LEFT.tolist()),
        ("axis_angle_from_quat", (-LEFT,), [[0, 0, QUARTER]]),
        ("quat_box_plus", (LEFT, 2.0 * QUARTER * Z), [[HALF, 0, 0, -HALF]]),  # 270 degrees
        (
            "quat_from_matrix",
            (torch.tensor([[[0.0, -1, 0], [1, 0, 0], [0, 0, 1]]]),),
            LEFT.tolist(),
        ),
        ("quat_from_matrix", (torch.diag(torch.tensor([-1.0, 1.0, -1.0])),), [0, 0, 1, 0]),
        (
            "matrix_from_euler",
            (QUARTER * (X[0] + Z[0]), "XYZ"),
            [[0, -1, 0], [0, 0, -1], [1, 0, 0]],
        ),
        ("matrix_from_euler", (QUARTER * (X[0] + Z[0]), "ZYX"), [[0, 0, 1], [1, 0, 0], [0, 1, 0]]),
        ("skew_symmetric_matrix", (X + 2 * Y + 3 * Z,), [[[0, -3, 2], [3, 0, -1], [-2, 1, 0]]]),
        ("default_orientation", (2, "cpu"), [[1, 0, 0, 0]] * 2),
        ("random_yaw_orientation", (torch.tensor([0.25]),), LEFT.tolist()),
        ("quat_slerp", (LEVEL, -LEFT, 0.5), [[math.cos(QUARTER / 4), 0, 0, math.sin(QUARTER / 4)]]),
        ("quat_slerp", (LEFT, LEFT, 0.3), LEFT.tolist()),
        ("rigid_body_twist_transform", (X, 2 * Z, X, LEFT), ([[2, -1, 0]], [[0, 0, 2]])),
        ("compute_pose_error", (X, LEFT, Y, LEVEL), ([[-1, 1, 0]], [[0, 0, -QUARTER]])),
        ("compute_pose_error", (X, LEVEL, X, LEFT, "quat"), ([[0, 0, 0]], LEFT.tolist())),
        (
            "apply_delta_pose",
            (X, LEVEL, torch.cat((Y, QUARTER * Z), dim=1)),
            ([[1, 1, 0]], LEFT.tolist()),
        ),
        ("apply_delta_pose", (X, LEFT, torch.zeros(1, 6)), (X.tolist(), LEFT.tolist())),
        ("transform_points", (torch.eye(3), X[0], LEFT[0]), [[1, 1, 0], [0, 0, 0], [1, 0, 1]]),
        ("transform_points", (X[None], Z, LEFT), [[[0, 1, 1]]]),
        # MuJoCo's camera looks along -z; turned by nothing, it is a world's that looks down.
        (
            "convert_camera_frame_orientation_convention",
            (LEVEL, "opengl", "world"),
            [[0.5, -0.5, 0.5, 0.5]],
        ),
        ("convert_camera_frame_orientation_convention", (LEVEL, "opengl", "ros"), [[0, -1, 0, 0]]),
        ("convert_camera_frame_orientation_convention", (LEFT, "ros", "ros"), LEFT.tolist()),
    ],
)
def test_isaac_labs_functions_by_hand(name, arguments, expected):
    values = getattr(rotations, name)(*arguments)
    for value, wanted in (
        zip(values, expected, strict=True) if isinstance(values, tuple) else [(values, expected)]
    ):
        assert_close(value, torch.tensor(wanted, dtype=torch.float32))


def test_an_identity_pose_is_one_up_to_rounding():
    assert rotations.is_identity_pose(1e-9 * X, LEVEL)
    assert not rotations.is_identity_pose(1e-3 * X, LEVEL)
    assert not rotations.is_identity_pose(0.0 * X, -LEVEL)


def test_values_that_isaac_labs_functions_refuse_are_named():
    for name, arguments, message in (
        ("quat_from_matrix", (torch.zeros(4, 4),), r"\(4, 4\), but rotation matrices"),
        ("matrix_from_euler", (X[0], "XXZ"), "'XXZ', but must be three of X, Y and Z"),
        ("skew_symmetric_matrix", (LEVEL,), r"\(1, 4\), but vectors end"),
        ("compute_pose_error", (X, LEVEL, X, LEVEL, "euler"), "'euler', but must be 'quat' or"),
        ("convert_camera_frame_orientation_convention", (LEVEL, "usd"), "'usd', but must be one"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            getattr(rotations, name)(*arguments)


TURNED = torch.tensor([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
POSE = torch.tensor([[0.0, -1, 0, 1], [1.0, 0, 0, 2], [0.0, 0, 1, 3], [0.0, 0, 0, 1]])
BACK = torch.tensor([[0.0, 1, 0, -2], [-1.0, 0, 0, 1], [0.0, 0, 1, -3], [0.0, 0, 0, 1]])


def test_poses_are_made_undone_inverted_and_chained():
    position = torch.tensor([1.0, 2.0, 3.0])
    assert rotations.make_pose(position, TURNED).equal(POSE)
    assert rotations.make_pose(position.expand(2, 3), TURNED.expand(2, 3, 3)).equal(
        POSE.expand(2, 4, 4)
    )
    pos, rot = rotations.unmake_pose(POSE)
    assert pos.equal(position)
    assert rot.equal(TURNED)
    assert rotations.pose_inv(POSE).equal(BACK)
    twice = rotations.pose_in_A_to_pose_in_B(POSE, POSE)
    assert twice[:3, 3].tolist() == [1.0 - 2.0, 2.0 + 1.0, 6.0]
    moved = rotations.transform_poses_from_frame_A_to_frame_B(POSE[None], torch.eye(4), POSE)
    assert moved.equal(torch.eye(4)[None])  # at B it was, and A is the origin


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


UNIT = torch.tensor([0.0, 0.25, 0.5, 1.0])


def test_draws_become_those_of_other_distributions():
    edge = 0.5 - 0.5 * math.sqrt(0.5)
    for values, expected in (
        (rotations.sample_uniform(-1.0, 3.0, UNIT), [-1.0, 0.0, 1.0, 3.0]),
        (rotations.sample_uniform(-UNIT, UNIT, UNIT), [0.0, -0.125, 0.0, 1.0]),
        (rotations.sample_log_uniform(1.0, 16.0, UNIT), [1.0, 2.0, 4.0, 16.0]),
        (rotations.sample_triangle(0.0, 1.0, UNIT), [0.0, edge, 0.5, 1.0]),
        (rotations.sample_gaussian(1.0, 2.0, UNIT), [1.0, 1.5, 2.0, 3.0]),
    ):
        assert values.tolist() == pytest.approx(expected, abs=1e-6)
    points = rotations.sample_cylinder(2.0, (1.0, 3.0), UNIT[1:3].expand(1, 2))
    assert points.tolist() == [pytest.approx([0.0, -2.0, 2.0], abs=1e-6)]
