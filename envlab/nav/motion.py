"""Moving agents through houses, and measuring how far their goals are: the kernels, launched."""

from __future__ import annotations

from typing import Any

import torch
import warp as wp

from envlab.nav.geodesics import UNREACHABLE
from envlab.nav.house import AGENT_HEIGHT, AGENT_RADIUS, CELL
from envlab.nav.house_set import HouseSet
from envlab.nav.motion_kernels import draw_start, measure, move
from envlab.nav.nav_cfg import NavEnvCfg


class Motion:
    """Moves a batch of agents; the tensors that it is given stay where they are."""

    unreachable_m = UNREACHABLE / 1000.0
    """Distance at which, or beyond, there is no way."""

    def __init__(
        self,
        cfg: NavEnvCfg,
        houses: HouseSet,
        *,
        slot: torch.Tensor,
        goal: torch.Tensor,
        pose: torch.Tensor,
    ) -> None:
        """Prepare to move.

        Args:
            cfg: Whether agents slide, and how far from their goals they start.
            houses: Where they are.
            slot: House of each environment, int32 ``(num_envs,)``.
            goal: Goal of each environment, int32 ``(num_envs,)``.
            pose: See :class:`envlab.nav.nav_env.NavEnv`, ``(num_envs, 5)``.
        """
        self._cfg, self._num_envs = cfg, len(pose)
        wp.init()
        self._device = wp.device_from_torch(pose.device)
        self._arrays = {
            name: wp.from_torch(houses.arrays[name])
            for name in ("walls", "primitives", "starts", "fields")
        }
        self._slot, self._goal, self._pose = map(wp.from_torch, (slot, goal, pose))
        self._lengths, self._moved = torch.zeros_like(pose[:, 0]), torch.zeros_like(pose[:, 0])
        self._distance = torch.zeros_like(pose[:, :1])
        self._mask = torch.zeros(len(pose), dtype=torch.bool, device=pose.device)
        self._bits = torch.zeros_like(slot)
        self._move, self._draw_starts = self._record_move(), self._record_draw_starts()
        self._measure = self._launch_measure(pose.unsqueeze(1), self._distance, record=True)

    def move(self, lengths: torch.Tensor) -> torch.Tensor:
        """Move agents ahead.

        Args:
            lengths: How far, in m, ``(num_envs,)``.

        Returns:
            How far they came, ``(num_envs,)``.
        """
        self._lengths.copy_(lengths)
        self._move.launch()
        return self._moved.clone()

    def distances(self, points: torch.Tensor | None = None) -> torch.Tensor:
        """Return geodesic distances to the goals, in m.

        Args:
            points: From where, ``(num_envs, num_points, 2)``; None: from where the agents are.

        Returns:
            ``(num_envs, num_points)``, or ``(num_envs,)`` for the agents.
        """
        if points is None:
            self._measure.launch()
            return self._distance[:, 0].clone()
        distance = torch.empty(points.shape[:2], device=points.device)
        self._launch_measure(points, distance)
        return distance

    def _record_move(self) -> wp.Launch:
        """Return the launch of a move: packing its arguments takes longer than the kernel."""
        houses = [self._arrays["walls"], self._arrays["primitives"], self._slot]
        fixed = [AGENT_RADIUS, AGENT_HEIGHT, self._cfg.slides, self._pose]
        inputs = [*houses, wp.from_torch(self._lengths), *fixed, wp.from_torch(self._moved)]
        return wp.launch(
            move, dim=self._num_envs, inputs=inputs, device=self._device, record_cmd=True
        )

    def _launch_measure(
        self, points: torch.Tensor, distance: torch.Tensor, *, record: bool = False
    ) -> Any:
        """Measure, or return the launch that does."""
        inputs = [self._arrays["fields"], CELL, self._slot, self._goal]
        inputs += [wp.from_torch(points), wp.from_torch(distance)]
        size = tuple(distance.shape)
        return wp.launch(measure, dim=size, inputs=inputs, device=self._device, record_cmd=record)

    def draw_starts(self, mask: torch.Tensor, bits: torch.Tensor) -> None:
        """Put the agents of ``mask`` at a distance from their goals that lies in the range.

        Args:
            mask: Bool ``(num_envs,)``.
            bits: Random bits of each environment, int32 ``(num_envs,)``.
        """
        self._mask.copy_(mask)
        self._bits.copy_(bits)
        self._draw_starts.launch()

    def _record_draw_starts(self) -> wp.Launch:
        limits = [round(1000 * limit) for limit in self._cfg.start_range_m]
        inputs = [self._arrays["starts"], self._arrays["fields"], CELL, self._slot, self._goal]
        inputs += [wp.from_torch(self._mask), wp.from_torch(self._bits), *limits, self._pose]
        return wp.launch(
            draw_start, dim=self._num_envs, inputs=inputs, device=self._device, record_cmd=True
        )
