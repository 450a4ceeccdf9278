"""Make the clips of the 28-joint humanoid that envlab ships: a walk, a run and a dance.

They are drawn, not recorded: joints swing as sines, and the root stands where the foot that bears
the body stays on its place. Run it from the checkout's root; it writes
``source/envlab_assets/motions/humanoid_28_*.npz``.
"""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np

from envlab.motion import clip_of_states, write_clip

FPS = 60
FOLDER = Path("source/envlab_assets/motions")
MODEL = "source/envlab_assets/robots/humanoid_28.xml"
SOLE = 0.05
"""How far the soles are below the ankles, in m."""
Pose = dict[str, float]


def main() -> None:
    """Write the clips."""
    model = mujoco.MjModel.from_xml_path(MODEL)
    for name, pose, seconds in (("walk", walk, 3.3), ("run", run, 2.1), ("dance", dance, 4.0)):
        poses = [pose(time) for time in np.arange(round(seconds * FPS) + 1) / FPS]
        clip = clip_of_states(name, model, rolled_along(model, poses), FPS)
        write_clip(clip, FOLDER / f"humanoid_28_{name}.npz")
        speed = clip.body_pos_w[-1, 0, 0] / clip.seconds
        print(f"{name}: {clip.num_frames} frames, {clip.seconds:g} s, {speed:.2f} m/s ahead")


def walk(time: float) -> Pose:
    """Two steps in 1.1 s."""
    return gait(time / 1.1, hip=0.42, lean=0.03, knee=0.9, bent=0.08, arm=0.35, elbow=-0.35)


def run(time: float) -> Pose:
    """Two steps in 0.7 s, with bent elbows and high knees."""
    return gait(time / 0.7, hip=0.65, lean=0.15, knee=1.5, bent=0.35, arm=0.7, elbow=-1.5)


def gait(
    cycles: float, *, hip: float, lean: float, knee: float, bent: float, arm: float, elbow: float
) -> Pose:
    """Return a pose within a gait; the left leg is half a cycle behind the right one.

    Args:
        cycles: Time in cycles of two steps.
        hip: How far the thighs swing ahead and back, in rad.
        lean: How far the trunk leans ahead.
        knee: How far the knee of the leg that swings is bent.
        bent: How far that of the other leg is.
        arm: How far the arms swing, against the legs.
        elbow: Angle of the elbows.
    """
    pose: Pose = {"abdomen_y": lean}
    for side, offset in (("right", 0.0), ("left", 0.5)):
        phase = 2.0 * np.pi * (cycles + offset)
        swing = np.sin(phase)  # 1: the leg is ahead
        lifted = max(0.0, np.cos(phase)) ** 2  # on the way there
        flexed = bent + (knee - bent) * lifted
        thigh = -hip * swing - 0.25 * flexed
        pose |= {
            f"{side}_hip_y": thigh,
            f"{side}_knee": flexed,
            f"{side}_ankle_y": -(thigh + flexed) * 0.9,
            f"{side}_shoulder_y": arm * swing,
            f"{side}_elbow": elbow,
        }
    return pose


def dance(time: float) -> Pose:
    """Sway from one bent leg to the other, twice in 2 s, with arms that rise and cross."""
    beat = 2.0 * np.pi * time / 2.0
    pose: Pose = {
        "abdomen_z": 0.35 * np.sin(beat),
        "abdomen_x": 0.15 * np.sin(2.0 * beat),
        "neck_z": -0.25 * np.sin(beat),
    }
    for side, sign in (("right", -1.0), ("left", 1.0)):
        dip = 0.35 + 0.3 * np.cos(2.0 * beat)
        raised = 0.9 + 0.6 * np.sin(beat + 0.5 * np.pi * sign)
        pose |= {
            f"{side}_hip_y": -dip,
            f"{side}_knee": 2.0 * dip,
            f"{side}_ankle_y": -dip,
            f"{side}_hip_x": sign * (0.12 + 0.06 * sign * np.sin(beat)),
            f"{side}_ankle_x": -sign * (0.12 + 0.06 * sign * np.sin(beat)),
            f"{side}_shoulder_x": sign * raised,
            f"{side}_shoulder_y": -0.5 + 0.4 * np.sin(2.0 * beat),
            f"{side}_elbow": -0.9 - 0.5 * np.cos(beat),
        }
    return pose


def rolled_along(model: mujoco.MjModel, poses: list[Pose]) -> np.ndarray:
    """Return states, ``(T, nq)``, in which the lower foot is on the ground and moves no more."""
    data = mujoco.MjData(model)
    feet = [model.body(f"{side}_foot").id for side in ("right", "left")]
    states, before = [], None
    place = np.zeros(2)
    for pose in poses:
        data.qpos[:] = model.key("home").qpos
        data.qpos[:3] = 0.0
        for name, angle in pose.items():
            data.joint(name).qpos = angle
        mujoco.mj_kinematics(model, data)
        found = data.xpos[feet]
        lower = int(found[:, 2].argmin())
        if before is not None:
            place -= found[lower, :2] - before[lower, :2]
        before = found.copy()
        data.qpos[:3] = *place, SOLE - found[lower, 2]
        states.append(data.qpos.copy())
    smooth = np.array(states)
    smooth[:, :3] = smoothed(smooth[:, :3])
    return smooth


def smoothed(values: np.ndarray, width: int = 5) -> np.ndarray:
    """Return running means of columns, of which the ends stay as they are."""
    padded = np.pad(values, ((width // 2, width // 2), (0, 0)), mode="edge")
    kernel = np.ones(width) / width
    columns = [np.convolve(column, kernel, mode="valid") for column in padded.T]
    return np.stack(columns, axis=1)


if __name__ == "__main__":
    main()
