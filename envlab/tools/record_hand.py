"""``envlab record hand``: episodes that a person steers in the viewer, in HDF5.

Pushes of axes become actions of a task's robot.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

import torch

from envlab.config import Override, compose, merge
from envlab.distributed.context import DistributedContext
from envlab.envs import ManagerEnv
from envlab.envs.managers.action import ActionTerm, ActionTermCfg
from envlab.envs.managers.recorder import RecorderManager, RecorderManagerBaseCfg
from envlab.envs.managers.term import terms_of
from envlab.envs.math import quat_box_minus, quat_from_rotation_vector, quat_mul
from envlab.envs.mdp.actions import JointAction, JointPositionActionCfg
from envlab.envs.mdp.ik_actions import DifferentialInverseKinematicsAction
from envlab.envs.mdp.joint_actions import BinaryJointAction
from envlab.errors import ConfigurationError
from envlab.registry import load_env_cfg
from envlab.task import Task
from envlab.training.flags import Flags
from envlab.training.plan import without_recorders
from envlab.training.viewing import NUM_AXES, Handles, HandViewer, check_viewing, start_viewing

SPEED, TURN = 0.25, 1.0
"""Of a frame whose axis is pushed all the way, in m/s and rad/s."""
JOINT_SPEED = 0.6
"""Of a joint, in rad/s, or m/s."""
LEAD, TURN_LEAD, JOINT_LEAD = 0.1, 0.5, 0.3
"""How far a goal may be from where the robot is, in m, rad, and rad or m."""


class Hand:
    """Moves goals of environment 0's action terms as a person pushes, and closes its gripper."""

    def __init__(self, env: ManagerEnv, task_id: str) -> None:
        """Find the terms.

        Raises:
            ConfigurationError: If a person cannot move one of them, or these are too many axes.
        """
        self._parts = {
            name: _part_of(env, name, cfg, task_id)
            for name, cfg in terms_of(env.cfg.actions, ActionTermCfg).items()
        }
        axes = tuple(axis for part in self._parts.values() for axis in part.axes)
        if not 1 <= len(axes) <= NUM_AXES:
            raise ConfigurationError(
                f"The actions of {task_id} have {len(axes)} axes, but a hand moves 1 to {NUM_AXES} "
                "of them. Name a task of one arm."
            )
        is_gripper = [isinstance(part, _Gripper) for part in self._parts.values()]
        self.handles = Handles(axes=axes, has_gripper=any(is_gripper))
        self.is_closed = False
        """Whether grippers close."""

    def restart(self) -> None:
        """Begin where the robot is, with an open gripper."""
        self.is_closed = False
        for part in self._parts.values():
            part.restart()

    def act(self, pushes: Sequence[float]) -> torch.Tensor:
        """Return the actions of a step, ``(1, num_actions)``.

        Args:
            pushes: How far each of the handles' axes is pushed, -1 to 1; empty: none is.
        """
        pushed = torch.tensor(pushes or [0.0] * len(self.handles.axes))
        actions, start = [], 0
        for part in self._parts.values():
            end = start + len(part.axes)
            actions.append(part.act(pushed[start:end], self.is_closed))
            start = end
        return torch.cat(actions, dim=1)


class _Part(Protocol):
    """An action term that a person moves."""

    axes: tuple[str, ...]

    def restart(self) -> None: ...

    def act(self, pushes: torch.Tensor, is_closed: bool) -> torch.Tensor: ...


class _Frame:
    """A frame's pose; pushes are velocities along and about the axes of the robot's base."""

    def __init__(self, env: ManagerEnv, term: DifferentialInverseKinematicsAction) -> None:
        self._env, self._term = env, term
        moves, turns = ("x", "y", "z"), ("roll", "pitch", "yaw")
        self.axes = moves + (turns if term.turns else ())

    def restart(self) -> None:
        pos, quat = self._term.pose()
        self._pos, self._quat = pos.clone(), quat.clone()

    def act(self, pushes: torch.Tensor, is_closed: bool) -> torch.Tensor:
        pos, quat = self._term.pose()
        pushes, step = pushes.to(pos.device), self._env.step_dt
        move = self._pos + SPEED * step * pushes[:3] - pos
        self._pos = pos + _shortened(move, LEAD)
        if len(self.axes) > 3:
            turned = quat_mul(quat_from_rotation_vector(TURN * step * pushes[None, 3:]), self._quat)
            lead = _shortened(quat_box_minus(turned, quat), TURN_LEAD)
            self._quat = quat_mul(quat_from_rotation_vector(lead), quat)
        return self._term.actions_to(self._pos, self._quat)


class _Joints:
    """Target positions of joints; pushes are their velocities."""

    def __init__(self, env: ManagerEnv, term: JointAction) -> None:
        described = term.describe()
        assert described is not None, "targets of positions are constant"
        self._env, self._ids = env, term.joints.qpos_ids
        self.axes = tuple(described["joint_names"])
        self._scale, self._offset = (
            torch.tensor([described[name]], device=env.device) for name in ("scale", "offset")
        )
        model = env.sim.model
        ranges = [
            model.joint(name).range if model.joint(name).limited[0] else (-torch.inf, torch.inf)
            for name in self.axes
        ]
        self._low, self._high = torch.tensor(
            [tuple(map(float, ends)) for ends in ranges], device=env.device
        ).T

    def restart(self) -> None:
        self._targets = self._env.sim.data.qpos[:, self._ids].clone()

    def act(self, pushes: torch.Tensor, is_closed: bool) -> torch.Tensor:
        now = self._env.sim.data.qpos[:, self._ids]
        targets = self._targets + JOINT_SPEED * self._env.step_dt * pushes.to(now.device)
        targets = targets.clamp(now - JOINT_LEAD, now + JOINT_LEAD)
        self._targets = targets.clamp(self._low, self._high)
        return (self._targets - self._offset) / self._scale


class _Gripper:
    """Joints that open or close together."""

    axes: tuple[str, ...] = ()

    def __init__(self, env: ManagerEnv, term: BinaryJointAction) -> None:
        ends = torch.tensor([[1.0], [-1.0]], device=env.device)
        closes = term.is_closed(ends)
        self._open, self._closed = ends[~closes][:1, None], ends[closes][:1, None]

    def restart(self) -> None: ...

    def act(self, pushes: torch.Tensor, is_closed: bool) -> torch.Tensor:
        return self._closed if is_closed else self._open


def _part_of(env: ManagerEnv, name: str, cfg: ActionTermCfg, task_id: str) -> _Part:
    term: ActionTerm = env.action_manager.get_term(name)
    if isinstance(term, DifferentialInverseKinematicsAction):
        return _Frame(env, term)
    if isinstance(term, JointAction) and isinstance(cfg, JointPositionActionCfg):
        return _Joints(env, term)
    if isinstance(term, BinaryJointAction):
        return _Gripper(env, term)
    raise ConfigurationError(
        f"env.actions.{name} of {task_id} is a {type(cfg).__name__.removesuffix('Cfg')}, but a "
        "hand moves poses by inverse kinematics, joint positions, and grippers that open or close. "
        "Name another task, such as Isaac-Reach-Franka-IK-Rel-v0."
    )


def _shortened(vectors: torch.Tensor, longest: float) -> torch.Tensor:
    """Return vectors of at most that length, ``(num_envs, 3)``."""
    lengths = vectors.norm(dim=1, keepdim=True)
    return vectors * (longest / lengths.clamp(min=longest))


LENGTH_S = 60.0
"""Time limit of an episode by hand, where the task's is shorter; overrides win."""


class KeptEpisodes(RecorderManager):
    """Writes the episodes that :meth:`keep` is called in, and no others."""

    def record_pre_reset(self, mask: torch.Tensor, success: torch.Tensor | None = None) -> None:
        """Write no episode: the task has ended one that the person did not keep."""

    def keep(self) -> bool:
        """Write the episode so far; return whether it succeeded, or True if nothing measures it."""
        everywhere = torch.ones(1, dtype=torch.bool)
        measured = self._env.success
        super().record_pre_reset(everywhere, everywhere if measured is None else None)
        return measured is None or bool(measured[0] > 0.5)


def make_env(task: Task, flags: Flags, overrides: Sequence[Override]) -> ManagerEnv:
    """Return one environment, which leaves a person time.

    Raises:
        ConfigurationError: For a task that is not manager-based, or several environments.
    """
    if flags.num_envs not in (None, 1):
        raise ConfigurationError(
            f"--num_envs={flags.num_envs}, but a hand moves one robot. Leave it out."
        )
    if flags.viz is None:
        raise ConfigurationError(
            "--viz is none, but a hand steers in the viewer. Leave it out, or use --viz web."
        )
    cfg = load_env_cfg(task)
    length_s = max(LENGTH_S, cfg.episode_length_s)
    cfg = merge(cfg, {"scene": {"num_envs": 1}, "episode_length_s": length_s}, "env")
    cfg = without_recorders(compose({"env": cfg}, overrides)["env"])
    env = task.make(cfg, context=DistributedContext.single(flags.device), seed=flags.seed)
    if not isinstance(env, ManagerEnv):
        env.close()
        raise ConfigurationError(
            f"{task.id} is a {task.kind} task, but a hand moves actions of manager-based tasks. "
            "Name one, such as Isaac-Reach-Franka-IK-Rel-v0."
        )
    return env


def record_hand(
    task: Task, env: ManagerEnv, flags: Flags, cfg: RecorderManagerBaseCfg, num_episodes: int
) -> int:
    """Let a visitor steer, and return how many episodes were kept.

    Args:
        task: The task.
        env: Its environment.
        flags: The viewer's.
        cfg: What is recorded, and where.
        num_episodes: Ends after so many.
    """
    hand = Hand(env, task.id)
    check_viewing(flags, env)
    recorder = env.recorder_manager = KeptEpisodes(cfg, env)
    title = f"{task.id}, by hand"
    viewer = start_viewing(flags, env, title=title, is_played=True, handles=hand.handles)
    assert viewer is not None, "record hand has a viewer"
    try:
        with torch.inference_mode():
            _Session(env, hand, recorder, cast(HandViewer, viewer)).run(num_episodes)
    finally:
        viewer.close()
    return recorder.num_episodes


class _Session:
    """A person's session of recording, one step after the other."""

    def __init__(
        self, env: ManagerEnv, hand: Hand, recorder: KeptEpisodes, viewer: HandViewer
    ) -> None:
        self._env, self._hand, self._recorder, self._viewer = env, hand, recorder, viewer

    def run(self, num_episodes: int) -> None:
        self._restart(is_open=False)
        while self._viewer.is_open and self._recorder.num_episodes < num_episodes:
            _, _, terminated, truncated, _ = self._env.step(self._hand.act(self._viewer.pushes))
            self._num_steps += 1
            if bool((terminated | truncated)[0]):
                self._tell_end(is_time_out=bool(truncated[0]))
            self._viewer.label = self._label(num_episodes)
            self._viewer.after_step()
            self._do_as_asked()

    def _restart(self, *, is_open: bool) -> None:
        """Reset the scene, and begin an episode if it is open."""
        self._env.reset()
        self._begin(is_open=is_open)

    def _begin(self, *, is_open: bool) -> None:
        self._hand.restart()
        self._is_open, self._num_steps = is_open, 0

    def _do_as_asked(self) -> None:
        viewer = self._viewer
        if viewer.wants("grips"):
            self._hand.is_closed = not self._hand.is_closed
        if viewer.wants("kept") and self._is_open:
            succeeded = self._recorder.keep()
            number = self._recorder.num_episodes - 1
            told = "" if succeeded else "; the task does not call it a success"
            print(f"Kept demo_{number}: {self._num_steps} steps{told}", flush=True)
            self._restart(is_open=False)
        if viewer.wants("discarded"):
            if self._is_open:
                print(f"Discarded: {self._num_steps} steps", flush=True)
            self._restart(is_open=False)
        if viewer.wants("begun"):
            self._restart(is_open=True)

    def _tell_end(self, *, is_time_out: bool) -> None:
        """Say that the task has ended and reset the episode."""
        if self._is_open:
            why = "its time was over" if is_time_out else "the task ended it"
            print(f"Discarded, as {why}: {self._num_steps} steps", flush=True)
        self._begin(is_open=False)

    def _label(self, num_episodes: int) -> str:
        kept = f"{self._recorder.num_episodes} of {num_episodes} kept"
        if not self._is_open:
            return f"not recording · {kept}"
        success = self._env.success
        found = "" if success is None or success[0] <= 0.5 else " · success"
        return f"● recording {self._num_steps * self._env.step_dt:.1f} s{found} · {kept}"
