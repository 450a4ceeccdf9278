"""Poses as matrices, and from pixels to points and back; names are Isaac Lab's (``utils.math``).

Poses are matrices ``(..., 4, 4)``: rotation, then position in m. ``intrinsics`` are calibration
matrices ``[[fx, 0, cx], [0, fy, cy], [0, 0, 1]]`` in pixels, ``(3, 3)`` or one for each image,
``(num_images, 3, 3)``. Points are in the camera's frame: x to the right, y down, z forward, in m.
"""

from __future__ import annotations

import torch

from envlab.errors import ConfigurationError


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


def orthogonalize_perspective_depth(depth: torch.Tensor, intrinsics: torch.Tensor) -> torch.Tensor:
    """Return distances from the image plane, of distances from the camera's centre, in m.

    Args:
        depth: ``(H, W)``, ``(H, W, 1)``, ``(num_images, H, W)`` or ``(num_images, H, W, 1)``.
        intrinsics: See the module.

    Returns:
        Of the shape of ``depth``.

    Raises:
        ConfigurationError: For other shapes.
    """
    images, matrices = _images(depth), _matrices(intrinsics)
    height, width = images.shape[1:]
    u = torch.arange(width, device=depth.device, dtype=depth.dtype)
    v = torch.arange(height, device=depth.device, dtype=depth.dtype).unsqueeze(1)
    fx, fy, cx, cy = (matrices[:, i, j, None, None] for i, j in ((0, 0), (1, 1), (0, 2), (1, 2)))
    slant = (1.0 + ((u - cx) / fx).square() + ((v - cy) / fy).square()).sqrt()
    return (images / slant).reshape(depth.shape)


def unproject_depth(
    depth: torch.Tensor, intrinsics: torch.Tensor, is_ortho: bool = True
) -> torch.Tensor:
    """Return the points that pixels show, ``(H * W, 3)`` or ``(num_images, H * W, 3)``, in m.

    Args:
        depth: Images, see :func:`orthogonalize_perspective_depth`.
        intrinsics: See the module.
        is_ortho: Whether depth is the distance from the image plane; else from the camera's centre.

    Returns:
        Points column by column of the image, as Isaac Lab has them.

    Raises:
        ConfigurationError: For other shapes.
    """
    images = _images(depth if is_ortho else orthogonalize_perspective_depth(depth, intrinsics))
    height, width = images.shape[1:]
    u, v = torch.meshgrid(
        *(torch.arange(n, device=depth.device, dtype=depth.dtype) for n in (width, height)),
        indexing="ij",
    )
    pixels = torch.stack((u, v, torch.ones_like(u))).flatten(1)
    rays = torch.linalg.inv(_matrices(intrinsics)) @ pixels
    points = rays / rays[:, 2:] * images.transpose(1, 2).flatten(1).unsqueeze(1)
    points = points.transpose(1, 2)
    return points if _is_batch(depth) else points.squeeze(0)


def project_points(points: torch.Tensor, intrinsics: torch.Tensor) -> torch.Tensor:
    """Return the pixels that show points, and their depths: u, v, and z in m.

    Args:
        points: ``(num_points, 3)`` or ``(num_images, num_points, 3)``.
        intrinsics: See the module.

    Returns:
        Of the shape of ``points``, where Isaac Lab 2.3.2 adds and drops a dimension of 1.
    """
    pixels = points @ _matrices(intrinsics).transpose(1, 2)
    pixels = torch.cat((pixels[..., :2] / pixels[..., 2:], points.expand_as(pixels)[..., 2:]), -1)
    return pixels if points.dim() == 3 or intrinsics.dim() == 3 else pixels.squeeze(0)


def create_rotation_matrix_from_view(
    eyes: torch.Tensor, targets: torch.Tensor, up_axis: str = "Z"
) -> torch.Tensor:
    """Return orientations ``(num, 3, 3)`` of cameras at ``eyes`` that look at ``targets``.

    A camera looks along its -z, with y up, as in OpenGL and MuJoCo. Where it looks straight up or
    down, its x axis is not defined, and 0, as Isaac Lab's is.

    Args:
        eyes: In m, ``(num, 3)``.
        targets: In m, ``(num, 3)``.
        up_axis: The axis of the world that is up, ``Y`` or ``Z``.

    Raises:
        ConfigurationError: For another axis.
    """
    if up_axis not in ("Y", "Z"):
        raise ConfigurationError(f"up_axis is {up_axis!r}, but must be 'Y' or 'Z'.")
    up = torch.zeros_like(eyes)
    up[:, "XYZ".index(up_axis)] = 1.0
    unit = torch.nn.functional.normalize
    z = -unit(targets - eyes, eps=1e-5)
    x = unit(torch.linalg.cross(up, z), eps=1e-5)
    y = unit(torch.linalg.cross(z, x), eps=1e-5)
    unclear = (x.abs() <= 5e-3).all(dim=1, keepdim=True)
    x = torch.where(unclear, unit(torch.linalg.cross(y, z), eps=1e-5), x)
    return torch.stack((x, y, z), dim=2)


def _is_batch(depth: torch.Tensor) -> bool:
    return depth.dim() == 4 or (depth.dim() == 3 and depth.shape[-1] != 1)


def _images(depth: torch.Tensor) -> torch.Tensor:
    """Return images as ``(num_images, H, W)``."""
    images = depth.squeeze(-1) if depth.dim() in (3, 4) and depth.shape[-1] == 1 else depth
    images = images.unsqueeze(0) if images.dim() == 2 else images
    if images.dim() != 3:
        raise ConfigurationError(
            f"depth has the shape {tuple(depth.shape)}, but images are (H, W), (num_images, H, W), "
            "or either with a last dimension of 1."
        )
    return images


def _matrices(intrinsics: torch.Tensor) -> torch.Tensor:
    """Return calibration matrices as ``(num_images or 1, 3, 3)``."""
    if intrinsics.dim() not in (2, 3) or intrinsics.shape[-2:] != (3, 3):
        raise ConfigurationError(
            f"intrinsics have the shape {tuple(intrinsics.shape)}, but matrices are (3, 3) or "
            "(num_images, 3, 3)."
        )
    return intrinsics if intrinsics.dim() == 3 else intrinsics.unsqueeze(0)
