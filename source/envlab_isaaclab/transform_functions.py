"""``isaaclab.sim.utils.transforms`` and ``.views``, over :mod:`envlab_isaaclab.stage`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np
import torch

from envlab_isaaclab import stage
from envlab_isaaclab.stage import Prim, in_first

__all__ = [
    "XformPrimView",
    "convert_world_pose_to_local",
    "resolve_prim_pose",
    "resolve_prim_scale",
    "standardize_xform_ops",
    "validate_standard_xform_ops",
]

Pose = tuple[tuple[float, ...], tuple[float, ...]]


def _pose(prim: Prim | None) -> tuple[np.ndarray, np.ndarray]:
    """Return a prim's position and quaternion (w, x, y, z) in the topmost prim."""
    pos, quat = np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0])
    while prim is not None:
        new_pos, new_quat = np.zeros(3), np.zeros(4)
        mujoco.mju_mulPose(new_pos, new_quat, prim.pos, prim.quat, pos, quat)
        pos, quat, prim = new_pos, new_quat, prim.parent
    return pos, quat


def resolve_prim_pose(prim: Prim, ref_prim: Prim | None = None) -> Pose:
    """Return the position and quaternion of a prim in another one, or in the world."""
    pos, quat = _pose(prim)
    if ref_prim is not None:
        back_pos, back_quat = np.zeros(3), np.zeros(4)
        mujoco.mju_negPose(back_pos, back_quat, *_pose(ref_prim))
        own_pos, own_quat = pos, quat
        pos, quat = np.zeros(3), np.zeros(4)
        mujoco.mju_mulPose(pos, quat, back_pos, back_quat, own_pos, own_quat)
    return tuple(pos), tuple(quat)


def resolve_prim_scale(prim: Prim) -> tuple[float, float, float]:
    """Return ones: sizes are the spawners'."""
    return 1.0, 1.0, 1.0


def convert_world_pose_to_local(
    position: Sequence[float], orientation: Sequence[float] | None, ref_prim: Prim
) -> Any:
    """Return a pose of the world in a prim."""
    back_pos, back_quat = np.zeros(3), np.zeros(4)
    mujoco.mju_negPose(back_pos, back_quat, *_pose(ref_prim))
    pos, quat = np.zeros(3), np.zeros(4)
    turn = np.array(orientation if orientation is not None else (1.0, 0.0, 0.0, 0.0), float)
    mujoco.mju_mulPose(pos, quat, back_pos, back_quat, np.array(position, float), turn)
    return tuple(pos), tuple(quat) if orientation is not None else None


def standardize_xform_ops(*arguments: Any, **keywords: Any) -> bool:
    """Do nothing: poses are kept one way."""
    return True


validate_standard_xform_ops = standardize_xform_ops


class XformPrimView:
    """Prims that nothing simulates, such as lights, in all environments."""

    def __init__(self, prim_path: str, device: str = "cpu", **keywords: Any) -> None:
        self._stage, self._device = stage.current(), device
        self.prim_path = prim_path
        prim = self._stage.define(in_first(prim_path))
        self._own = [prim]
        self._is_repeated = in_first(prim_path) != prim_path

    @property
    def count(self) -> int:
        """Number of prims."""
        return self._stage.num_envs if self._is_repeated else 1

    @property
    def prims(self) -> list[Prim]:
        """The prims of environment 0."""
        return self._own

    def get_world_poses(self, indices: Any = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Return positions ``(count, 3)`` and quaternions (w, x, y, z) ``(count, 4)``."""
        pos, quat = _pose(self._own[0])
        places = np.tile(pos, (self.count, 1))
        if self._is_repeated:
            places = places + self._stage.origins
        made = torch.tensor(places, dtype=torch.float32, device=self._device)
        turns = torch.tensor(quat, dtype=torch.float32, device=self._device).repeat(self.count, 1)
        return (made, turns) if indices is None else (made[indices], turns[indices])

    def get_local_poses(self, indices: Any = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Return poses in the prim above."""
        prim = self._own[0]
        made = torch.tensor(prim.pos, dtype=torch.float32, device=self._device)
        turn = torch.tensor(prim.quat, dtype=torch.float32, device=self._device)
        places, turns = made.repeat(self.count, 1), turn.repeat(self.count, 1)
        return (places, turns) if indices is None else (places[indices], turns[indices])

    def set_visibility(self, *arguments: Any, **keywords: Any) -> None:
        """Do nothing: there is no window."""
