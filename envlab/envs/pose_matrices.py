"""Poses as matrices ``(..., 4, 4)``: rotation, then position in m; names are Isaac Lab's."""

from __future__ import annotations

import torch


def make_pose(pos: torch.Tensor, rot: torch.Tensor) -> torch.Tensor:
    """Return matrices of positions ``(..., 3)`` and rotation matrices ``(..., 3, 3)``."""
    pose = torch.zeros(*pos.shape[:-1], 4, 4, dtype=pos.dtype, device=pos.device)
    pose[..., :3, :3], pose[..., :3, 3], pose[..., 3, 3] = rot, pos, 1.0
    return pose


def unmake_pose(pose: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return positions ``(..., 3)`` and rotation matrices ``(..., 3, 3)``; both are views."""
    return pose[..., :3, 3], pose[..., :3, :3]


def pose_inv(pose: torch.Tensor) -> torch.Tensor:
    """Return the inverses of poses: from ``R, p`` to ``R^T, -R^T p``."""
    pos, rot = unmake_pose(pose)
    back = rot.transpose(-1, -2)
    return make_pose(-(back @ pos.unsqueeze(-1)).squeeze(-1), back)


def pose_in_A_to_pose_in_B(
    pose_in_A: torch.Tensor,
    pose_A_in_B: torch.Tensor,
) -> torch.Tensor:
    """Return poses given in a frame A, in the frame B in which A has ``pose_A_in_B``."""
    return pose_A_in_B @ pose_in_A


def transform_poses_from_frame_A_to_frame_B(
    src_poses: torch.Tensor,
    frame_A: torch.Tensor,
    frame_B: torch.Tensor,
) -> torch.Tensor:
    """Return poses that are to A what ``src_poses`` are to B: ``A B^-1 P``, as in Isaac Lab.

    Args:
        src_poses: ``(T, 4, 4)``.
        frame_A: ``(4, 4)``.
        frame_B: ``(4, 4)``.
    """
    return frame_A @ (pose_inv(frame_B) @ src_poses)
