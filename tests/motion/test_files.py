"""Files of clips: supported layouts, and files that are refused with a sentence."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from envlab.envs.joint_order import joint_names
from envlab.envs.scene import SceneCfg, build_model
from envlab.errors import ConfigurationError
from envlab.motion import (
    MotionClip,
    clip_of_states,
    fit_clip,
    read_clip,
    read_csv,
    resample_clip,
    write_clip,
)
from envlab.motion.clip import slerp
from tests.envs.refusals import assert_refused

MODEL = """
<mujoco>
  <worldbody>
    <body name="trunk"><freejoint/><geom size="0.1" mass="1"/>
      <body name="arm" pos="0.5 0 0"><joint name="shoulder" axis="0 0 1" range="-2 2"/>
        <geom size="0.1" mass="1"/>
        <body name="hand" pos="0.5 0 0"><joint name="wrist" axis="0 0 1" range="-2 2"/>
          <geom size="0.05" mass="0.1"/></body>
      </body>
    </body>
    <body name="ball" pos="3 0 0"><freejoint/><geom size="0.1" mass="1"/></body>
  </worldbody>
</mujoco>
"""
FPS = 50.0


@pytest.fixture(scope="module")
def model() -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(MODEL)


@pytest.fixture(scope="module")
def qpos(model: mujoco.MjModel) -> np.ndarray:
    """The trunk goes along y at 1 m/s, and the shoulder turns at 0.5 rad/s."""
    time = np.arange(41) / FPS
    states = np.repeat(model.qpos0[None], len(time), axis=0)
    states[:, 1], states[:, 7] = time, 0.5 * time
    return states


@pytest.fixture(scope="module")
def clip(model: mujoco.MjModel, qpos: np.ndarray) -> MotionClip:
    return clip_of_states("x", model, qpos, FPS)


@pytest.fixture
def arrays(clip: MotionClip, tmp_path: Path) -> dict[str, Any]:
    """The contents of a file of mjlab: no names."""
    write_clip(clip, tmp_path / "x.npz")
    with np.load(tmp_path / "x.npz") as file:
        return {name: file[name] for name in file.files if not name.endswith("names")}


def save(path: Path, arrays: dict[str, Any]) -> Path:
    np.savez(path, **arrays)
    return path


def test_velocities_follow_from_positions(clip):
    assert clip.body_names == ("trunk", "arm", "hand")
    assert clip.joint_names == ("shoulder", "wrist")
    assert clip.joint_vel[:, 0] == pytest.approx(np.full(41, 0.5))
    assert clip.body_ang_vel_w[:, 2] == pytest.approx(np.tile([0.0, 0.0, 0.5], (41, 1)))
    # The hand is 0.5 m from the shoulder: the trunk's metre a second, and 0.25 m/s across the arm.
    angle = 0.5 * np.arange(41) / FPS
    across = np.stack([-np.sin(angle), np.cos(angle), np.zeros(41)], axis=1)
    expected = np.array([0.0, 1.0, 0.0]) + 0.25 * across
    assert clip.body_lin_vel_w[:, 2] == pytest.approx(expected, abs=1e-9)


def test_mjlabs_layout_needs_as_many_bodies_as_the_robot_has(model, arrays, tmp_path):
    clip = fit_clip(read_clip(save(tmp_path / "mjlab.npz", arrays)), model)
    assert clip.joint_names == ("shoulder", "wrist")
    fewer = {n: v[:, :2] if n.startswith("body") else v for n, v in arrays.items()}
    clip = read_clip(save(tmp_path / "fewer.npz", fewer))
    with pytest.raises(ConfigurationError, match="has 2 bodies without names, but the robot has 3"):
        fit_clip(clip, model)


def test_holosomas_layout_has_a_root_and_a_world(model, arrays, tmp_path):
    expected = {name: values.copy() for name, values in arrays.items()}
    num = len(arrays["joint_pos"])
    # Joints and bodies in another order, with a body that this robot lacks.
    arrays["joint_pos"] = np.hstack([np.zeros((num, 7)), arrays["joint_pos"][:, ::-1]])
    arrays["joint_vel"] = np.hstack([np.zeros((num, 6)), arrays["joint_vel"][:, ::-1]])
    for name, body in expected.items():
        if name.startswith("body"):
            arrays[name] = np.concatenate([body[:, :1], body[:, :1], body[:, ::-1]], axis=1)
    arrays["joint_names"] = np.array(["wrist", "shoulder"])
    arrays["body_names"] = np.array(["world", "lidar", "hand", "arm", "trunk"])
    clip = fit_clip(read_clip(save(tmp_path / "holosoma.npz", arrays)), model)
    assert clip.body_names == ("trunk", "arm", "hand")
    for name in ("joint_pos", "joint_vel", "body_pos_w", "body_quat_w", "body_ang_vel_w"):
        assert getattr(clip, name) == pytest.approx(expected[name]), name


def test_isaac_labs_layout_is_renamed(model, arrays, tmp_path):
    theirs = {
        **{"fps": "fps", "joint_pos": "dof_positions", "joint_vel": "dof_velocities"},
        **{"body_pos_w": "body_positions", "body_quat_w": "body_rotations"},
        **{"body_lin_vel_w": "body_linear_velocities", "body_ang_vel_w": "body_angular_velocities"},
    }
    renamed = {theirs[name]: values for name, values in arrays.items()}
    renamed["dof_names"] = np.array(["shoulder", "wrist"])
    renamed["body_names"] = np.array(["trunk", "arm", "hand"])
    clip = fit_clip(read_clip(save(tmp_path / "amp.npz", renamed)), model)
    for name in arrays.keys() - {"fps"}:
        assert getattr(clip, name) == pytest.approx(arrays[name]), name


def test_a_csv_is_of_states(model, qpos, tmp_path):
    alone = MODEL.split('<body name="ball"')[0] + "</worldbody></mujoco>"
    robot, path = mujoco.MjModel.from_xml_string(alone), tmp_path / "clip.csv"
    table = qpos[:, :9].copy()
    table[:, 3:7] = table[:, [4, 5, 6, 3]]  # (x, y, z, w)
    np.savetxt(path, table, delimiter=",")
    clip = read_csv(path, robot, FPS, (11, 31))
    assert clip.num_frames == 21
    assert clip.body_pos_w[0, 0, 1] == pytest.approx(10 / FPS)
    assert clip.body_lin_vel_w[5, 0] == pytest.approx([0.0, 1.0, 0.0], abs=1e-9)
    assert clip.body_quat_w[5, 0] == pytest.approx([1.0, 0.0, 0.0, 0.0])
    text = tmp_path / "text.csv"
    text.write_text("a,b\n")
    assert_refused(
        {
            "has frames 1 to 41": lambda: read_csv(path, robot, FPS, (31, 60)),
            "has 9 columns, but this robot needs 16": lambda: read_csv(path, model, FPS),
            "envlab motion convert": lambda: read_clip(path),
            "not a table of numbers": lambda: read_csv(text, robot, FPS),
        }
    )


def test_other_rates_are_interpolated(clip):
    slow = resample_clip(clip, 20.0)
    assert slow.num_frames == 17  # 0.8 s
    assert slow.joint_pos[3, 0] == pytest.approx(0.5 * 3 / 20.0)
    angle = 2.0 * np.arctan2(slow.body_quat_w[3, 1, 3], slow.body_quat_w[3, 1, 0])
    assert angle == pytest.approx(0.5 * 3 / 20.0)
    assert resample_clip(clip, 50.0) is clip


def test_slerp_goes_the_shorter_way_at_an_even_speed():
    first = np.array([1.0, 0.0, 0.0, 0.0])
    second = -np.array([np.cos(0.5), np.sin(0.5), 0.0, 0.0])  # a turn by 1 rad
    middle = slerp(first, second, np.array(0.25))
    assert np.abs(middle) == pytest.approx([np.cos(0.125), np.sin(0.125), 0.0, 0.0])


def test_files_that_cannot_be_used(model, arrays, clip, tmp_path):
    none = changed(changed(arrays, "joint_pos", "columns", 0), "joint_vel", "columns", 0)
    joints = {name: arrays[name][:, [0, 1, 0]] for name in ("joint_pos", "joint_vel")}
    more = arrays | joints | {"joint_names": np.array(["shoulder", "wrist", "tail"])}
    other, short = ["shoulder", "ankle"], changed(arrays, "joint_vel", "cut", 30)
    table = {
        "lacks joint_pos": changed(arrays, "joint_pos", "without"),
        "joint_pos is not finite in frame 20": changed(arrays, "joint_pos", "set", np.nan),
        "the quaternion of body 1 in frame 20": changed(arrays, "body_quat_w", "set", 0.9),
        "there is a gap": changed(arrays, "body_pos_w", "set", 9.0),
        "is a gap": changed(arrays, "joint_pos", "set", 5.0),
        r"joint_vel has shape \(30, 2\), and must have \(41, 2\)": short,
        "fps is 0, and must be from 1 to 10000": changed(arrays, "fps", "as", [0.0]),
        "fps is 1e-06, and must be from 1 to 10000": changed(arrays, "fps", "as", [1e-6]),
        "fps is nan, and must be from 1 to 10000": changed(arrays, "fps", "as", [np.nan]),
        "it has 0 joints and 3 bodies": none,
        "has 2 values of fps": changed(arrays, "fps", "as", [30.0, 50.0]),
        "but must be numbers in 3 dimensions": changed(arrays, "body_pos_w", "as", [[1.0, 2.0]]),
        "has 1 joint names for 2 columns": changed(arrays, "joint_names", "as", ["shoulder"]),
        "lacks joints of the robot: wrist": changed(arrays, "joint_names", "as", other),
        "has 2 body names for 3 columns": changed(arrays, "body_names", "as", ["trunk", "arm"]),
        "joints that the robot lacks: tail": more,
    }
    evil, text, sparse = (tmp_path / name for name in ("evil.npz", "text.npz", "sparse.csv"))
    np.savez(evil, fps=np.array([object()], dtype=object))  # which runs code when it is read
    text.write_text("no archive")
    with sparse.open("wb") as file:
        file.truncate(6 * 10**9)  # takes no room on the disk
    long = replace(clip, fps=1.0)
    assert_refused(
        {
            words: lambda one=one: fit_clip(read_clip(save(tmp_path / "bad.npz", one)), model)
            for words, one in table.items()
        }
        | {
            "cannot be read": lambda: read_clip(evil),
            "text.npz.* cannot be read": lambda: read_clip(text),
            "lasts 40 s, which is 400000001 frames": lambda: resample_clip(long, 1e7),
            "has 6000000000 bytes, more than 134217728": lambda: read_csv(sparse, model, 30.0),
        }
    )


def changed(arrays: dict[str, Any], name: str, how: str, value: Any = None) -> dict[str, Any]:
    """Return a file's contents of which one array is missing, set in a frame, cut or replaced."""
    found = {key: values.copy() for key, values in arrays.items()}
    if how == "without":
        del found[name]
    elif how == "set":
        found[name].reshape(41, -1)[20, -1 if name != "body_quat_w" else 4] = value
    elif how == "cut":
        found[name] = found[name][:value]
    elif how == "columns":
        found[name] = found[name][:, :value]
    else:
        found[name] = np.array(value)
    return found


def test_half_a_file_is_never_left(clip, tmp_path):
    with pytest.raises(ConfigurationError, match="cannot be written"):
        write_clip(clip, tmp_path / "nowhere" / "x.npz")
    write_clip(clip, tmp_path / "x.npz")
    assert [file.name for file in tmp_path.iterdir()] == ["x.npz"]


def without_names(clip: MotionClip, joints: list[str], bodies: list[str]) -> MotionClip:
    """Return a clip with its columns in this order, and no names."""
    arrays = {}
    for kind, names in (("joint", joints), ("body", bodies)):
        known = list(getattr(clip, f"{kind}_names"))
        columns = [known.index(name) for name in names]
        for field in fields(clip):
            if field.name.startswith(kind) and not field.name.endswith("names"):
                arrays[field.name] = getattr(clip, field.name)[:, columns]
    return replace(clip, **arrays, joint_names=None, body_names=None)


def test_beyondmimics_files_are_in_isaac_labs_order():
    """Its ``csv_to_npz.py`` saves Isaac Lab's arrays, whose joints and bodies are breadth first."""
    robot = build_model(SceneCfg(model="envlab_assets:robots/g1_29.xml"))
    clip = fit_clip(read_clip("envlab_assets:motions/g1_squat.npz"), robot)
    joints = joint_names(robot, "isaaclab")
    moved = [robot.body(int(robot.joint(name).bodyid[0])).name for name in joints]
    found = fit_clip(without_names(clip, joints, ["pelvis", *moved]), robot)
    assert found.joint_names == clip.joint_names
    assert np.array_equal(found.joint_pos, clip.joint_pos)
    assert np.array_equal(found.body_pos_w, clip.body_pos_w)
    scrambled = without_names(clip, joints[::-1], ["pelvis", *moved])
    with pytest.raises(ConfigurationError, match=r"its bodies are \d+ cm on average from where"):
        fit_clip(scrambled, robot)
