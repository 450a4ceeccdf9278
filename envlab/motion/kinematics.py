"""Body states of a robot from its joints: forward kinematics by MuJoCo."""

from __future__ import annotations

import mujoco
import numpy as np

from envlab.motion.clip import MotionClip, robot_bodies, robot_joints


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
