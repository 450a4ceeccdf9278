"""Moving agents through houses, and measuring how far their goals are: the kernels, launched."""

from __future__ import annotations

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
            for name in ("walls", "primitives", "free", "fields")
        }
        self._slot, self._goal, self._pose = map(wp.from_torch, (slot, goal, pose))
        self._tensor = pose

    def move(self, lengths: torch.Tensor) -> torch.Tensor:
        """Move agents ahead.

        Args:
            lengths: How far, in m, ``(num_envs,)``.

        Returns:
            How far they came, ``(num_envs,)``.
        """
        moved = torch.empty_like(lengths)
        fixed = [AGENT_RADIUS, AGENT_HEIGHT, self._cfg.slides]
        houses = [self._arrays["walls"], self._arrays["primitives"], self._slot]
        inputs = [*houses, wp.from_torch(lengths), *fixed, self._pose, wp.from_torch(moved)]
        wp.launch(move, dim=self._num_envs, inputs=inputs, device=self._device)
        return moved

    def distances(self, points: torch.Tensor | None = None) -> torch.Tensor:
        """Return geodesic distances to the goals, in m.

        Args:
            points: From where, ``(num_envs, num_points, 2)``; None: from where the agents are.

        Returns:
            ``(num_envs, num_points)``, or ``(num_envs,)`` for the agents.
        """
        where = self._tensor.unsqueeze(1) if points is None else points
        distance = torch.empty(where.shape[:2], device=where.device)
        inputs = [self._arrays["fields"], CELL, self._slot, self._goal]
        inputs += [wp.from_torch(where), wp.from_torch(distance)]
        wp.launch(measure, dim=distance.shape, inputs=inputs, device=self._device)
        return distance[:, 0] if points is None else distance

    def draw_starts(self, mask: torch.Tensor, bits: torch.Tensor) -> None:
        """Put the agents of ``mask`` at a distance from their goals that lies in the range.

        Args:
            mask: Bool ``(num_envs,)``.
            bits: Random bits of each environment, int32 ``(num_envs,)``.
        """
        limits = [round(1000 * limit) for limit in self._cfg.start_range_m]
        inputs = [self._arrays["free"], self._arrays["fields"], CELL, self._slot, self._goal]
        inputs += [wp.from_torch(mask), wp.from_torch(bits), *limits, self._pose]
        wp.launch(draw_start, dim=self._num_envs, inputs=inputs, device=self._device)
