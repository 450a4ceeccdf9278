"""Prims seen through interfaces of USD's: meshes, joints, and where things are in the world."""

from __future__ import annotations

import mujoco
import numpy as np

from envlab_isaaclab import stage, views
from envlab_isaaclab.stage import in_first
from envlab_isaaclab.transform_functions import resolve_prim_pose


class Mesh:
    """A prim seen as a mesh: ``UsdGeom.Mesh``."""

    def __init__(self, prim: stage.Prim) -> None:
        self._prim = prim

    def GetPointsAttr(self) -> stage.Attribute:
        """Return its vertices."""
        return self._prim.GetAttribute("points")

    def GetFaceVertexIndicesAttr(self) -> stage.Attribute:
        """Return the vertices of its faces."""
        return self._prim.GetAttribute("faceVertexIndices")

    def GetPath(self) -> stage.Path:
        """Return its path."""
        return self._prim.GetPath()


class Camera:
    """A prim seen as a camera: ``UsdGeom.Camera``."""

    def __init__(self, prim: stage.Prim) -> None:
        self._prim = prim

    def GetFocalLengthAttr(self) -> stage.Attribute:
        """Return the distance of lens and image, in the unit of the aperture."""
        return self._prim.GetAttribute("focalLength")

    def GetHorizontalApertureAttr(self) -> stage.Attribute:
        """Return the width of the image behind the lens."""
        return self._prim.GetAttribute("horizontalAperture")


class Joint:
    """A prim seen as a joint: ``UsdPhysics.Joint``."""

    @staticmethod
    def Get(where: stage.Stage, path: str) -> stage.Prim:
        """Return the prim at a path; an invalid prim if there is none."""
        found: stage.Prim = where.GetPrimAtPath(path)
        return found


class Quaternion:
    """``Gf.Quatd``: its real part, and the three others."""

    def __init__(self, quat: np.ndarray) -> None:
        self.real, self.imaginary = float(quat[0]), tuple(float(value) for value in quat[1:])


class Transform:
    """``Gf.Matrix4d`` of a pose."""

    def __init__(self, pos: np.ndarray, quat: np.ndarray) -> None:
        self._pos, self._quat = pos, quat

    def ExtractTranslation(self) -> tuple[float, ...]:
        """Return the position in m."""
        return tuple(float(value) for value in self._pos)

    def ExtractRotationQuat(self) -> Quaternion:
        """Return the orientation."""
        return Quaternion(self._quat)


class Xformable:
    """A prim seen as something with a place: ``UsdGeom.Xformable``."""

    def __init__(self, prim: stage.Prim) -> None:
        self._prim = prim

    def ComputeLocalToWorldTransform(self, time: object = None) -> Transform:
        """Return the pose in which it was spawned, that of a robot's link at joint positions 0.

        On a GPU, Isaac Lab leaves the stage as it was spawned, too.
        """
        path, world = self._prim.path, views.simulation_view().world
        name = in_first(path)
        if world.spec.body(name) is None:
            pos, quat = resolve_prim_pose(self._prim)
            return Transform(np.array(pos), np.array(quat))
        data = mujoco.MjData(world.model)
        mujoco.mj_kinematics(world.model, data)
        placed, number = data.body(name), stage.number_of(path)
        return Transform(placed.xpos + world.origins[number].cpu().numpy(), placed.xquat)
