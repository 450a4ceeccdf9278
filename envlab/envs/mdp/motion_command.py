"""A motion for a robot to follow: a command that plays clips, and resets robots into them.

It follows mjlab 1.6.0's ``MotionCommand`` and BeyondMimic (arXiv 2508.08241). Differs from mjlab:

- Bodies are compared with the reference at the robot's current anchor; in mjlab, at the previous.
- After a reset to frame ``k``, the state after one step is compared with frame ``k + 1``; in mjlab,
  where a clip ends within an episode, with frame ``k``.
- There may be several clips, with weights. Failures of all processes are counted together, and an
  environment's draws do not depend on the number of processes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import mujoco
import numpy as np
import torch

from envlab.config import PositiveFloat, PositiveInt, UnitInterval
from envlab.envs.entities import ALL, SceneEntityCfg, columns, resolve_entity
from envlab.envs.managers.command import CommandTerm, CommandTermCfg
from envlab.envs.markers import add_body
from envlab.envs.masks import assign
from envlab.envs.math import (
    quat_apply,
    quat_apply_inverse,
    quat_difference,
    quat_error_magnitude,
    quat_from_angles,
    quat_mul,
    yaw_quat,
)
from envlab.envs.mdp._motion_bins import MotionBins, clip_weights
from envlab.envs.mdp._motion_reference import Reference, fitting_clip, sources_of
from envlab.envs.mdp.events import six_ranges, soft_joint_limits
from envlab.envs.random import RandomStream
from envlab.errors import ConfigurationError, did_you_mean
from envlab.motion import MotionClip
from envlab.sim.host import on_host
from envlab.sim.recording import between_graphs
from envlab.state import State

if TYPE_CHECKING:
    from envlab.envs.vector_env import VectorEnv

_ERRORS = (
    *("error_anchor_pos", "error_anchor_rot", "error_anchor_lin_vel", "error_anchor_ang_vel"),
    *("error_body_pos", "error_body_rot", "error_body_lin_vel", "error_body_ang_vel"),
    *("error_joint_pos", "error_joint_vel"),
)
_GHOST = (0.4, 0.75, 0.45, 0.35)
"""Colour of the reference in pictures."""
_SAMPLING = ("sampling_entropy", "sampling_top1_prob", "sampling_top1_bin")


@dataclass(kw_only=True)
class MotionCommandCfg(CommandTermCfg):
    """Clips, and the start of episodes in them.

    Needs ``xpos``, ``xquat``, ``cvel`` and ``subtree_com`` in ``env.sim.data_fields``.
    """

    resampling_time_range: tuple[float, float] = (1.0e9, 1.0e9)
    """A clip is followed to its end; then another frame is drawn."""
    asset_name: str = "robot"
    """The robot."""
    motion_file: str | list[str]
    """Clips: paths, or ``package:path``; see :mod:`envlab.motion.files`."""
    motion_weights: list[float] | None = None
    """How often each clip is drawn, in addition to its length; null: all alike."""
    anchor_body_name: str
    """Body by which the reference is placed relative to the robot."""
    body_names: list[str]
    """Bodies that are compared."""
    pose_range: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Bounds of offsets of the root at a reset: ``x``, ``y``, ``z`` in m, ``roll``, ``pitch``,
    ``yaw`` in rad, in the world frame."""
    velocity_range: dict[str, tuple[float, float]] = field(default_factory=dict)
    """The same of its velocity, in m/s and rad/s."""
    joint_position_range: tuple[float, float] = (-0.52, 0.52)
    """Bounds of offsets of joints at a reset, in rad, within their soft limits."""
    soft_limit_factor: UnitInterval = 0.9
    """Share of a joint's range within which a reset puts it."""
    sampling_mode: Literal["adaptive", "uniform", "start"] = "adaptive"
    """Start of episodes in a clip: more often where they failed, anywhere, or at its start."""
    adaptive_kernel_size: PositiveInt = 1
    """Bins of about a second, from that of a failure backwards, that are drawn more often."""
    adaptive_lambda: UnitInterval = 0.8
    """Decay of the share of each earlier bin of the kernel."""
    adaptive_uniform_ratio: PositiveFloat = 0.1
    """Failures added in total, spread evenly over the bins."""
    adaptive_alpha: float = 0.001
    """Weight of a step's failures in their moving average."""

    def build(self, env: VectorEnv) -> MotionCommand:
        return MotionCommand(self, env)


class MotionCommand(CommandTerm):
    """The term of a :class:`MotionCommandCfg`: the reference's joint positions, then velocities.

    Attributes:
        clips: The clips, in the order of the configuration, at the environment's rate.
        frames: Each environment's frame, in the concatenation of all clips, int64
            ``(num_envs,)``.
        bin_failed_count: Moving average of the failures in each bin, ``(num_bins,)``.
    """

    STATE = State(
        per_env=("frames", "_ends"),
        shared=("bin_failed_count",),  # of all ranks
        of_rank=("_failed_now",),  # zero after a step
    )
    TRACKED = MappingProxyType(
        {
            **{"mpkpe": "m", "r_mpkpe": "m", "joint_vel_error": "rad/s"},
            **{"ee_pos_error": "m", "ee_ori_error": "rad"},
        }
    )
    cfg: MotionCommandCfg
    is_drawn_when_due = False

    def __init__(self, cfg: MotionCommandCfg, env: VectorEnv) -> None:
        super().__init__(cfg, env)
        self._check()
        model, device = env.sim.model, env.device
        self._robot = resolve_entity(SceneEntityCfg(cfg.asset_name), model, device)
        self.clips = [fitting_clip(source, env) for source in sources_of(cfg.motion_file)]
        root = model.body(self._robot.root_body).name
        bodies = list(cfg.body_names)
        for clip in self.clips:
            self._check_bodies(clip, root)
        self._body_ids = torch.tensor([model.body(name).id for name in bodies], device=device)
        self._anchor = bodies.index(cfg.anchor_body_name)
        self._reference = Reference(self.clips, bodies, root, device)
        weights = clip_weights(cfg.motion_weights, len(self.clips))
        kernel = cfg.adaptive_lambda ** np.arange(cfg.adaptive_kernel_size)
        self.bins = MotionBins(
            self.clips, weights, kernel, cfg.adaptive_uniform_ratio, env.step_dt, device
        )
        self.frames = torch.zeros(env.num_envs, dtype=torch.int64, device=device)
        lengths = torch.tensor([clip.num_frames for clip in self.clips], device=device)
        self._clip_ends = lengths.cumsum(0)  # in the concatenation
        self._ends = torch.ones_like(self.frames)
        self.bin_failed_count = torch.zeros(self.bins.num, device=device)
        self._failed_now = torch.zeros_like(self.bin_failed_count)
        self._stream_of_ends = env.random.stream("commands.motion.over")
        self.limits = soft_joint_limits(env, cfg.soft_limit_factor, self._robot)
        self._columns: dict[tuple[str, ...], torch.Tensor] = {}
        self._over: torch.Tensor | None = None
        """Environments whose clip has ended in this step within an episode."""
        robot = self._robot
        self._qpos_ids = _joined(
            (robot.root_pos, robot.root_quat, robot.qpos_ids), model.nq, device
        )
        self._qvel_ids = _joined(
            (robot.root_lin_vel, robot.root_ang_vel, robot.qvel_ids), model.nv, device
        )
        self._covers_all = len(self._qpos_ids) == model.nq
        self._moves = 0
        self.command = torch.zeros(env.num_envs, 2 * len(self._robot.joint_names), device=device)
        sums = self.make_metrics(*_ERRORS, *_SAMPLING)
        self._errors, self._sampling = sums.split((len(_ERRORS), len(_SAMPLING)))

    @property
    def clip_names(self) -> list[str]:
        """Names of the clips' files without their endings; dots are underscores."""
        return [
            PurePath(source).stem.replace(".", "_") for source in sources_of(self.cfg.motion_file)
        ]

    @property
    def clip_numbers(self) -> torch.Tensor:
        """Number of each environment's clip, int64 ``(num_envs,)``."""
        return torch.bucketize(self.frames, self._clip_ends, right=True)

    # The reference ------------------------------------------------------------------------------

    @property
    def joint_pos(self) -> torch.Tensor:
        """Joint positions of the reference, ``(num_envs, num_joints)``."""
        return self._joints()[0]

    @property
    def joint_vel(self) -> torch.Tensor:
        """Joint velocities of the reference."""
        return self._joints()[1]

    @property
    def body_pos_w(self) -> torch.Tensor:
        """Bodies of the reference, in m, from the world's origin, ``(num_envs, num_bodies, 3)``."""
        origins = self.env.env_origins.unsqueeze(1)
        return self.once("body_pos_w", lambda: self._bodies()[..., :3] + origins)

    @property
    def body_quat_w(self) -> torch.Tensor:
        """Orientations of the reference's bodies, ``(num_envs, num_bodies, 4)``."""
        return self._bodies()[..., 3:7]

    @property
    def body_lin_vel_w(self) -> torch.Tensor:
        """Velocities of the reference's bodies, in m/s, ``(num_envs, num_bodies, 3)``."""
        return self._bodies()[..., 7:10]

    @property
    def body_ang_vel_w(self) -> torch.Tensor:
        """Angular velocities of the reference's bodies, in rad/s."""
        return self._bodies()[..., 10:]

    @property
    def anchor_pos_w(self) -> torch.Tensor:
        """The reference's anchor, in m, ``(num_envs, 3)``."""
        return self.body_pos_w[:, self._anchor]

    @property
    def anchor_quat_w(self) -> torch.Tensor:
        """Orientation of the reference's anchor, ``(num_envs, 4)``."""
        return self.body_quat_w[:, self._anchor]

    @property
    def body_pos_relative_w(self) -> torch.Tensor:
        """Positions of the reference's bodies if its anchor were above or below the robot's.

        It is moved horizontally and turned about the vertical, ``(num_envs, num_bodies, 3)``.
        """
        return self.once("relative", self._compute_relative)[0]

    @property
    def body_quat_relative_w(self) -> torch.Tensor:
        """Orientations of the reference's bodies if its anchor had the heading of the robot's.

        ``(num_envs, num_bodies, 4)``.
        """
        return self.once("relative", self._compute_relative)[1]

    # The robot ----------------------------------------------------------------------------------

    @property
    def robot_joint_pos(self) -> torch.Tensor:
        """Joint positions of the robot, ``(num_envs, num_joints)``."""
        return columns(self.env.sim.data.qpos, self._robot.qpos_ids)

    @property
    def robot_joint_vel(self) -> torch.Tensor:
        """Joint velocities of the robot."""
        return columns(self.env.sim.data.qvel, self._robot.qvel_ids)

    @property
    def robot_body_pos_w(self) -> torch.Tensor:
        """Bodies of the robot, in m, ``(num_envs, num_bodies, 3)``."""
        return self.once("pos", lambda: self.env.sim.data.xpos[:, self._body_ids])

    @property
    def robot_body_quat_w(self) -> torch.Tensor:
        """Orientations of the robot's bodies, ``(num_envs, num_bodies, 4)``."""
        return self.once("quat", lambda: self.env.sim.data.xquat[:, self._body_ids])

    @property
    def robot_body_lin_vel_w(self) -> torch.Tensor:
        """Velocities of the robot's bodies, at their origins, in m/s, world frame."""
        return self.once("velocity", self._body_velocities)[..., :3]

    @property
    def robot_body_ang_vel_w(self) -> torch.Tensor:
        """Angular velocities of the robot's bodies, in rad/s, world frame."""
        return self.once("velocity", self._body_velocities)[..., 3:]

    @property
    def robot_anchor_pos_w(self) -> torch.Tensor:
        """The robot's anchor, in m, ``(num_envs, 3)``."""
        return self.robot_body_pos_w[:, self._anchor]

    @property
    def robot_anchor_quat_w(self) -> torch.Tensor:
        """Orientation of the robot's anchor, ``(num_envs, 4)``."""
        return self.robot_body_quat_w[:, self._anchor]

    # Errors, which terms share ------------------------------------------------------------------

    @property
    def anchor_pos_error(self) -> torch.Tensor:
        """From the robot's anchor to the reference's, in m, ``(num_envs, 3)``."""
        return self.once("anchor_pos_error", lambda: self.anchor_pos_w - self.robot_anchor_pos_w)

    @property
    def body_pos_error(self) -> torch.Tensor:
        """From bodies to those of the reference at the robot's anchor, in m."""
        return self.once("body_pos_error", lambda: self.body_pos_relative_w - self.robot_body_pos_w)

    @property
    def anchor_angle(self) -> torch.Tensor:
        """Between the robot's anchor and the reference's, in rad, ``(num_envs,)``."""
        return self._angles()[:, -1]

    @property
    def body_angles(self) -> torch.Tensor:
        """Between bodies and those of the reference at the robot's anchor, in rad."""
        return self._angles()[:, :-1]

    @property
    def body_vel_error(self) -> torch.Tensor:
        """From bodies' velocities, linear and angular, to the reference's, ``(..., 2, 3)``."""

        def compute() -> torch.Tensor:
            robot = self.once("velocity", self._body_velocities)
            return (self._bodies()[..., 7:] - robot).unflatten(2, (2, 3))

        return self.once("body_vel_error", compute)

    # A term's life ------------------------------------------------------------------------------

    def measure(self, ended: torch.Tensor) -> None:
        self._measure_errors()
        self._over = (self.frames + 1 >= self._ends) > ended
        if on_host(ended.device) and self._over.any():  # there may be no resets
            env = self.env
            qpos, qvel = env.sim.data.qpos.clone(), env.sim.data.qvel.clone()
            drawn = self._draw(self._over, self._stream_of_ends)
            self._start(self._over, torch.zeros_like(ended), drawn, qpos, qvel)
            env.sim.reset(self._over, qpos, qvel)

    def resample(self, mask: torch.Tensor, stream: RandomStream) -> None:
        env, over = self.env, self._over
        self.count_failures(mask)
        placed, drawn = mask, self._draw(mask, stream)
        if over is not None and not on_host(mask.device):  # in one reset with the others
            env.also_placed = over
            placed = mask | over
            drawn = torch.where(over[:, None], self._draw(over, self._stream_of_ends), drawn)
            if not self._covers_all:
                assign(env.reset_qpos, over, env.sim.data.qpos)
                assign(env.reset_qvel, over, env.sim.data.qvel)
        self._over = None
        self._start(placed, mask, drawn, env.reset_qpos, env.reset_qvel)
        self._update_goal()

    def _measure_errors(self) -> None:
        norm = torch.linalg.vector_norm
        speeds = norm(self.body_vel_error, dim=3)
        distances = norm(self.body_pos_error, dim=2)
        by_body = torch.cat((distances[..., None], self.body_angles[..., None], speeds), dim=2)
        joints = torch.cat((self.robot_joint_pos, self.robot_joint_vel), dim=1)
        rows = (
            norm(self.anchor_pos_error, dim=1),
            self.anchor_angle,
            *speeds[:, self._anchor].unbind(1),
            *by_body.mean(dim=1).unbind(1),
            *norm((self.command - joints).unflatten(1, (2, -1)), dim=2).unbind(1),
        )
        torch.stack(rows, out=self._errors)

    def update_command(self) -> None:
        # Environments that were just reset are already at the frame after that of their state.
        self.frames += self.env.episode_length_buf > 0
        self._moves += 1
        if self.cfg.sampling_mode == "adaptive":
            self.average_failures()
        self._update_goal()

    def restart(self) -> None:
        self.bin_failed_count.zero_()
        self._failed_now.zero_()

    def hold(self, values: Sequence[float]) -> None:
        """Do nothing: a clip cannot be commanded by hand."""

    def add_markers(self, scene: mujoco.MjvScene) -> None:
        frame = int(self.frames[0])
        for clip in self.clips:
            if frame < clip.num_frames:
                break
            frame -= clip.num_frames
        model, origin = self.env.sim.model, self.env.env_origins[0].cpu().numpy()
        for index, name in enumerate(clip.body_names or ()):
            pos, quat = clip.body_pos_w[frame, index], clip.body_quat_w[frame, index]
            add_body(scene, model, model.body(name).id, pos + origin, quat, rgba=_GHOST)

    def on_restore(self) -> None:
        """Follow the restored frames."""
        self.move(self.frames)

    def show(self, frame: int) -> None:
        """Put all robots into a frame of the reference, without physics."""
        frames = torch.full_like(self.frames, frame)
        qpos, qvel = self.env.sim.data.qpos.clone(), self.env.sim.data.qvel.clone()
        none = self._reference.states.new_zeros(len(frames), self._reference.num_drawn)
        self._place(frames, none, qpos, qvel)
        self.env.sim.reset(torch.ones_like(frames, dtype=torch.bool), qpos, qvel)
        self.move(frames)

    def snapshot(self) -> Pose:
        """Return the current reference, placed relative to the robot's current state."""
        return Pose(
            self.body_pos_w, self.body_pos_relative_w, self.body_quat_relative_w, self.joint_vel
        )

    def tracking_errors(self, reference: Pose) -> torch.Tensor:
        return reference.errors(self, self.indexes(self._hands_and_feet()))

    def _hands_and_feet(self) -> list[str] | None:
        """Return the bodies whose heights the task's termination ``ee_body_pos`` watches.

        The task's own names them where it was removed.
        """
        cfg: Any = self.env.cfg
        given = getattr(cfg.terminations, "ee_body_pos", None)
        term = given or getattr(type(cfg)().terminations, "ee_body_pos", None)
        return None if term is None else list(term.params["body_names"])

    def indexes(self, body_names: Sequence[str] | None) -> slice | torch.Tensor:
        """Return the columns of some bodies among those that are compared; None: of all.

        Raises:
            ConfigurationError: For a body that is not compared.
        """
        if body_names is None:
            return ALL
        names = tuple(body_names)
        if names in self._columns:
            return self._columns[names]
        known = self.cfg.body_names
        for name in names:
            if name not in known:
                raise ConfigurationError(
                    f"A term asks for the body {name!r}, which the motion command does not "
                    f"compare; it compares {', '.join(known)}.{did_you_mean(name, known)}"
                )
        columns_ = torch.tensor([known.index(name) for name in names], device=self.frames.device)
        return self._columns.setdefault(names, columns_)

    # --------------------------------------------------------------------------------------------

    def _check(self) -> None:
        cfg, env = self.cfg, self.env
        if cfg.resampling_time_range[0] < env.step_dt * max(env.max_episode_length, 1):
            raise ConfigurationError(
                f"resampling_time_range of the motion command is {cfg.resampling_time_range}, but "
                "a motion is followed to its end; leave it at 1e9."
            )
        if not 0.0 < cfg.adaptive_alpha <= 1.0:
            raise ConfigurationError(
                f"adaptive_alpha of the motion command is {cfg.adaptive_alpha}, but must be in "
                "(0, 1]."
            )

    def _check_bodies(self, clip: MotionClip, root: str) -> None:
        cfg, known = self.cfg, clip.body_names or ()
        for name in (*cfg.body_names, cfg.anchor_body_name, root):
            if name not in known:
                raise ConfigurationError(
                    f"The motion command asks for the body {name!r}, which the motion "
                    f"{clip.name} or the robot lacks; both have {', '.join(known)}."
                    f"{did_you_mean(name, known)}"
                )
        if cfg.anchor_body_name not in cfg.body_names:
            raise ConfigurationError(
                f"anchor_body_name is {cfg.anchor_body_name!r}, which must be one of body_names."
            )

    def once(self, name: str, compute: Callable[[], Any]) -> Any:
        """Compute a quantity once for all terms that ask before the state or frame changes."""
        return self.env.once((self, name), compute, self._moves)

    def _bodies(self) -> torch.Tensor:
        """Return the reference's bodies: position, orientation, velocities, ``(..., 13)``."""
        bodies: torch.Tensor = self.once("bodies", lambda: self._reference.bodies[self.frames])
        return bodies

    def _joints(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return joint positions and velocities of the reference."""
        pos, vel = self.once("joints", lambda: self._reference.joints[self.frames]).chunk(2, dim=1)
        return pos, vel

    def _angles(self) -> torch.Tensor:
        """Return :attr:`body_angles`, and :attr:`anchor_angle` in a last column."""

        def compute() -> torch.Tensor:
            anchor, robot = self.anchor_quat_w, self.robot_anchor_quat_w
            return quat_error_magnitude(
                torch.cat((self.body_quat_relative_w, anchor.unsqueeze(1)), dim=1),
                torch.cat((self.robot_body_quat_w, robot.unsqueeze(1)), dim=1),
            )

        angles: torch.Tensor = self.once("angles", compute)
        return angles

    def _update_goal(self) -> None:
        torch.index_select(self._reference.joints, 0, self.frames, out=self.command)

    def _compute_relative(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return ``body_pos_relative_w`` and ``body_quat_relative_w``."""
        anchor_pos, robot_pos = self.anchor_pos_w.unsqueeze(1), self.robot_anchor_pos_w
        turn = yaw_quat(quat_difference(self.robot_anchor_quat_w, self.anchor_quat_w))
        turn = turn.unsqueeze(1)
        above = torch.cat((robot_pos[:, :2], self.anchor_pos_w[:, 2:]), dim=1).unsqueeze(1)
        offset = self.body_pos_w - anchor_pos
        pos = above + quat_apply(turn.expand(*offset.shape[:2], 4), offset)
        return pos, quat_mul(turn, self.body_quat_w)

    def _body_velocities(self) -> torch.Tensor:
        """Return linear, then angular velocities of the bodies' origins, in the world frame."""
        data = self.env.sim.data
        # cvel is the velocity of the body-fixed frame now at the tree's centre of mass.
        spatial = data.cvel[:, self._body_ids]
        arm = self.robot_body_pos_w - data.subtree_com[:, self._robot.root_body, None]
        linear = spatial[..., 3:] + torch.linalg.cross(spatial[..., :3], arm)
        return torch.cat((linear, spatial[..., :3]), dim=2)

    def move(self, frames: torch.Tensor) -> None:
        """Let the environments follow these frames, ``(num_envs,)``."""
        self.frames.copy_(frames)
        self._moves += 1

    def _draw(self, mask: torch.Tensor, stream: RandomStream) -> torch.Tensor:
        """Return draws of a frame, from [0, 1), and of offsets of the state."""
        cfg = self.cfg
        six = [*six_ranges(cfg.pose_range, "pose_range")]
        six += six_ranges(cfg.velocity_range, "velocity_range")
        joints = [cfg.joint_position_range] * len(self._robot.joint_names)
        return stream.ranges([(0.0, 1.0), (0.0, 1.0), *six, *joints], mask)

    def _start(
        self,
        placed: torch.Tensor,
        begins: torch.Tensor,
        drawn: torch.Tensor,
        qpos: torch.Tensor,
        qvel: torch.Tensor,
    ) -> None:
        """Let environments follow a drawn frame, and write its state to all rows.

        Args:
            placed: Which, bool ``(num_envs,)``.
            begins: Those among them whose episodes begin.
            drawn: See :meth:`_draw`.
            qpos: Where to write positions.
            qvel: Where to write velocities.
        """
        mode = self.cfg.sampling_mode
        shares = self.bins.shares(self.bin_failed_count, mode)
        self._sampling.copy_(self.bins.statistics(shares).unsqueeze(1))
        frames, ends = self.bins.frames(shares, drawn[:, :2], mode)
        self._place(frames, drawn[:, 2:], qpos, qvel)
        assign(self._ends, placed, ends)
        assign(self.frames, placed, frames + begins)  # others will move on with this step
        self._moves += 1

    def _place(
        self, frames: torch.Tensor, draws: torch.Tensor, qpos: torch.Tensor, qvel: torch.Tensor
    ) -> None:
        """Write the robot's state in ``frames``, plus offsets, to all rows."""
        num = draws.shape[1]
        states = self._reference.states[frames]
        states[:, :3].add_(self.env.env_origins)
        states[:, :num].add_(draws)
        pos, angles, lin_vel, ang_vel, joint_pos, joint_vel, quat = states.split(
            self._reference.widths, dim=1
        )
        quat = quat_mul(quat_from_angles(angles), quat)
        positions = torch.cat((pos, quat, joint_pos.clamp(*self.limits)), dim=1)
        velocities = torch.cat((lin_vel, quat_apply_inverse(quat, ang_vel), joint_vel), dim=1)
        qpos.index_copy_(1, self._qpos_ids, positions)
        qvel.index_copy_(1, self._qvel_ids, velocities)

    def count_failures(self, mask: torch.Tensor) -> None:
        manager = getattr(self.env, "termination_manager", None)
        if self.cfg.sampling_mode != "adaptive" or manager is None:  # the first reset of all
            return
        failed = (mask & manager.terminated).float()
        bins = self.bins.of_frame[self.frames]
        self._failed_now.index_add_(0, bins, failed)

    @between_graphs  # ranks wait for one another
    def average_failures(self) -> None:
        alpha = self.cfg.adaptive_alpha
        failed = self.env.context.sum(self._failed_now)
        self.bin_failed_count.mul_(1.0 - alpha).add_(failed, alpha=alpha)
        self._failed_now.zero_()


class Pose(NamedTuple):
    """A reference, see the properties of :class:`MotionCommand` of these names."""

    body_pos_w: torch.Tensor
    body_pos_relative_w: torch.Tensor
    body_quat_relative_w: torch.Tensor
    joint_vel: torch.Tensor

    def errors(self, robot: MotionCommand, ends: slice | torch.Tensor) -> torch.Tensor:
        """Return the errors of robots, ``(5, num_envs)``, as mjlab 1.6.0 measures them.

        Mean distances of bodies in the world, and relative to the anchor, in m; the root mean
        square of joint velocities' errors, in rad/s; mean distances and angles of the bodies
        ``ends``, in m and rad.

        Args:
            robot: The robots' current poses.
            ends: Columns of hands and feet.
        """
        pos, quat = robot.robot_body_pos_w, robot.robot_body_quat_w
        relative = torch.linalg.vector_norm(self.body_pos_relative_w - pos, dim=2)
        turned = quat_error_magnitude(self.body_quat_relative_w[:, ends], quat[:, ends])
        rows = (
            torch.linalg.vector_norm(self.body_pos_w - pos, dim=2).mean(dim=1),
            relative.mean(dim=1),
            (self.joint_vel - robot.robot_joint_vel).square().mean(dim=1).sqrt(),
            relative[:, ends].mean(dim=1),
            turned.mean(dim=1),
        )
        return torch.stack(rows)


def _joined(parts: Sequence[slice | torch.Tensor], size: int, device: torch.device) -> torch.Tensor:
    """Return the columns of parts of a table with ``size`` of them, int64 ``(k,)``."""
    places = torch.arange(size, device=device)
    return torch.cat([places[part] for part in parts])


def motion_of(env: Any) -> MotionCommand | None:
    """Return the motion that a task follows; None if it follows none."""
    manager: Any = getattr(env, "command_manager", None)
    names = [] if manager is None else manager.active_terms
    terms = map(manager.get_term, names) if names else ()
    return next((term for term in terms if isinstance(term, MotionCommand)), None)
