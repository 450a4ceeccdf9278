"""Make the clips that envlab ships: a squat, a wave, a turn and a walk of the 29-joint G1.

Squat and wave stand on flat feet that do not move, with the centre of mass above them. In turn and
walk it moves as an inverted pendulum on the foot that stands. Run it from the
checkout's root; it writes ``source/envlab_assets/motions/*.npz``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import mujoco
import numpy as np
from mujoco.minimize import Verbosity, least_squares

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
    motions = {"squat": posed(model, squat, 4.0), "wave": posed(model, wave, 5.0)}
    motions |= {"turn": stepped(model, TURN), "walk": stepped(model, WALK)}
    for name, states in motions.items():
        clip = clip_of_states(name, model, states, FPS)
        write_clip(clip, FOLDER / f"g1_{name}.npz")
        print(f"{name}: {clip.num_frames} frames, {clip.seconds:g} s")


def posed(model: mujoco.MjModel, pose: Callable[[float], Pose], seconds: float) -> np.ndarray:
    """Return the states, ``(frames, nq)``, of a pose that changes while both feet stand."""
    times = np.arange(round(seconds * FPS) + 1) / FPS
    return np.array([standing(model, pose(time)) for time in times])


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


STEP_S, SWING_S, LIFT = 0.7, (0.2, 0.7), 0.08
"""Duration of a step, when its foot is in the air, both in s, and how high it is lifted, in m."""
TURN = [*[(0, 0.0, 0.3), (1, 0.0, 0.3)] * 4, (0, 0.0, 0.0)]
"""Steps of the turn: which foot (0 is the left one), and how far the body has gone forward and
turned, in m and rad, when it is set down."""
WALK = [(0, 0.1, 0.0), *[(1, 0.2, 0.0), (0, 0.2, 0.0)] * 4, (1, 0.1, 0.0)]
LEGS = 12
"""Joints of the legs, which are the first ones."""
STILL_S = 0.6
"""How long both feet stand before the first step and after the last one, in s."""


def stepped(model: mujoco.MjModel, steps: Sequence[tuple[int, float, float]]) -> np.ndarray:
    """Return the states, ``(frames, nq)``, of a robot that takes one step after another.

    Where its feet and its centre of mass are to be is solved for the joints, frame by frame.
    """
    data = placed(model, {}, 0.0)
    feet, pressure = footsteps(data, steps)
    mass = balanced(pressure, float(data.subtree_com[1, 2]))
    return np.array([solved(model, data, *of) for of in zip(feet, mass, strict=True)])


def footsteps(
    data: mujoco.MjData, steps: Sequence[tuple[int, float, float]]
) -> tuple[np.ndarray, np.ndarray]:
    """Return where the feet are, and between them the centre of pressure.

    Returns:
        The left foot and the right one: x, y, z in m and yaw in rad, ``(frames, 2, 4)``; and x and
        y in m, ``(frames, 2)``.
    """
    feet = np.array([[*data.site(f"{side}_foot").xpos, 0.0] for side in ("left", "right")])
    half_width, body = feet[0, 1], feet.mean(axis=0)
    still = round(STILL_S * FPS)
    places, pressure = [feet] * still, [body[:2].copy()] * still
    for foot, forward, turn in steps:
        body[3] += turn
        body[:2] += forward * np.array([np.cos(body[3]), np.sin(body[3])])
        outwards = half_width if foot == 0 else -half_width
        landing = body.copy()
        landing[:2] += outwards * np.array([-np.sin(body[3]), np.cos(body[3])])
        last = pressure[-1]
        for time in np.arange(1, round(STEP_S * FPS) + 1) / FPS:
            share = between(time, *SWING_S)
            now = feet.copy()
            now[foot] += share * (landing - feet[foot])
            now[foot, 2] += LIFT * 4.0 * share * (1.0 - share)
            places.append(now)
            pressure.append(last + min(time / SWING_S[0], 1.0) * (feet[1 - foot, :2] - last))
        feet = places[-1]
    return np.array(places + [feet] * still), np.array(pressure + [feet.mean(axis=0)[:2]] * still)


def balanced(pressure: np.ndarray, height: float) -> np.ndarray:
    """Return the path, ``(frames, 3)``, of a centre of mass that the pressure holds up.

    It is that of a linear inverted pendulum (Kajita et al.: "The 3D linear inverted pendulum mode",
    IROS 2001), ``c - c'' height / g = p``, which begins and ends at rest.
    """
    frames = len(pressure)
    curvature = np.eye(frames, k=1) - 2.0 * np.eye(frames) + np.eye(frames, k=-1)
    curvature[[0, -1]] = 0.0
    path = np.linalg.solve(np.eye(frames) - height / 9.81 * FPS**2 * curvature, pressure)
    return np.column_stack([path, np.full(frames, height)])


def solved(
    model: mujoco.MjModel, data: mujoco.MjData, feet: np.ndarray, mass: np.ndarray
) -> np.ndarray:
    """Return the state next to that of ``data`` in which feet and centre of mass are in place.

    The trunk is upright, turned half as far as each foot, and the arms stay near the default pose.
    """
    home, before = model.key("home").qpos, data.qpos.copy()
    stiffness = np.where(np.arange(model.nu) < LEGS, 0.05, 0.5)

    def away(step: np.ndarray) -> np.ndarray:
        data.qpos[:] = before
        mujoco.mj_integratePos(model, data.qpos, step, 1.0)
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        soles = [data.site(f"{side}_foot") for side in ("left", "right")]
        trunk = [data.body(name).xmat for name in ("pelvis", "torso_link")]
        return np.concatenate(
            [
                stiffness * (data.qpos[7:] - home[7:]),
                10.0 * (data.subtree_com[1] - mass),
                *(10.0 * (sole.xpos - foot[:3]) for sole, foot in zip(soles, feet, strict=True)),
                *(5.0 * turned(sole.xmat, foot[3]) for sole, foot in zip(soles, feet, strict=True)),
                *(2.0 * turned(matrix, feet[:, 3].mean()) for matrix in trunk),
            ]
        )

    def residual(steps: np.ndarray) -> np.ndarray:
        return np.stack([away(step) for step in steps.T], axis=1)

    step, _ = least_squares(np.zeros(model.nv), residual, verbose=Verbosity.SILENT)
    away(step)
    return data.qpos.copy()


def turned(matrix: np.ndarray, yaw: float) -> np.ndarray:
    """Return how far an orientation is from upright at a yaw, in rad about each axis, if small."""
    upright = np.array(
        [[np.cos(yaw), -np.sin(yaw), 0.0], [np.sin(yaw), np.cos(yaw), 0.0], [0.0, 0.0, 1.0]]
    )
    difference = upright.T @ matrix.reshape(3, 3)
    return np.array([difference[2, 1], difference[0, 2], difference[1, 0]])


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
