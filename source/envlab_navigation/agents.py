"""Agents in houses: their positions, actions and observations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
import warp as wp

from envlab import state
from envlab_navigation.agent_kernels import Houses, Rules, State, act, begin, measure, tell
from envlab_navigation.furniture import FIRST_TARGET, TARGETS
from envlab_navigation.geodesics import UNREACHABLE
from envlab_navigation.house import AGENT_HEIGHT, AGENT_RADIUS, CELL
from envlab_navigation.house_set import HouseSet
from envlab_navigation.nav_cfg import ACTIONS, NavEnvCfg

KEPT = (
    *("slot", "goal", "mirrored", "pose", "start"),
    *("distance", "start_distance", "travelled", "collisions"),
)
"""State of an episode that is saved for a resume."""


class Agents:
    """The agents of a batch of environments, at fixed addresses.

    Attributes:
        slot: House of each environment, int32 ``(num_envs,)``.
        goal: Its goal: a number in ``TARGETS``, or that of a point after these; int32.
        goal_class: Its class in ``CLASSES``; -1 of points; int32.
        mirrored: Whether left and right are exchanged, bool.
        pose: x, y and height of the camera in m, yaw in rad, tangent of the pitch, ``(num_envs,
            5)``.
        start: The same at the start of the episode.
        distance: Geodesic distance to the zone of arrival, in m, ``(num_envs,)``.
        start_distance: The same at the start of the episode.
        travelled: Length of the path so far, in m.
        collisions: Steps with an obstacle in the way.
        progress: Decrease of the distance in the last step, in m, at most the agent's move.
        failed: Whether the pose was not finite before the last step, bool.
        action: The last actions, numbers in ``ACTIONS``, int32 ``(num_envs,)``.
    """

    STATE = state.State(per_env=KEPT)

    def __init__(self, cfg: NavEnvCfg, houses: HouseSet, num_envs: int, num_told: int) -> None:
        """Prepare to start episodes.

        Args:
            cfg: Settings of agents and actions.
            houses: The houses.
            num_envs: Number of agents.
            num_told: Number of columns that :meth:`tell` returns.
        """
        wp.init()
        device = houses.device
        self._set, self._device = houses, wp.device_from_torch(device)
        self.slot, self.goal, self.goal_class, self.action = (
            torch.zeros(num_envs, dtype=torch.int32, device=device) for _ in range(4)
        )
        self.pose, self.start = (torch.zeros(num_envs, 5, device=device) for _ in range(2))
        self.distance, self.start_distance, self.travelled, self.collisions, self.progress = (
            torch.zeros(num_envs, device=device) for _ in range(5)
        )
        self.mirrored, self.failed, self._mask = (
            torch.zeros(num_envs, dtype=torch.bool, device=device) for _ in range(3)
        )
        self._told = torch.zeros(num_envs, num_told, device=device)
        self._draws = torch.zeros(num_envs, 4, device=device)
        self._bits = torch.zeros(num_envs, dtype=torch.int64, device=device)
        numbers = [ACTIONS.index(name) for name in cfg.actions]
        self._numbers = torch.tensor(numbers, dtype=torch.int32, device=device)
        self._houses, self._rules, self._state = _houses(houses), _rules(cfg), State()
        _share(self._state, (*KEPT, "goal_class", "progress", "failed"), vars(self))
        # Packing arguments takes longer than these kernels, so it is done once.
        self._act = self._record(act, self.action)
        self._tell = self._record(tell, self._told)
        self._begin = self._record(begin, self._mask, self._draws, self._bits, houses.num_open)

    def act(self, actions: torch.Tensor) -> None:
        """Move by actions, int64 ``(num_envs,)``, numbers in ``env.actions``."""
        torch.take(self._numbers, actions, out=self.action)
        self._act.launch()

    def begin(self, mask: torch.Tensor, draws: torch.Tensor, bits: torch.Tensor) -> None:
        """Begin episodes.

        Args:
            mask: Which environments, bool ``(num_envs,)``.
            draws: Four draws from [0, 1) for each, ``(num_envs, 4)``.
            bits: Random bits, int64 ``(num_envs,)``.
        """
        self._mask.copy_(mask)
        self._draws.copy_(draws)
        self._bits.copy_(bits)
        self._begin.set_param_at_index(6, self._set.num_open)
        self._begin.launch()

    def tell(self) -> torch.Tensor:
        """Return the group ``policy``, ``(num_envs, num_told)``."""
        self._tell.launch()
        return self._told.clone()

    def distances(self, points: torch.Tensor) -> torch.Tensor:
        """Return geodesic distances to the goals, in m, ``(num_envs, num_points)``.

        Args:
            points: Starting points, ``(num_envs, num_points, 2)``.
        """
        distance = torch.empty(points.shape[:2], device=points.device)
        wp.launch(
            measure,
            dim=tuple(distance.shape),
            inputs=[self._houses, self._state, wp.from_torch(points), wp.from_torch(distance)],
            device=self._device,
        )
        return distance

    def on_restore(self) -> None:
        """Derive the classes of the restored goals."""
        is_class = self.goal < len(TARGETS)
        self.goal_class.copy_(torch.where(is_class, self.goal + FIRST_TARGET, -1))

    def _record(self, kernel: Any, *arguments: torch.Tensor | int) -> wp.Launch:
        values = [
            wp.from_torch(argument) if isinstance(argument, torch.Tensor) else argument
            for argument in arguments
        ]
        inputs = [self._houses, self._rules, self._state, *values]
        return wp.launch(
            kernel, dim=len(self.slot), inputs=inputs, device=self._device, record_cmd=True
        )


def _houses(houses: HouseSet) -> Houses:
    struct = Houses()
    names = ("walls", "primitives", "points", "starts", "fields", "offers", "open_slots")
    _share(
        struct, names, houses.arrays | {"offers": houses.offers, "open_slots": houses.open_slots}
    )
    struct.cell = CELL
    return struct


def _share(struct: Any, names: Iterable[str], tensors: Mapping[str, Any]) -> None:
    """Make arrays of a struct share memory with tensors of the same names."""
    for name in names:
        setattr(struct, name, wp.from_torch(tensors[name]))


def _rules(cfg: NavEnvCfg) -> Rules:
    rules = Rules()
    rules.radius, rules.height, rules.camera_height = AGENT_RADIUS, AGENT_HEIGHT, cfg.camera.mount_m
    rules.step, rules.slides = cfg.step_m, cfg.slides
    rules.turn, rules.num_headings = math.radians(cfg.turn_deg), round(360.0 / cfg.turn_deg)
    rules.mirror = cfg.augmentation.mirror
    rules.look = math.tan(math.radians(cfg.look_deg))
    rules.nearest_mm, rules.farthest_mm = (
        min(round(1000 * limit), UNREACHABLE - 1) for limit in cfg.start_range_m
    )
    rules.unreachable = UNREACHABLE / 1000.0
    rules.num_targets, rules.first_target = len(TARGETS), FIRST_TARGET
    rules.goal_is_point, rules.tells_place = cfg.goal == "point", cfg.gps_compass
    rules.tells_pitch = cfg.looks
    return rules
