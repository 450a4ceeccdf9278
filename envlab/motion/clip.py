"""A motion clip: its requirements, its frame rate, fitting it to a robot, and its bodies' poses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import mujoco
import numpy as np

from envlab.archives import MOST_ARRAY_BYTES
from envlab.errors import ConfigurationError, did_you_mean

MOST_FPS = 10_000
"""Frames per second; motion capture has some hundreds."""
_FASTEST_BODY = 30.0
"""m/s; a hand reaches 15 in a sprint. Faster motion is a gap in the recording."""
_FASTEST_JOINT = 100.0
"""rad/s; motors of humanoids reach 40."""
_MISFIT = 0.03
"""m; models of one robot differ by less, on average, in where they have the origins of bodies."""
_UNIT = 1e-2
"""Tolerance of a quaternion's length of 1, for files with few digits."""


@dataclass(frozen=True, kw_only=True)
class MotionClip:
    """Joints and bodies of a robot in ``T`` frames at equal distances in time.

    Bodies are at their origins, in the world frame, where the ground is at height 0. Joints are
    hinges and slides, without the root.
    """

    name: str
    fps: float
    """Frames per second."""
    joint_pos: np.ndarray
    """``(T, num_joints)``, in rad or m."""
    joint_vel: np.ndarray
    """``(T, num_joints)``, in rad/s or m/s."""
    body_pos_w: np.ndarray
    """``(T, num_bodies, 3)``, in m."""
    body_quat_w: np.ndarray
    """``(T, num_bodies, 4)``, (w, x, y, z)."""
    body_lin_vel_w: np.ndarray
    """``(T, num_bodies, 3)``, in m/s."""
    body_ang_vel_w: np.ndarray
    """``(T, num_bodies, 3)``, in rad/s."""
    joint_names: tuple[str, ...] | None = None
    """In the order of the columns; None: the file does not name them."""
    body_names: tuple[str, ...] | None = None
    """In the order of the columns, without the world; None: the file does not name them."""

    @property
    def num_frames(self) -> int:
        """Number of frames, ``T``."""
        return len(self.joint_pos)

    @property
    def seconds(self) -> float:
        """Time from the first frame to the last."""
        return (self.num_frames - 1) / self.fps

    def check(self) -> MotionClip:
        """Return the clip itself.

        Raises:
            ConfigurationError: If it has fewer than two frames, values that are not finite,
                quaternions that are not rotations, shapes that do not fit, or a gap in time.
        """
        self._check_shapes()
        for name in _ARRAYS:
            bad = ~np.isfinite(getattr(self, name)).reshape(self.num_frames, -1).all(axis=1)
            if bad.any():
                raise self._refusal(f"{name} is not finite in frame {bad.argmax()}")
        length = np.linalg.norm(self.body_quat_w, axis=2)
        frame, body = np.unravel_index(np.abs(length - 1.0).argmax(), length.shape)
        if abs(length[frame, body] - 1.0) > _UNIT:
            raise self._refusal(
                f"the quaternion of body {self._body(int(body))} in frame {frame} has length "
                f"{length[frame, body]:.3g}, and must have 1 ((w, x, y, z))"
            )
        self._check_speed("body", np.linalg.norm(np.diff(self.body_pos_w, axis=0), axis=2))
        self._check_speed("joint", np.abs(np.diff(self.joint_pos, axis=0)))
        return self

    def _check_shapes(self) -> None:
        if not 1.0 <= self.fps <= MOST_FPS:
            raise self._refusal(f"fps is {self.fps:g}, and must be from 1 to {MOST_FPS}")
        if self.num_frames < 2:
            raise self._refusal(f"it has {self.num_frames} frames, and must have 2 or more")
        num_joints, num_bodies = self.joint_pos.shape[1], self.body_pos_w.shape[1]
        if not num_joints or not num_bodies:
            raise self._refusal(f"it has {num_joints} joints and {num_bodies} bodies")
        widths = (num_joints,), (num_joints,), *[(num_bodies, k) for k in (3, 4, 3, 3)]
        for name, width in zip(_ARRAYS, widths, strict=True):
            shape, expected = getattr(self, name).shape, (self.num_frames, *width)
            if shape != expected:
                raise self._refusal(f"{name} has shape {shape}, and must have {expected}")
        for kind, names, num in (
            ("joint", self.joint_names, num_joints),
            ("body", self.body_names, num_bodies),
        ):
            if names is not None and len(names) != num:
                raise self._refusal(f"it has {len(names)} {kind} names for {num} columns")

    def _check_speed(self, kind: str, moved: np.ndarray) -> None:
        """Refuse a gap, given the motion of each body or joint between frames, ``(T - 1, k)``."""
        limit, unit = (_FASTEST_BODY, "m") if kind == "body" else (_FASTEST_JOINT, "rad")
        frame, index = np.unravel_index(moved.argmax(), moved.shape)
        if moved[frame, index] * self.fps > limit:
            name = self._body(int(index)) if kind == "body" else self._joint(int(index))
            raise self._refusal(
                f"between frames {frame} and {frame + 1}, {1000.0 / self.fps:.3g} ms apart, "
                f"{kind} {name} moves by {moved[frame, index]:.3g} {unit}: there is a gap; cut the "
                "clip there"
            )

    def _body(self, index: int) -> str:
        return str(index) if self.body_names is None else self.body_names[index]

    def _joint(self, index: int) -> str:
        return str(index) if self.joint_names is None else self.joint_names[index]

    def _refusal(self, problem: str) -> ConfigurationError:
        return ConfigurationError(f"The motion {self.name} cannot be used: {problem}.")


_ARRAYS = (
    *("joint_pos", "joint_vel"),
    *("body_pos_w", "body_quat_w", "body_lin_vel_w", "body_ang_vel_w"),
)


def fit_clip(clip: MotionClip, model: mujoco.MjModel) -> MotionClip:
    """Return a clip with exactly the joints and bodies of a robot, in the model's order.

    A clip that names neither must have as many of both as the robot, in an order of MuJoCo or Isaac
    Lab that fits its bodies' poses, as the files of mjlab and BeyondMimic do. Bodies that the robot
    lacks are dropped, because other models of it have some for sensors.

    Args:
        clip: The clip.
        model: The robot with its surroundings.

    Raises:
        ConfigurationError: If the clip lacks joints or has others, or if it names no bodies and has
            a different number of them, or poses that its joints do not lead to.
    """
    joints, bodies = robot_joints(model), robot_bodies(model)
    clip = _with_names(clip, model, joints, bodies)
    joint_columns = _columns(clip, "joint", clip.joint_names, clip.joint_pos.shape[1], joints)
    if clip.joint_names is not None:
        others = [name for name in clip.joint_names if name not in joints]
        if others:
            raise ConfigurationError(
                f"The motion {clip.name} has joints that the robot lacks: {_listed(others)}. Give "
                "a clip of this robot, or another robot."
            )
    names = clip.body_names
    kept = bodies if names is None else [name for name in bodies if name in names]
    body_columns = _columns(clip, "body", names, clip.body_pos_w.shape[1], kept)
    arrays: dict[str, Any] = {
        name: getattr(clip, name)[:, joint_columns if name in _ARRAYS[:2] else body_columns]
        for name in _ARRAYS
    }
    return replace(clip, **arrays, joint_names=tuple(joints), body_names=tuple(kept))


def resample_clip(clip: MotionClip, fps: float) -> MotionClip:
    """Return a clip at another rate, by interpolation between frames.

    Orientations use slerp, everything else is linear, as in ``csv_to_npz`` of mjlab 1.6.0.

    Raises:
        ConfigurationError: If it would be larger than a file may be.
    """
    if abs(fps - clip.fps) < 1e-6 * fps:
        return clip
    num_frames = int(np.floor(clip.seconds * fps + 1e-6)) + 1
    size = num_frames * sum(getattr(clip, name)[0].nbytes for name in _ARRAYS)
    if size > MOST_ARRAY_BYTES:
        raise ConfigurationError(
            f"The motion {clip.name} lasts {clip.seconds:g} s, which is {num_frames} frames and "
            f"{size} bytes at {fps:g} frames per second; {MOST_ARRAY_BYTES} are allowed. Give a "
            "part of it, or fewer frames per second."
        )
    place = np.minimum(np.arange(num_frames) * (clip.fps / fps), clip.num_frames - 1.0)
    before = np.minimum(place.astype(int), clip.num_frames - 2)
    share = place - before

    def between(values: np.ndarray) -> np.ndarray:
        weight = share.reshape(-1, *[1] * (values.ndim - 1))
        return (1.0 - weight) * values[before] + weight * values[before + 1]

    others: dict[str, Any] = {
        name: between(getattr(clip, name)) for name in _ARRAYS if name != "body_quat_w"
    }
    quats = slerp(clip.body_quat_w[before], clip.body_quat_w[before + 1], share[:, None])
    return replace(clip, fps=float(fps), body_quat_w=quats, **others)


def slerp(first: np.ndarray, second: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Return rotations between two others, the shorter way.

    Shoemake: "Animating rotation with quaternion curves", SIGGRAPH 1985.

    Args:
        first: Unit quaternions, ``(..., 4)``.
        second: Unit quaternions, ``(..., 4)``.
        share: Position between them, 0 to 1, ``(...)``.
    """
    cosine = (first * second).sum(axis=-1)
    second = np.where(cosine[..., None] < 0.0, -second, second)
    angle = np.arccos(np.clip(np.abs(cosine), 0.0, 1.0))
    sine = np.sin(angle)
    is_small = sine < 1e-6
    safe = np.where(is_small, 1.0, sine)
    a = np.where(is_small, 1.0 - share, np.sin((1.0 - share) * angle) / safe)
    b = np.where(is_small, share, np.sin(share * angle) / safe)
    quats: np.ndarray = a[..., None] * first + b[..., None] * second
    return quats / np.linalg.norm(quats, axis=-1, keepdims=True)


def robot_joints(model: mujoco.MjModel) -> list[str]:
    """Return the names of a model's hinges and slides, in its order."""
    scalar = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))
    return [model.joint(j).name for j in range(model.njnt) if int(model.jnt_type[j]) in scalar]


def robot_bodies(model: mujoco.MjModel) -> list[str]:
    """Return the names of the bodies of a model's first tree that moves freely, in its order."""
    free = [b for b in range(1, model.nbody) if model.body_dofnum[b] == 6]
    root = free[0] if free else 1
    return [model.body(b).name for b in range(1, model.nbody) if model.body_rootid[b] == root]


def _with_names(
    clip: MotionClip, model: mujoco.MjModel, joints: Sequence[str], bodies: Sequence[str]
) -> MotionClip:
    """Return a clip without names with the robot's, in the order that fits its poses best."""
    root = model.body(bodies[0]) if bodies else None
    sizes = clip.joint_pos.shape[1], clip.body_pos_w.shape[1]
    has_names = clip.joint_names is not None or clip.body_names is not None
    if has_names or root is None or int(root.dofnum[0]) != 6 or sizes != (len(joints), len(bodies)):
        return clip
    data = mujoco.MjData(model)
    start = int(model.jnt_qposadr[root.jntadr[0]])
    misfits: dict[float, tuple[Sequence[str], Sequence[str]]] = {}
    for order in ((joints, bodies), _breadth_first(model, True), _breadth_first(model, False)):
        places = [int(model.joint(name).qposadr[0]) for name in order[0]]
        ids, distances = [model.body(name).id for name in order[1]], []
        for frame in (0, clip.num_frames // 2, clip.num_frames - 1):
            data.qpos[start : start + 3] = clip.body_pos_w[frame, 0]
            data.qpos[start + 3 : start + 7] = clip.body_quat_w[frame, 0]
            data.qpos[places] = clip.joint_pos[frame]
            mujoco.mj_kinematics(model, data)
            distances.append(np.linalg.norm(data.xpos[ids] - clip.body_pos_w[frame], axis=1))
        misfits.setdefault(float(np.mean(distances)), order)
    least = min(misfits)
    if least > _MISFIT:
        raise ConfigurationError(
            f"The motion {clip.name} names neither joints nor bodies, and its bodies are "
            f"{100.0 * least:.0f} cm on average from where its joints lead, in MuJoCo's order and "
            "in Isaac Lab's. Give a clip of this robot, or a clip with joint_names and body_names."
        )
    found = misfits[least]
    return replace(clip, joint_names=tuple(found[0]), body_names=tuple(found[1]))


def _breadth_first(model: mujoco.MjModel, by_name: bool) -> tuple[list[str], list[str]]:
    """Return the robot's joints and bodies as Isaac Lab has them; siblings are by name in URDF."""
    known, joints = robot_joints(model), []
    waiting = robot_bodies(model)[:1]
    for body in waiting:
        children = [model.body(b).name for b in range(1, model.nbody)
                    if model.body(model.body_parentid[b]).name == body]  # fmt: skip
        waiting += sorted(children) if by_name else children
        first, count = int(model.body(body).jntadr[0]), int(model.body(body).jntnum[0])
        own = [model.joint(joint).name for joint in range(first, first + count)]
        joints += [name for name in own if name in known]
    return joints, waiting


def _columns(
    clip: MotionClip,
    kind: str,
    names: Sequence[str] | None,
    num: int,
    wanted: Sequence[str],
) -> list[int]:
    """Return the index of each of ``wanted`` in a clip."""
    plural = {"joint": "joints", "body": "bodies"}[kind]
    if names is None:
        if num != len(wanted):
            raise ConfigurationError(
                f"The motion {clip.name} has {num} {plural} without names, but the robot has "
                f"{len(wanted)}. Give a clip of this robot, or one that names its {plural} "
                f"({kind}_names)."
            )
        return list(range(num))
    missing = [name for name in wanted if name not in names]
    if missing:
        raise ConfigurationError(
            f"The motion {clip.name} lacks {plural} of the robot: {_listed(missing)}; it has "
            f"{_listed(list(names))}.{did_you_mean(missing[0], names)}"
        )
    return [list(names).index(name) for name in wanted]


def _listed(names: Sequence[str], most: int = 8) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" * (len(names) > most))


def clip_of_states(name: str, model: mujoco.MjModel, qpos: np.ndarray, fps: float) -> MotionClip:
    """Return the clip of a robot in these states.

    Velocities are central differences, one-sided at both ends.

    Args:
        name: Name of the clip in messages.
        model: The robot.
        qpos: ``(T, nq)``, with quaternions of length 1.
        fps: Frames per second.
    """
    data = mujoco.MjData(model)
    joints = [model.joint(joint) for joint in robot_joints(model)]
    bodies = [model.body(body).id for body in robot_bodies(model)]
    num_frames = len(qpos)
    qvel = velocities(model, qpos, fps)
    pos, quat = np.empty((num_frames, len(bodies), 3)), np.empty((num_frames, len(bodies), 4))
    velocity = np.empty((num_frames, len(bodies), 6))
    for frame in range(num_frames):
        data.qpos[:], data.qvel[:] = qpos[frame], qvel[frame]
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_comVel(model, data)
        pos[frame], quat[frame] = data.xpos[bodies], data.xquat[bodies]
        for row, body in zip(velocity[frame], bodies, strict=True):
            mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, body, row, 0)
    return MotionClip(
        name=name,
        fps=float(fps),
        joint_pos=qpos[:, [int(joint.qposadr[0]) for joint in joints]],
        joint_vel=qvel[:, [int(joint.dofadr[0]) for joint in joints]],
        body_pos_w=pos,
        body_quat_w=quat,
        body_lin_vel_w=velocity[:, :, 3:],
        body_ang_vel_w=velocity[:, :, :3],
        joint_names=tuple(joint.name for joint in joints),
        body_names=tuple(robot_bodies(model)),
    ).check()


def velocities(model: mujoco.MjModel, qpos: np.ndarray, fps: float) -> np.ndarray:
    """Return ``qvel`` of successive states, ``(T, nv)``, by central differences."""
    last = len(qpos) - 1
    qvel = np.empty((len(qpos), model.nv))
    for frame in range(len(qpos)):
        before, after = max(frame - 1, 0), min(frame + 1, last)
        mujoco.mj_differentiatePos(
            model, qvel[frame], (after - before) / fps, qpos[before], qpos[after]
        )
    return qvel
