"""An independent ray caster: every pixel against every primitive, in NumPy and float64."""

from __future__ import annotations

import math

import numpy as np

CEILING_M = 2.6
BOX, CYLINDER, SPHERE = range(3)


def cast(house, pose, *, size: int = 64, hfov_deg: float = 79.0, tilts: bool = False):
    """Return depth along the camera's axis and labels, both ``(size, size)``.

    ``pose`` is x, y, z, yaw and tangent of the pitch, which shifts the image plane or, where it
    ``tilts``, turns the camera.
    """
    x, y, z, yaw, tan_pitch = (float(value) for value in pose)
    rows, columns = np.mgrid[0:size, 0:size]
    half = math.tan(math.radians(hfov_deg) / 2)
    right = ((columns + 0.5) / size * 2 - 1) * half
    up = (1 - (rows + 0.5) / size * 2) * half
    ahead = np.ones_like(up)
    if tilts:
        pitch = math.atan(tan_pitch)
        ahead = math.cos(pitch) - up * math.sin(pitch)
        up = math.sin(pitch) + up * math.cos(pitch)
    else:
        up = up + tan_pitch
    dx = math.cos(yaw) * ahead + math.sin(yaw) * right
    dy = math.sin(yaw) * ahead - math.cos(yaw) * right
    with np.errstate(all="ignore"):
        depth = np.where(up < 0, -z / up, (CEILING_M - z) / up)
        depth[up == 0] = np.inf
        labels = np.where(up < 0, 0, 1)
        walls = [(*wall, 0.0, CEILING_M, BOX, 2) for wall in house["walls"] if wall[2] > 0]
        shapes = [tuple(shape) for shape in house["primitives"] if shape[2] > 0]
        for shape in walls + shapes:
            near, far = meet(shape, (x, y, z), (dx, dy, up))
            hit = (near <= far) & (near > 0) & (near < depth)
            depth, labels = np.where(hit, near, depth), np.where(hit, int(shape[7]), labels)
    return depth, labels


def meet(shape, eye, ray):
    """Return where rays enter and leave a primitive; NaN where they miss it."""
    cx, cy, half_x, half_y, low, high, kind, _ = (float(value) for value in shape)
    ox, oy = cx - eye[0], cy - eye[1]
    dx, dy, dz = ray
    if kind == SPHERE:
        oz = (low + high) / 2 - eye[2]
        a = dx * dx + dy * dy + dz * dz
        b = ox * dx + oy * dy + oz * dz
        root = np.sqrt(b * b - a * (ox * ox + oy * oy + oz * oz - half_x * half_x))
        return (b - root) / a, (b + root) / a
    if kind == CYLINDER:
        a, b = dx * dx + dy * dy, ox * dx + oy * dy
        root = np.sqrt(b * b - a * (ox * ox + oy * oy - half_x * half_x))
        near, far = (b - root) / a, (b + root) / a
    else:
        near, far = between((ox - half_x) / dx, (ox + half_x) / dx)
        near_y, far_y = between((oy - half_y) / dy, (oy + half_y) / dy)
        near, far = np.maximum(near, near_y), np.minimum(far, far_y)
    near_z, far_z = between((low - eye[2]) / dz, (high - eye[2]) / dz)
    return np.maximum(near, near_z), np.minimum(far, far_z)


def between(one, other):
    """Return two distances in order."""
    return np.minimum(one, other), np.maximum(one, other)
