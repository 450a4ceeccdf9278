"""A velocity for a walking robot to follow."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
import torch

from envlab.envs.entities import SceneEntity, SceneEntityCfg, resolve_entity
from envlab.envs.managers.command import CommandTerm, CommandTermCfg
from envlab.envs.markers import add_arrow
from envlab.envs.masks import assign
from envlab.envs.math import quat_apply, wrap_to_pi, yaw_quat
from envlab.envs.mdp.root import base_lin_vel, root_yaw
from envlab.envs.random import RandomStream, check_bounds
from envlab.errors import ConfigurationError
from envlab.state import State

if TYPE_CHECKING:
    from envlab.envs.vector_env import VectorEnv


@dataclass(kw_only=True)
class VelocityRangesCfg:
    """Bounds of the draws."""

    lin_vel_x: tuple[float, float] = (-1.0, 1.0)
    """Forward velocity, in m/s."""
    lin_vel_y: tuple[float, float] = (-1.0, 1.0)
    """Velocity to the left, in m/s."""
    ang_vel_z: tuple[float, float] = (-1.0, 1.0)
    """Turning velocity, in rad/s; bounds that of a heading command too."""
    heading: tuple[float, float] = (-math.pi, math.pi)
    """Direction in the world, in rad."""


@dataclass(kw_only=True)
class UniformVelocityCommandCfg(CommandTermCfg):
    """Forward, sideward and turning velocity in the robot's frame, drawn uniformly.

    With a heading command, some robots are given a direction instead of a turning velocity: they
    turn in proportion to the remaining angle.
    """

    asset_name: str = "robot"
    """The robot."""
    heading_command: bool = True
    """Whether some robots are given a direction."""
    heading_control_stiffness: float = 0.5
    """Turning velocity per remaining angle, in 1/s."""
    rel_standing_envs: float = 0.02
    """Probability of the command to stand still."""
    rel_heading_envs: float = 1.0
    """Probability of being given a direction, with ``heading_command``."""
    rel_forward_envs: float = 0.0
    """Probability of the command to go straight ahead, as in mjlab."""
    forward_speed_min: float = 0.3
    """Minimum speed straight ahead, in m/s."""
    ranges: VelocityRangesCfg = field(default_factory=VelocityRangesCfg)
    """Ranges of the draws."""

    def build(self, env: VectorEnv) -> UniformVelocityCommand:
        return UniformVelocityCommand(self, env)


class VelocityCommand(CommandTerm):
    """A command (vx, vy, wz) in the robot's frame, in m/s and rad/s.

    Its metrics ``error_vel_xy`` and ``error_vel_yaw`` sum errors over the episode, over the number
    of steps between two draws.
    """

    mirror = ((0, 1, 2), (1.0, -1.0, -1.0))
    TRACKED = MappingProxyType({"lin_vel_error": "m/s", "ang_vel_error": "rad/s"})

    def __init__(self, cfg: Any, env: VectorEnv) -> None:
        """Start without a velocity.

        Args:
            cfg: A configuration with the robot's ``asset_name``.
            env: The environment.
        """
        super().__init__(cfg, env)
        self._robot = resolve_entity(SceneEntityCfg(cfg.asset_name), env.sim.model, env.device)
        self.command = torch.zeros(env.num_envs, 3, device=env.device)
        self._errors = self.make_metrics("error_vel_xy", "error_vel_yaw")
        self._errors_now = torch.zeros_like(self._errors)
        # Of a step in the time between two draws, which is a step at least.
        self._share = 1.0 / max(1.0, cfg.resampling_time_range[1] / env.step_dt)
        self._marker_height = 0.1 + _height_above_root(env.sim.model, self._robot.root_body)

    def measure(self, ended: torch.Tensor) -> None:
        errors = velocity_errors(self.env, self, self._robot)
        self._errors.add_(errors, alpha=self._share)

    def tracking_errors(self, reference: torch.Tensor) -> torch.Tensor:
        return _velocity_errors(self.env, reference, self._robot, self._errors_now)

    def add_markers(self, scene: mujoco.MjvScene) -> None:
        data, robot = self.env.sim.data, self._robot
        quat, velocity = data.qpos[0, robot.root_quat], data.qvel[0, robot.root_lin_vel]
        wanted = self.command[0] * self.command.new_tensor([1.0, 1.0, 0.0])
        above = data.qpos[0, robot.root_pos].cpu().numpy()
        above = above + np.array([0.0, 0.0, self._marker_height])
        for arrow, rgba in (
            (quat_apply(yaw_quat(quat), wanted), (0.2, 0.75, 0.3, 1.0)),
            (velocity * velocity.new_tensor([1.0, 1.0, 0.0]), (0.2, 0.4, 0.9, 1.0)),
        ):
            add_arrow(scene, above, 0.5 * arrow.cpu().numpy(), width=0.02, rgba=rgba)


class UniformVelocityCommand(VelocityCommand):
    """The term of a :class:`UniformVelocityCommandCfg`."""

    STATE = State(per_env=("heading_target", "is_heading_env", "is_standing_env"))
    cfg: UniformVelocityCommandCfg

    def __init__(self, cfg: UniformVelocityCommandCfg, env: VectorEnv) -> None:
        super().__init__(cfg, env)
        # Side by side, so that one operation writes what is drawn.
        self._drawn = torch.zeros(6, env.num_envs, device=env.device).T
        self.command, self.heading_target = self._drawn[:, :3], self._drawn[:, 3]
        """Commanded directions in the world, in rad."""
        self._is_of_kind = torch.zeros(env.num_envs, 2, dtype=torch.bool, device=env.device)
        self.is_heading_env, self.is_standing_env = self._is_of_kind.unbind(1)
        self._chances = self._drawn[:, 4:]
        """Numbers from 0 to 1, below a kind's share where a robot is of that kind."""
        self.ranges = cfg.ranges
        """Current ranges of the draws."""
        # Lower bounds, widths and upper bounds, where a curriculum sets them.
        self._limits: torch.Tensor | None = None
        self._written: list[tuple[float, float]] = []
        shares = [cfg.rel_heading_envs * cfg.heading_command, cfg.rel_standing_envs]
        self._ahead_min = torch.tensor([cfg.forward_speed_min, 0.0, 0.0], device=env.device)
        self._ahead_max = torch.tensor([math.inf, 0.0, 0.0], device=env.device)
        self._shares = torch.tensor(shares, device=env.device)

    def resample(self, mask: torch.Tensor, stream: RandomStream) -> None:
        ranges, unit = self.ranges, (0.0, 1.0)
        velocity = [ranges.lin_vel_x, ranges.lin_vel_y, ranges.ang_vel_z]
        if self._limits is not None:
            velocity = [unit] * 3
        goes_ahead = self.cfg.rel_forward_envs > 0.0
        bounds = [*velocity, ranges.heading, unit, unit, *[unit] * goes_ahead]
        drawn = stream.ranges(bounds, mask)
        command = drawn[:, :3]
        if self._limits is not None:
            low, width, _ = self._limits
            command.mul_(width).add_(low)
        if goes_ahead:
            ahead = command.abs().clamp(self._ahead_min, self._ahead_max)
            torch.where(drawn[:, 6:] < self.cfg.rel_forward_envs, ahead, command, out=command)
        assign(self._drawn, mask, drawn[:, :6])
        torch.lt(self._chances, self._shares, out=self._is_of_kind)

    def set_ranges(self, **ranges: tuple[float, float]) -> None:
        """Draw from other ranges from now on, for example from a curriculum.

        The first call must come in the first step, before steps are recorded as graphs, which read
        the ranges at the addresses that it allocates.

        Args:
            ranges: Those that differ from ``cfg.ranges``, by the names of its fields.

        Raises:
            ConfigurationError: If a range's ends are swapped.
        """
        self.ranges = dataclasses.replace(self.cfg.ranges, **ranges)
        velocity = [self.ranges.lin_vel_x, self.ranges.lin_vel_y, self.ranges.ang_vel_z]
        check_bounds([*velocity, self.ranges.heading])
        if self._limits is None:
            with torch.inference_mode(False):
                self._limits = torch.zeros(3, 3, device=self.command.device)
        if velocity == self._written:
            return
        # Before a step is compiled, it is executed once, and tensors are restored afterwards.
        self._written = [] if self.env.is_rehearsing else velocity
        # Filled, since to assign a number, or a tensor from the host, makes a GPU wait.
        for column, (low, high) in enumerate(velocity):
            for row, value in enumerate((low, high - low, high)):
                self._limits[row, column].fill_(value)

    def update_command(self) -> None:
        if self.cfg.heading_command:
            left = wrap_to_pi(self.heading_target - root_yaw(self.env, self._robot))
            bounds: Any = self.ranges.ang_vel_z
            if self._limits is not None:
                bounds = self._limits[::2, 2]
            turn = (left * self.cfg.heading_control_stiffness).clamp(*bounds)
            turning = self.command[:, 2]
            torch.where(self.is_heading_env, turn.float(), turning, out=turning)
        self.command.masked_fill_(self.is_standing_env.unsqueeze(1), 0.0)

    def bounds(self) -> dict[str, tuple[float, float]]:
        ranges = self.ranges
        return {
            "forward (m/s)": ranges.lin_vel_x,
            "left (m/s)": ranges.lin_vel_y,
            "turn (rad/s)": ranges.ang_vel_z,
        }

    def hold(self, values: Sequence[float]) -> None:
        super().hold(values)
        self._chances.fill_(1.0)
        self._is_of_kind.zero_()

    def on_restore(self) -> None:
        """Choose the robots' kinds as they were saved."""
        self._chances.copy_(~self._is_of_kind)


@dataclass(kw_only=True)
class NormalVelocityRangesCfg:
    """Distributions of forward, sideward and turning velocity, in m/s and rad/s."""

    mean_vel: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Means, whose signs are drawn: half of the draws are mirrored at 0."""
    std_vel: tuple[float, float, float] = (1.0, 1.0, 1.0)
    """Standard deviations."""
    zero_prob: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Probability of each velocity to be 0."""


@dataclass(kw_only=True)
class NormalVelocityCommandCfg(CommandTermCfg):
    """Forward, sideward and turning velocity in the robot's frame, drawn normally.

    The sign of each is also drawn. Some draws are 0, for one velocity alone or for all together.
    """

    asset_name: str = "robot"
    """The robot."""
    rel_standing_envs: float = 0.0
    """Probability of the command to stand still."""
    ranges: NormalVelocityRangesCfg = field(default_factory=NormalVelocityRangesCfg)
    """Distributions of the draws."""

    def build(self, env: VectorEnv) -> NormalVelocityCommand:
        ranges = self.ranges
        for name, values, high in (
            ("rel_standing_envs", [self.rel_standing_envs], 1.0),
            ("ranges.zero_prob", ranges.zero_prob, 1.0),
            ("ranges.std_vel", ranges.std_vel, math.inf),
        ):
            for value in values:
                if not 0.0 <= value <= high:
                    wanted = "between 0 and 1" if high == 1.0 else "0 or more"
                    raise ConfigurationError(
                        f"The {name} of a normal velocity command has {value}, which must be "
                        f"{wanted}."
                    )
        return NormalVelocityCommand(self, env)


class NormalVelocityCommand(VelocityCommand):
    """The term of a :class:`NormalVelocityCommandCfg`."""

    STATE = State(per_env=("is_zero_vel_env", "is_standing_env"))
    cfg: NormalVelocityCommandCfg

    def __init__(self, cfg: NormalVelocityCommandCfg, env: VectorEnv) -> None:
        super().__init__(cfg, env)
        self.is_zero_vel_env = torch.zeros(env.num_envs, 3, dtype=torch.bool, device=env.device)
        """Whether each velocity is 0."""
        self.is_standing_env = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
        ranges = cfg.ranges
        self._mean, self._std, self._zero_prob = (
            torch.tensor(values, device=env.device, dtype=torch.float32)
            for values in (ranges.mean_vel, ranges.std_vel, ranges.zero_prob)
        )

    def resample(self, mask: torch.Tensor, stream: RandomStream) -> None:
        drawn = stream.normal(0.0, 1.0, 3) * self._std + self._mean
        unit = stream.uniform(0.0, 1.0, 7)
        assign(self.command, mask, torch.where(unit[:, :3] < 0.5, drawn, -drawn))
        assign(self.is_zero_vel_env, mask, unit[:, 3:6] < self._zero_prob)
        assign(self.is_standing_env, mask, unit[:, 6] < self.cfg.rel_standing_envs)

    def update_command(self) -> None:
        self.command.masked_fill_(self.is_standing_env.unsqueeze(1) | self.is_zero_vel_env, 0.0)

    def bounds(self) -> dict[str, tuple[float, float]]:
        names = ("forward (m/s)", "left (m/s)", "turn (rad/s)")
        ranges = self.cfg.ranges
        reach = [
            abs(mean) + 2.0 * std for mean, std in zip(ranges.mean_vel, ranges.std_vel, strict=True)
        ]
        return {name: (-one, one) for name, one in zip(names, reach, strict=True)}

    def hold(self, values: Sequence[float]) -> None:
        super().hold(values)
        self.is_zero_vel_env.zero_()
        self.is_standing_env.zero_()


def velocity_errors(env: VectorEnv, term: CommandTerm, robot: SceneEntity) -> torch.Tensor:
    """Return errors of horizontal velocity in m/s and of turning in rad/s, ``(2, num_envs)``.

    They are computed once a step for all that ask.

    Args:
        env: The environment.
        term: One of its terms, with a command (vx, vy, wz) in the robot's frame.
        robot: The robot.
    """
    key = ("velocity_errors", term, robot.root_body)
    if key not in env.constants:
        env.constants[key] = torch.zeros(2, env.num_envs, device=env.device)
    errors: torch.Tensor = env.once(
        key,
        lambda: _velocity_errors(env, term.command, robot, env.constants[key]),
        env.command_manager.num_changes,  # type: ignore[attr-defined]
    )
    return errors


def _velocity_errors(
    env: VectorEnv, command: torch.Tensor, robot: SceneEntity, errors: torch.Tensor
) -> torch.Tensor:
    """Write :func:`velocity_errors` to ``errors``, and return them."""
    moving, turning = errors
    velocity, ang_vel = base_lin_vel(env, robot), env.sim.data.qvel[:, robot.root_ang_vel]
    torch.linalg.vector_norm(command[:, :2] - velocity[:, :2], dim=1, out=moving)
    torch.sub(command[:, 2], ang_vel[:, 2], out=turning).abs_()
    return errors


def _height_above_root(model: mujoco.MjModel, root: int) -> float:
    """Return a robot's height above its root in its zero pose, in m."""
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    is_robots = model.body_rootid[model.geom_bodyid] == model.body_rootid[root]
    tops = data.geom_xpos[is_robots, 2] + model.geom_rbound[is_robots]
    return float(tops.max(initial=data.xpos[root, 2]) - data.xpos[root, 2])
