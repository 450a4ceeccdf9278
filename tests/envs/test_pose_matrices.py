"""Poses as matrices, by hand."""

from __future__ import annotations

import torch

from envlab.envs import math as rotations

LEFT = torch.tensor([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
POSE = torch.tensor([[0.0, -1, 0, 1], [1.0, 0, 0, 2], [0.0, 0, 1, 3], [0.0, 0, 0, 1]])
BACK = torch.tensor([[0.0, 1, 0, -2], [-1.0, 0, 0, 1], [0.0, 0, 1, -3], [0.0, 0, 0, 1]])


def test_poses_are_made_undone_inverted_and_chained():
    position = torch.tensor([1.0, 2.0, 3.0])
    assert rotations.make_pose(position, LEFT).equal(POSE)
    assert rotations.make_pose(position.expand(2, 3), LEFT.expand(2, 3, 3)).equal(
        POSE.expand(2, 4, 4)
    )
    pos, rot = rotations.unmake_pose(POSE)
    assert pos.equal(position)
    assert rot.equal(LEFT)
    assert rotations.pose_inv(POSE).equal(BACK)
    twice = rotations.pose_in_A_to_pose_in_B(POSE, POSE)
    assert twice[:3, 3].tolist() == [1.0 - 2.0, 2.0 + 1.0, 6.0]
    moved = rotations.transform_poses_from_frame_A_to_frame_B(POSE[None], torch.eye(4), POSE)
    assert moved.equal(torch.eye(4)[None])  # at B it was, and A is the origin
