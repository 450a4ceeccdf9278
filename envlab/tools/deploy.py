"""``envlab deploy``: an exported policy moves its robot in MuJoCo, without torch or envlab.

This single file needs ``mujoco``, ``numpy`` and ``onnxruntime``, and reads ``policy.onnx`` and an
MJCF; ``envlab export`` puts a copy of it next to them. The controller of a real robot has to do the
same: :data:`TERMS` has the formula of each observation, and :meth:`Player.step` applies an action.
To add formulas of further observations, write your own file; the next export overwrites this one::

    python exported/deploy.py --command 1 0 0 --seconds 20 --terms my_terms.py
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import json
import math
import runpy
import sys
import threading
import time
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import mujoco
import numpy as np

MOST_SUBSTEPS = 10_000
"""Most physics steps of a control step; training has a few."""
MOST_BYTES = 2**32
"""Most memory that model, policy and motion may take while they are loaded."""
MOST_MOTION_BYTES = 2**29
"""Most bytes of a clip, unpacked: hours of a humanoid's motion."""
MOST_COPIES = 100_000
"""Most copies of a part of the model, by ``<replicate count=...>`` and the like."""
MOST_CELLS = 100_000_000
"""Most cells of a height field or a texture."""
FIRST_ACTION_S = 10.0
"""Longest time for the first action, which also prepares the policy; later ones take 0.1 ms."""
_DAMAGE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
"""Exceptions due to values of a wrong kind."""
_BAD_ARCHIVE = (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
"""Exceptions due to an archive that is damaged, encrypted or none."""


class DeployError(Exception):
    """A problem with the folder, the model or the command line, in a sentence for the user."""


class Player:
    """A policy, its robot, and the loop between them.

    Attributes:
        cfg: The contents of ``deploy.yaml``.
        model: The robot and its surroundings.
        data: Their state.
        commands: The robot's commands by name; may be changed at any time.
        last_action: The latest output of the policy, ``(num_actions,)``.
    """

    def __init__(
        self,
        directory: Path,
        mjcf: Path | None = None,
        motion: Path | None = None,
        terms: Path | None = None,
    ) -> None:
        """Load a folder that ``envlab export`` wrote.

        Args:
            directory: The folder with ``policy.onnx``.
            mjcf: Another model of the robot instead of ``scene.xml`` there.
            motion: Another clip to follow instead of ``motion.npz`` there.
            terms: A Python file with more functions as in :data:`TERMS`. It is run.

        Raises:
            DeployError: If something is missing, or model and policy do not fit.
        """
        self._terms: dict[str, Term] = {**TERMS, **(_read_terms(terms) if terms else {})}
        self._motion_file, self._is_other = motion or directory / "motion.npz", motion is not None
        with _within_limits(directory):
            self._session, self.cfg = open_policy(directory / "policy.onnx")
            try:
                self._build(mjcf or directory / "scene.xml")
                self._ends_in_time(directory)
            except _DAMAGE as error:
                raise DeployError(_damaged(directory, error)) from None

    def _build(self, mjcf: Path) -> None:
        _check_times(self.cfg)
        self.model, self._joints = _load_model(mjcf, self.cfg["joint_names"])
        self.data = mujoco.MjData(self.model)
        self._default = np.zeros(self.model.njnt)
        self._default[list(self._joints.values())] = self.cfg["default_joint_pos"]
        for name, term in self.cfg["observations"].items():
            if (func := term["func"].rpartition(":")[2]) not in self._terms:
                raise DeployError(
                    f"The policy observes {name!r}, which {term['func']} computes, and this player "
                    f"does not know it. Write 'def {func}(player, params)', which returns it as an "
                    "array, into a Python file of your own, and give that: --terms FILE."
                )
        self._actuators = {
            name: [
                _actuator(self.model, self._joints[joint], joint) for joint in term["joint_names"]
            ]
            for name, term in self.cfg["actions"].items()
        }
        num_actions = sum(map(len, self._actuators.values()))
        self.last_action: np.ndarray = np.zeros(num_actions, np.float32)
        self.commands: dict[str, np.ndarray] = {
            name: np.asarray(one["value"], float) for name, one in self.cfg["commands"].items()
        }
        self.model.opt.timestep = self.cfg["physics_dt"]
        self.motion: Motion | None = None
        for name, one in self.cfg["commands"].items():
            if one.get("motion") is not None:
                robot = self.model.body(self.cfg["root_body"]).id
                self.motion = Motion(self._motion_file, one["motion"], self.model, robot)
                self.motion.name = name
        if self.motion is None and self._is_other:
            raise DeployError("--motion is given, but this policy follows no motion.")
        self.reset()

    def _ends_in_time(self, directory: Path) -> None:
        """Refuse a policy whose first action does not end: a network may hold a loop."""
        import onnxruntime

        options = onnxruntime.RunOptions()
        timer = threading.Timer(FIRST_ACTION_S, lambda: setattr(options, "terminate", True))
        timer.start()
        try:
            self.act(options)
        except DeployError:
            if options.terminate:
                raise DeployError(
                    f"{directory}/policy.onnx has no action after {FIRST_ACTION_S:g} s, where a "
                    "policy takes a millisecond: it is damaged or malicious. Export it again."
                ) from None
            raise
        finally:
            timer.cancel()

    def reset(self, qpos: np.ndarray | None = None, qvel: np.ndarray | None = None) -> None:
        """Start again, in the initial pose of training's episodes or in a given state."""
        key = mujoco.mj_name2id(self.model, mujoco.mjtObj.mjOBJ_KEY, "home")
        mujoco.mj_resetDataKeyframe(self.model, self.data, key)  # -1: qpos0
        self.data.ctrl[:] = 0.0
        if self.motion is not None:
            self._start_motion(self.motion)
        if qpos is not None:
            self.data.qpos[:] = qpos
        if qvel is not None:
            self.data.qvel[:] = qvel
        self.last_action[:] = 0.0
        self._past: dict[str, list[np.ndarray]] = {}
        self._seen: dict[str, np.ndarray] = {}
        mujoco.mj_forward(self.model, self.data)

    def observe(self) -> np.ndarray:
        """Return the observation, float32 ``(num_obs,)``: each term clipped, then scaled.

        A term with a history is observed with its values in the steps before, the oldest first;
        before the first step, with the first value.
        """
        parts = []
        for name, term in self.cfg["observations"].items():
            values = np.atleast_1d(
                self._terms[term["func"].rpartition(":")[2]](self, term["params"])
            )
            if term["clip"] is not None:
                values = values.clip(*term["clip"])
            values = values * np.asarray(term["scale"])
            length = term.get("history_length", 1)
            if length > 1:
                self._seen[name] = values
                parts += self._past.get(name, [values] * (length - 1))
            parts.append(values)
        return np.concatenate(parts).astype(np.float32)

    def act(self, options: Any = None) -> np.ndarray:
        """Return the policy's action for the current state, ``(num_actions,)``.

        Args:
            options: Of onnxruntime, for this call.

        Raises:
            DeployError: If the policy does not take the observations.
        """
        obs = self.observe()[None]
        try:
            action: np.ndarray = self._session.run(["actions"], {"obs": obs}, options)[0][0]
        except Exception as error:  # onnxruntime has a separate exception for each problem
            raise DeployError(
                f"The policy does not take {obs.size} observations ({str(error).splitlines()[0]})."
            ) from None
        return action

    def step(self, action: np.ndarray) -> None:
        """Write controls ``clip(scale * action + offset)`` and let one control step pass.

        The offset of a relative action is its joints' positions at the beginning of the step.
        """
        self.last_action[:] = action
        for name, values in self._seen.items():
            length = self.cfg["observations"][name]["history_length"]
            self._past[name] = [*self._past.get(name, [values] * (length - 1)), values][1:]
        start = 0
        for name, term in self.cfg["actions"].items():
            own = action[start : start + len(term["joint_names"])]
            controls = own * np.float32(term["scale"]) + np.float32(term["offset"])
            if term["type"] == "RelativeJointPositionAction":
                controls += self.positions(term)
            if term["clip"] is not None:
                controls = controls.clip(*term["clip"])
            self.data.ctrl[self._actuators[name]] = controls
            start += len(own)
        for _ in range(self.cfg["decimation"]):
            mujoco.mj_step(self.model, self.data)
        mujoco.mj_step1(self.model, self.data)  # sensors of the state after the step
        if self.motion is not None:
            self.motion.advance()
            self.commands[self.motion.name] = self.motion.command(self._joint_columns())

    def _joint_columns(self) -> list[int]:
        """Return the columns of the policy's joints in a motion, whose joints are the model's."""
        assert self.motion is not None
        return [self.motion.joints.index(name) for name in self.cfg["joint_names"]]

    def _start_motion(self, motion: Motion) -> None:
        """Put the robot into the first frame; after a step it is compared with the next one."""
        motion.frame = 1
        position, orientation, velocity, turning = self.root()
        position[:] = motion.positions[0, motion.root]
        orientation[:] = motion.orientations[0, motion.root]
        velocity[:] = motion.velocities[0, motion.root]
        turning[:] = self.in_root(motion.turning[0, motion.root])
        for column, joint in enumerate(motion.joints):
            self.data.joint(joint).qpos = motion.joint_pos[0, column]
            self.data.joint(joint).qvel = motion.joint_vel[0, column]
        self.commands[motion.name] = motion.command(self._joint_columns())

    def anchor(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the motion's anchor in the frame of the robot's: position, and (w, x, y, z)."""
        motion = self.motion
        if motion is None:
            raise DeployError("The policy observes a motion, but none of its commands is one.")
        body = self.data.body(motion.anchor_name)
        inverse, offset, turn = np.zeros(4), np.zeros(3), np.zeros(4)
        mujoco.mju_negQuat(inverse, body.xquat)
        pos, quat = (
            values[motion.frame, motion.anchor]
            for values in (motion.positions, motion.orientations)
        )
        mujoco.mju_rotVecQuat(offset, pos - body.xpos, inverse)
        mujoco.mju_mulQuat(turn, inverse, quat)
        return offset, turn

    def turned(self) -> np.ndarray:
        """Return the first two columns of the anchor's rotation matrix, row by row."""
        matrix = np.zeros(9)
        mujoco.mju_quat2Mat(matrix, self.anchor()[1])
        return matrix.reshape(3, 3)[:, :2].ravel()

    # Parts of observations -----------------------------------------------------------------------

    def root(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the root's position, orientation (w, x, y, z), linear and angular velocity."""
        body = self.model.body(self.cfg["root_body"])
        start, dof = int(body.jntadr[0]), int(body.dofadr[0])
        start = int(self.model.jnt_qposadr[start])
        qpos, qvel = self.data.qpos[start : start + 7], self.data.qvel[dof : dof + 6]
        return qpos[:3], qpos[3:], qvel[:3], qvel[3:]

    def in_root(self, vector: np.ndarray) -> np.ndarray:
        """Return a vector of the world in the root's frame."""
        rotated, inverse = np.zeros(3), np.zeros(4)
        mujoco.mju_negQuat(inverse, self.root()[1])
        mujoco.mju_rotVecQuat(rotated, vector, inverse)
        return rotated

    def positions(self, params: dict[str, Any]) -> np.ndarray:
        """Return joint positions in the policy's order, in rad or m."""
        return self.data.qpos[self.model.jnt_qposadr[self._ids(params)]]

    def velocities(self, params: dict[str, Any]) -> np.ndarray:
        """Return joint velocities in the policy's order, in rad/s or m/s."""
        return self.data.qvel[self.model.jnt_dofadr[self._ids(params)]]

    def relative(self, params: dict[str, Any]) -> np.ndarray:
        """Return joint positions minus the default ones."""
        return self.positions(params) - self._default[self._ids(params)]

    def normalised(self, params: dict[str, Any]) -> np.ndarray:
        """Return joint positions relative to their ranges, from -1 to 1."""
        low, high = self.model.jnt_range[self._ids(params)].T
        return (2.0 * self.positions(params) - (low + high)) / (high - low)

    def _ids(self, params: dict[str, Any]) -> list[int]:
        """Return the model's indices of a term's joints: all, if it names none."""
        return [self._joints[name] for name in params.get("joint_names", self.cfg["joint_names"])]

    def base_lin_vel(self) -> np.ndarray:
        """Return the velocity of the root's centre of mass in the root's frame, in m/s."""
        _, _, velocity, turning = self.root()
        centre = self.model.body(self.cfg["root_body"]).ipos
        return self.in_root(velocity) + np.cross(turning, centre)

    def sensors(self, params: dict[str, Any]) -> np.ndarray:
        """Return the readings of named sensors."""
        return np.concatenate([self.data.sensor(name).data for name in params["sensor_names"]])

    def euler(self) -> tuple[float, float, float]:
        """Return the root's roll, pitch and yaw, in rad."""
        w, x, y, z = self.root()[1]
        roll = np.arctan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y))
        pitch = np.arcsin(np.clip(2.0 * (w * y - z * x), -1.0, 1.0))
        return roll, pitch, np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))

    def bearing(self, params: dict[str, Any]) -> float:
        """Return the turn that would face a point on the ground, in rad, in [-pi, pi)."""
        x, y = np.subtract(params["target_pos"][:2], self.root()[0][:2])
        turn = np.arctan2(y, x) - self.euler()[2]
        return float((turn + np.pi) % (2.0 * np.pi) - np.pi)

    def facing(self, params: dict[str, Any]) -> float:
        """Return the cosine of the angle between the root's forward axis and a point."""
        w, x, y, z = self.root()[1]
        forward = 1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z)
        way = np.subtract(params["target_pos"][:2], self.root()[0][:2])
        return float(np.dot(forward, way) / np.linalg.norm(way))


class Motion:
    """A clip in mjlab's layout: a reference for the robot, frame by frame.

    Attributes:
        name: Name of the command.
        frame: The current reference frame; the last one stays.
        joints: Names of the columns of ``joint_pos`` and ``joint_vel``.
        anchor: Column of the body to which the clip is relative.
        root: Column of the robot's root.
    """

    def __init__(self, path: Path, about: dict[str, Any], model: Any, robot: int) -> None:
        """Read a clip.

        Args:
            path: A ``.npz``.
            about: ``anchor`` and ``fps``, as in ``deploy.yaml``.
            model: The robot.
            robot: Its root.

        Raises:
            DeployError: If it is not a clip, or not of this robot.
        """
        self.name, self.frame, self.anchor_name = "", 1, str(about["anchor"])
        names = [model.body(b).name for b in range(model.nbody) if model.body_rootid[b] == robot]
        scalar = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))
        own = [model.joint(j).name for j in range(model.njnt) if model.jnt_type[j] in scalar]
        try:
            arrays = _arrays(path)
            self.joint_pos, self.joint_vel = arrays["joint_pos"], arrays["joint_vel"]
            self.positions, self.orientations = arrays["body_pos_w"], arrays["body_quat_w"]
            self.velocities, self.turning = arrays["body_lin_vel_w"], arrays["body_ang_vel_w"]
            fps = float(arrays["fps"].reshape(-1)[0])
        except (*_DAMAGE, *_BAD_ARCHIVE) as error:
            raise DeployError(f"{path} cannot be read as a motion ({error}).") from None
        self.joints = [str(name) for name in arrays.get("joint_names", own)]
        bodies = [str(name) for name in arrays.get("body_names", names)]
        if abs(fps - about["fps"]) > 1e-3:
            raise DeployError(
                f"{path} has {fps:g} frames per second, but the policy was trained with "
                f"{about['fps']:g}. Convert it: envlab motion convert FILE --output_fps "
                f"{about['fps']:g}."
            )
        widths = self.joint_pos.shape[1], self.positions.shape[1]
        if sorted(self.joints) != sorted(own) or widths != (len(own), len(bodies)):
            raise DeployError(
                f"{path} has {widths[0]} joints and {widths[1]} bodies, but the robot has "
                f"{len(own)} and {len(names)}, or they have other names. Give a clip of it."
            )
        has_names = "joint_names" in arrays or "body_names" in arrays
        if not has_names and _misfit(self, model, robot, own, names) > 0.03:
            raise DeployError(
                f"{path} names no joints, and has them in another order than MuJoCo. Convert it: "
                "envlab motion convert FILE --output NEW"
            )
        wanted = self.anchor_name, names[0]
        if missing := [name for name in wanted if name not in bodies]:
            raise DeployError(f"{path} lacks the body {missing[0]!r}.")
        self.anchor, self.root = (bodies.index(name) for name in wanted)

    def advance(self) -> None:
        """Go to the next frame, if there is one."""
        self.frame = min(self.frame + 1, len(self.joint_pos) - 1)

    def command(self, columns: Sequence[int]) -> np.ndarray:
        """Return the positions, then the velocities, of the joints in ``columns``."""
        rows = (values[self.frame, columns] for values in (self.joint_pos, self.joint_vel))
        return np.concatenate(list(rows))


def _arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a clip, if it is a file of a reasonable size, unpacked."""
    if not path.is_file():
        raise DeployError(f"There is no motion {path}. Give a .npz with --motion.")
    with zipfile.ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    if size > MOST_MOTION_BYTES:
        raise DeployError(f"{path} unpacks to {size} bytes; {MOST_MOTION_BYTES} are allowed.")
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def _misfit(motion: Motion, model: Any, robot: int, joints: list[str], bodies: list[str]) -> float:
    """Return the mean distance of a clip's bodies from where its joints lead, in m."""
    data, start = mujoco.MjData(model), int(model.jnt_qposadr[model.body_jntadr[robot]])
    ids = [model.body(name).id for name in bodies]
    distances = []
    for frame in (0, len(motion.joint_pos) // 2, -1):
        data.qpos[start : start + 3] = motion.positions[frame, 0]
        data.qpos[start + 3 : start + 7] = motion.orientations[frame, 0]
        for name, value in zip(joints, motion.joint_pos[frame], strict=True):
            data.joint(name).qpos[:] = value
        mujoco.mj_kinematics(model, data)
        distances.append(np.linalg.norm(data.xpos[ids] - motion.positions[frame], axis=1))
    return float(np.mean(distances))


Term = Callable[[Player, dict[str, Any]], Any]
"""An observation: a function of the player and the term's parameters."""
TERMS: dict[str, Term] = {
    "base_pos_z": lambda player, _: player.root()[0][2],
    "base_lin_vel": lambda player, _: player.base_lin_vel(),
    "base_ang_vel": lambda player, _: player.root()[3],
    "projected_gravity": lambda player, _: player.in_root(np.array([0.0, 0.0, -1.0])),
    "generated_commands": lambda player, params: player.commands[params["command_name"]],
    "joint_pos": Player.positions,
    "joint_pos_rel": Player.relative,
    "joint_pos_limit_normalized": Player.normalised,
    "joint_vel": Player.velocities,
    "joint_vel_rel": Player.velocities,
    "last_action": lambda player, _: player.last_action,
    "sensor": Player.sensors,
    "base_yaw_roll": lambda player, _: np.array(player.euler())[[2, 0]],
    "base_angle_to_target": Player.bearing,
    "base_up_proj": lambda player, _: 1.0 - 2.0 * np.square(player.root()[1][1:3]).sum(),
    "base_heading_proj": Player.facing,
    "motion_anchor_pos_b": lambda player, _: player.anchor()[0],
    "motion_anchor_ori_b": lambda player, _: player.turned(),
}
"""Observations by the name of the function that computed them in training."""


def _read_terms(path: Path) -> dict[str, Term]:
    """Return the functions of a Python file by name.

    Raises:
        DeployError: If it cannot be run; later, if one of them fails.
    """

    def guarded(name: str, term: Term) -> Term:
        def call(player: Player, params: dict[str, Any]) -> Any:
            try:
                return term(player, params)
            except Exception as error:
                raise DeployError(
                    f"{name}(player, params) of {path} failed ({type(error).__name__}: {error}). "
                    f"Correct it; params are {params}."
                ) from error

        return call

    try:
        found = runpy.run_path(str(path))
    except Exception as error:
        raise DeployError(
            f"--terms is {path}, which cannot be run ({type(error).__name__}: {error}). Give a "
            "Python file with a function for each observation of your own."
        ) from error
    return {name: guarded(name, one) for name, one in found.items() if inspect.isfunction(one)}


@contextlib.contextmanager
def _within_limits(directory: Path) -> Iterator[None]:
    """Keep files that are made to fill the memory from doing so, where the system can.

    Raises:
        DeployError: If they would.
    """
    try:
        import resource

        with open("/proc/self/statm") as file:
            now = int(file.read().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):  # not on Linux
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = [now + MOST_BYTES, *(one for one in (soft, hard) if one != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_AS, (min(most), hard))
    try:
        yield
    except MemoryError:
        raise DeployError(
            f"The files in {directory} take more than {MOST_BYTES / 2**30:g} GiB of memory, and a "
            "robot's take a hundredth: they are damaged or malicious. Export them again."
        ) from None
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _say(text: str, **options: Any) -> None:
    """Print text of files, in which escape sequences must not reach the terminal."""
    kept = (c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)
    print("".join(kept), **options)


def _damaged(directory: Path, error: Exception) -> str:
    return (
        f"The metadata of {directory}/policy.onnx is damaged ({type(error).__name__}: {error}). "
        "Export it again: envlab export LIBRARY --task ID."
    )


def _check_times(cfg: dict[str, Any]) -> None:
    """Raise ValueError for times with which no robot could be controlled."""
    for name in ("step_dt", "physics_dt"):
        if not 0.0 < cfg[name] < float("inf"):
            raise ValueError(f"{name} is {cfg[name]}, but must be above 0, and finite")
    count = cfg["decimation"]
    if type(count) is not int or not 1 <= count <= MOST_SUBSTEPS:
        raise ValueError(f"decimation is {count!r}, but must be from 1 to {MOST_SUBSTEPS}")


def open_policy(path: Path) -> tuple[Any, dict[str, Any]]:
    """Return a network's session, and its description."""
    try:
        import onnxruntime
    except ImportError as error:
        raise DeployError(
            f"onnxruntime cannot be imported ({error}). Install it: pip install onnxruntime."
        ) from None
    if not path.is_file():
        raise DeployError(
            f"There is no {path}. Give the folder that 'envlab export' or 'envlab play' wrote, "
            "such as logs/rsl_rl/.../exported."
        )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
        cfg = json.loads(session.get_modelmeta().custom_metadata_map["deploy"])
    except KeyError:
        if more := [one.name for one in session.get_inputs() if one.name != "obs"]:
            raise DeployError(
                f"{path} needs {', '.join(more)} in addition to obs, but this player has neither a "
                "camera nor a memory. Run it in your own controller."
            ) from None
        raise DeployError(
            f"{path} has no metadata, so the meaning of its inputs and outputs is unknown. Export "
            "it again with this envlab, which reports if a task cannot be described: envlab export "
            "LIBRARY --task ID."
        ) from None
    except Exception as error:  # onnxruntime has a separate exception for each kind of damage
        raise DeployError(f"{path} cannot be read: {str(error).splitlines()[0]}") from None
    return session, cfg


def _load_model(path: Path, names: Sequence[str]) -> tuple[Any, dict[str, int]]:
    """Return the robot's model, and the index in it of each of the policy's joints."""
    if not path.is_file():
        raise DeployError(f"There is no model {path}. Give the robot's MJCF: --mjcf FILE.")
    try:
        _check_size(ElementTree.fromstring(path.read_bytes()))
        model = mujoco.MjModel.from_xml_path(str(path))
    except (OSError, ValueError, RuntimeError, ElementTree.ParseError) as error:
        raise DeployError(f"MuJoCo refuses {path}: {str(error).splitlines()[0]}") from None
    found = {name: mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, name) for name in names}
    missing = [name for name, joint in found.items() if joint < 0]
    if missing:
        has = [model.joint(joint).name for joint in range(model.njnt)]
        raise DeployError(
            f"{path} has no joint {', '.join(missing)}, which deploy.yaml names; it has "
            f"{', '.join(filter(None, has)) or 'none'}. Give the MJCF of the robot that was "
            "trained, or rename its joints."
        )
    return model, found


def _check_size(model: ElementTree.Element) -> None:
    """Raise ValueError for a model that MuJoCo would build for hours, or that fills the memory.

    MuJoCo is not asked: where its memory ends, it leaves a lock taken.
    """
    if (copies := _copies(model)) > MOST_COPIES:
        raise ValueError(f"it has {copies} copies of a part, and may have {MOST_COPIES}")
    for part in model.iter():
        for names in (("nrow", "ncol"), ("width", "height")):
            words = [part.get(name, "0") for name in names]
            cells = math.prod(int(word) if word.isdecimal() else 0 for word in words)
            if cells > MOST_CELLS:
                raise ValueError(f"a {part.tag} has {cells} cells, and may have {MOST_CELLS}")


def _copies(part: ElementTree.Element) -> int:
    """Return how often a model has its most frequent part, by the counts around it."""
    words = part.get("count", "1").split()
    counts = [int(word) for word in words if word.isdecimal()]
    return math.prod(counts) * max(map(_copies, part), default=1)


def _actuator(model: Any, joint: int, name: str) -> int:
    """Return the actuator that drives a joint."""
    is_joints = model.actuator_trntype == mujoco.mjtTrn.mjTRN_JOINT
    found = np.flatnonzero(is_joints & (model.actuator_trnid[:, 0] == joint))
    if len(found) != 1:
        raise DeployError(
            f"The model has {len(found)} actuators on the joint {name}, but the policy drives it "
            "by one. Give it one, with the gains that deploy.yaml names."
        )
    return int(found[0])


def open_window(model: Any, data: Any, **options: Any) -> Any:
    """Return MuJoCo's window, with the options of ``mujoco.viewer.launch_passive``.

    Without a display, that function ends the whole process, so a small window is opened first. The
    camera follows a robot that is free to move; Tab shows MuJoCo's panels.

    Raises:
        DeployError: If no window can be opened.
    """
    try:
        import glfw
        import mujoco.viewer

        with warnings.catch_warnings(action="error"):  # GLFW reports failures as warnings
            glfw.init()
            glfw.window_hint(glfw.VISIBLE, glfw.FALSE)
            glfw.create_window(1, 1, "", None, None)
            glfw.terminate()
    except Exception as error:  # display, driver and package have different exceptions
        raise DeployError(f"No window can be opened ({error}).") from None
    hidden = {"show_left_ui": False, "show_right_ui": False}
    window = mujoco.viewer.launch_passive(model, data, **hidden, **options)
    mujoco.mjv_defaultFreeCamera(model, window.cam)  # MuJoCo 4.0's own looks at the origin
    if model.jnt_type[0] == mujoco.mjtJoint.mjJNT_FREE:  # it would walk out of the picture
        window.cam.type = mujoco.mjtCamera.mjCAMERA_TRACKING
        window.cam.trackbodyid = model.jnt_bodyid[0]
    return window


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a policy and print where it went; bad input is one sentence and exit code 2."""
    parser = argparse.ArgumentParser(prog="envlab deploy", description="Run an exported policy.")
    beside = Path(__file__).parent
    parser.add_argument(
        "directory", nargs="?", type=Path, metavar="DIRECTORY",
        default=beside if (beside / "policy.onnx").is_file() else Path("exported"),
        help="what 'envlab export' wrote (default: exported)",
    )  # fmt: skip
    parser.add_argument("--mjcf", type=Path, metavar="FILE", help="model (default: its scene.xml)")
    parser.add_argument("--seconds", type=float, default=10.0, metavar="S", help="default: 10")
    parser.add_argument("--command", type=float, nargs="+", metavar="X", help="the robot's command")
    parser.add_argument("--motion", type=Path, metavar="FILE", help="clip that it is to follow")
    parser.add_argument("--terms", type=Path, metavar="FILE", help="Python file of more terms")
    parser.add_argument("--viewer", action="store_true", help="show it, in real time")
    flags = parser.parse_args(arguments)
    try:
        if not 0.0 < flags.seconds < float("inf"):
            raise DeployError(f"--seconds is {flags.seconds:g}, but must be above 0, and finite.")
        player = Player(flags.directory, flags.mjcf, flags.motion, flags.terms)
        for name, value in player.commands.items():
            if player.motion is not None and name == player.motion.name:
                continue  # derived from the frame
            if flags.command is not None and len(flags.command) != len(value):
                raise DeployError(
                    f"--command has {len(flags.command)} numbers, but the command {name!r} has "
                    f"{len(value)}, such as {' '.join(f'{one:g}' for one in value)}."
                )
            player.commands[name] = np.asarray(flags.command or value, float)
        try:
            _run(player, flags.seconds, flags.viewer)
        except _DAMAGE as error:
            raise DeployError(_damaged(flags.directory, error)) from None
    except DeployError as error:
        _say(f"Error: {error}", file=sys.stderr)
        return 2
    return 0


def _run(player: Player, seconds: float, shows: bool) -> None:
    viewer = open_window(player.model, player.data) if shows else None
    root = player.cfg["root_body"]
    start = np.zeros(3) if root is None else player.root()[0].copy()
    step_dt, steps = player.cfg["step_dt"], 0
    while steps < max(1, round(seconds / step_dt)) and (viewer is None or viewer.is_running()):
        began = time.monotonic()
        player.step(player.act())
        steps += 1
        if viewer is not None:
            viewer.sync()
            time.sleep(max(0.0, step_dt - (time.monotonic() - began)))
    _say(f"{player.cfg['task']}: {steps} steps, {steps * step_dt:.1f} s")
    if player.motion is not None:
        anchor = np.linalg.norm(player.anchor()[0])
        _say(f"The {player.motion.anchor_name} is {anchor:.2f} m from where the motion has it")
    for name, value in player.commands.items():
        if player.motion is not None and name == player.motion.name:
            continue
        _say(f"Command {name}: {' '.join(f'{one:g}' for one in value)}")
    if root is not None:
        way = np.linalg.norm(player.root()[0][:2] - start[:2])
        _say(f"The {root} went {way:.2f} m and is at a height of {player.root()[0][2]:.2f} m")


if __name__ == "__main__":
    sys.exit(main())
