"""Make the clips that envlab ships: a squat and a wave of the 29-joint G1.

Both stand on flat feet that do not move, with the centre of mass above them. Run it from the
checkout's root; it writes ``source/envlab_assets/motions/*.npz``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np

from envlab.motion import clip_of_states, write_clip

FPS = 50
FOLDER = Path("source/envlab_assets/motions")
MODEL = "source/envlab_assets/robots/g1_29.xml"
KNEE, DEEP = 0.669, 1.75
"""Angles of a knee, in rad, standing and at the bottom of a squat."""
ARMS_AHEAD = -1.1
"""Angle of the shoulders at the bottom, in rad, which balances the hips behind the feet."""
Pose = dict[str, float]


def main() -> None:
    """Write the clips."""
    model = mujoco.MjModel.from_xml_path(MODEL)
    FOLDER.mkdir(exist_ok=True)
    for name, pose, seconds in (("squat", squat, 4.0), ("wave", wave, 5.0)):
        times = np.arange(round(seconds * FPS) + 1) / FPS
        states = np.array([standing(model, pose(time)) for time in times])
        clip = clip_of_states(name, model, states, FPS)
        write_clip(clip, FOLDER / f"g1_{name}.npz")
        print(f"{name}: {clip.num_frames} frames, {clip.seconds:g} s")


def squat(time: float) -> Pose:
    """Go down for 1.2 s from 0.4 s on, stay for 0.4 s, and come up for 1.2 s."""
    depth = between(time, 0.4, 1.6) - between(time, 2.0, 3.2)
    shoulders = 0.2 + depth * (ARMS_AHEAD - 0.2)
    return legs(KNEE + depth * (DEEP - KNEE)) | {
        "left_shoulder_pitch_joint": shoulders,
        "right_shoulder_pitch_joint": shoulders,
        "left_elbow_joint": 0.6 + 0.4 * depth,
        "right_elbow_joint": 0.6 + 0.4 * depth,
    }


def wave(time: float) -> Pose:
    """Raise the right arm within a second, wave three times, and lower it."""
    up = between(time, 0.3, 1.3) - between(time, 3.7, 4.7)
    side = np.sin(2.0 * np.pi * 1.5 * (time - 1.3)) * between(time, 1.2, 1.6)
    side *= 1.0 - between(time, 3.3, 3.7)
    return legs(KNEE) | {
        "right_shoulder_pitch_joint": 0.2 - 1.6 * up,
        "right_shoulder_roll_joint": -0.2 - 1.1 * up,
        "right_elbow_joint": 0.6 - 0.7 * up + 0.35 * side,
        "right_wrist_roll_joint": 0.3 * side,
        "waist_yaw_joint": 0.1 * up,
    }


def legs(knee: float) -> Pose:
    """Return both legs for an angle of the knees, with flat feet; the hips follow the lean."""
    ankle = -0.363 - 0.39 * (knee - KNEE)
    return {
        f"{side}_{joint}_joint": angle
        for side in ("left", "right")
        for joint, angle in (("knee", knee), ("ankle_pitch", ankle))
    }


def standing(model: mujoco.MjModel, pose: Pose) -> np.ndarray:
    """Return the state in which a pose stands on both feet, leaning so that it balances.

    The soles are at the height and place of the default pose, where the feet are 3.5 cm behind the
    point of the ground above which the centre of mass is.
    """

    def offset(lean: float) -> float:
        data = placed(model, pose, lean)
        feet = data.body("left_ankle_roll_link").xpos
        return float(data.subtree_com[1, 0] - feet[0] - 0.035)

    return np.array(placed(model, pose, root_of(offset, -0.4, 1.2)).qpos)


def placed(model: mujoco.MjModel, pose: Pose, lean: float) -> mujoco.MjData:
    """Return the robot in a pose, its trunk leaning forward, in rad, its feet flat in one place."""
    data = mujoco.MjData(model)
    data.qpos[:] = model.key("home").qpos
    for name, angle in pose.items():
        data.joint(name).qpos = angle
    for side in ("left", "right"):
        leg = data.joint(f"{side}_knee_joint").qpos + data.joint(f"{side}_ankle_pitch_joint").qpos
        data.joint(f"{side}_hip_pitch_joint").qpos = -leg - lean
    data.qpos[3:7] = np.cos(0.5 * lean), 0.0, np.sin(0.5 * lean), 0.0
    data.qpos[:3] = 0.0
    mujoco.mj_kinematics(model, data)
    feet = [data.body(f"{side}_ankle_roll_link").xpos for side in ("left", "right")]
    data.qpos[:3] = np.array([0.0, 0.0, SOLE]) - np.mean(feet, axis=0)
    mujoco.mj_forward(model, data)
    return data


SOLE = 0.035
"""Height of the ankles, in m: the soles are 3.5 cm below them."""


def between(time: float, start: float, end: float) -> float:
    """Return 0 before ``start``, 1 after ``end``, and the path of least jerk between them.

    Flash and Hogan: "The coordination of arm movements", Journal of Neuroscience, 1985.
    """
    share = float(np.clip((time - start) / (end - start), 0.0, 1.0))
    return share**3 * (10.0 - 15.0 * share + 6.0 * share**2)


def root_of(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where an increasing function is 0, by bisection."""
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if function(middle) < 0.0 else (low, middle)
    return 0.5 * (low + high)


if __name__ == "__main__":
    main()
