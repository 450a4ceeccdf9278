"""The phase of each foot's step, which rotates, as in MuJoCo Playground.

A foot rises from the ground at -pi to the top of its swing at 0 and sinks until pi; the feet are
half a turn apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch

from envlab.envs import ManagerEnv
from envlab.envs.managers import CommandTermCfg
from envlab.envs.managers.command import CommandTerm
from envlab.envs.masks import assign
from envlab.envs.random import RandomStream
from envlab.state import State

if TYPE_CHECKING:
    from envlab.envs import VectorEnv

STANDING = 0.01
"""Length of a velocity command up to which both feet should stay on the ground, in m/s and rad/s.
"""


@dataclass(kw_only=True)
class GaitPhaseCfg(CommandTermCfg):
    """A frequency of steps, drawn at resets; the command is the feet's cosines, then sines."""

    resampling_time_range: tuple[float, float] = (1.0e9, 1.0e9)
    command_name: str
    """The velocity command, which must precede this one among the commands."""
    frequency_range: tuple[float, float] = (1.25, 1.75)
    """Bounds of the frequency, in Hz."""

    def build(self, env: VectorEnv) -> GaitPhase:
        return GaitPhase(self, env)


class GaitPhase(CommandTerm):
    """The term of a :class:`GaitPhaseCfg`.

    Attributes:
        phase: Phase of the left and the right foot, in [-pi, pi), ``(num_envs, 2)``.
    """

    STATE = State(per_env=("phase", "frequency"))
    cfg: GaitPhaseCfg
    mirror = ((1, 0, 3, 2), (1.0, 1.0, 1.0, 1.0))

    def __init__(self, cfg: GaitPhaseCfg, env: VectorEnv) -> None:
        super().__init__(cfg, env)
        self.phase = torch.zeros(env.num_envs, 2, device=env.device)
        self.command = torch.zeros(env.num_envs, 4, device=env.device)
        self.frequency = torch.zeros(env.num_envs, 1, device=env.device)
        self._start = torch.tensor([0.0, -math.pi], device=env.device).expand(env.num_envs, 2)

    def resample(self, mask: torch.Tensor, stream: RandomStream) -> None:
        assign(self.frequency, mask, stream.uniform(*self.cfg.frequency_range, 1, mask))
        assign(self.phase, mask, self._start)
        self._write()

    def update(self) -> None:
        """Advance the phases by a step; without a command, both feet are on the ground."""
        turned = self.phase + 2.0 * math.pi * self.frequency * self.env.step_dt
        turned = torch.remainder(turned + math.pi, 2.0 * math.pi) - math.pi
        manager = cast(ManagerEnv, self.env).command_manager
        velocity = manager.get_command(self.cfg.command_name)
        moves = torch.linalg.vector_norm(velocity, dim=1, keepdim=True) > STANDING
        torch.where(moves, turned, torch.full_like(turned, -math.pi), out=self.phase)

    def update_command(self) -> None:
        self._write()

    def _write(self) -> None:
        torch.cat((torch.cos(self.phase), torch.sin(self.phase)), dim=1, out=self.command)


def foot_heights(phase: torch.Tensor, swing_height: float) -> torch.Tensor:
    """Return target heights of feet, in m, by the cubic of Playground's ``gait.get_rz``.

    Args:
        phase: In [-pi, pi), of any shape; a foot rises from 0 at -pi to the top at 0, and sinks.
        swing_height: Height at the top, in m.
    """
    share = 1.0 - phase.abs() / math.pi  # 0 on the ground, 1 at the top
    return swing_height * share.square() * (3.0 - 2.0 * share)
