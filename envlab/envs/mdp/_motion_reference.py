"""The reference of a motion command: its clips, read for a robot, as tables of frames."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from envlab.errors import ConfigurationError
from envlab.motion import MotionClip, fit_clip, read_clip, resample_clip

if TYPE_CHECKING:
    from envlab.envs.vector_env import VectorEnv

logger = logging.getLogger(__name__)


class Reference:
    """The frames of all clips, concatenated, as float32 tensors ``(T, ...)``.

    Attributes:
        bodies: Position, orientation, linear and angular velocity of each, ``(T, n, 13)``.
        joints: Positions, then velocities.
        states: The root's position, place for draws of its rotation, linear and angular velocity;
            the joints; the root's orientation. The first ``num_drawn`` columns are randomised.
        widths: Of these parts of a state.
    """

    def __init__(
        self,
        clips: Sequence[MotionClip],
        bodies: Sequence[str],
        root: str,
        device: torch.device,
    ) -> None:
        def joined(name: str, chosen: Sequence[str] | None = None) -> torch.Tensor:
            tables = []
            for clip in clips:
                names, table = list(clip.body_names or ()), getattr(clip, name)
                columns_ = None if chosen is None else [names.index(body) for body in chosen]
                tables.append(table if columns_ is None else table[:, columns_])
            return torch.as_tensor(np.concatenate(tables), dtype=torch.float32)

        fields = ("body_pos_w", "body_quat_w", "body_lin_vel_w", "body_ang_vel_w")
        self.bodies = torch.cat([joined(name, bodies) for name in fields], dim=2).to(device)
        joint_pos, joint_vel = joined("joint_pos"), joined("joint_vel")
        self.joints = torch.cat((joint_pos, joint_vel), dim=1).to(device)
        pos, quat, lin_vel, ang_vel = (joined(name, [root])[:, 0] for name in fields)
        parts = (pos, torch.zeros_like(pos), lin_vel, ang_vel, joint_pos, joint_vel, quat)
        self.states = torch.cat(parts, dim=1).to(device)
        self.widths = [part.shape[1] for part in parts]
        self.num_drawn = sum(self.widths[:5])


def sources_of(motion_file: str | list[str]) -> list[str]:
    """Return the paths of the clips of a command's ``motion_file``.

    Raises:
        ConfigurationError: If there is none.
    """
    sources = [motion_file] if isinstance(motion_file, str) else list(motion_file)
    if not sources or not all(sources):
        raise ConfigurationError(
            "The motion command has no motion_file. Give one: "
            "env.commands.motion.motion_file=clip.npz"
        )
    return sources


def fitting_clip(source: str, env: VectorEnv) -> MotionClip:
    """Return a clip for the environment's robot, at the environment's rate.

    Raises:
        ConfigurationError: If it is not one of that robot.
    """
    clip = fit_clip(read_clip(source), env.sim.model)
    rate = 1.0 / env.step_dt
    fitting = resample_clip(clip, rate)
    if fitting is not clip:
        logger.warning(
            "The motion %s has %g frames per second; it is resampled to %g, which the task has.",
            source,
            clip.fps,
            rate,
        )
    return fitting
