"""PointNav and ObjectNav as a :class:`BatchedEnv`: agents in houses, seen through cameras."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium import spaces

from envlab.envs.batched_env import BatchedEnv, Log, Observations, Step
from envlab.envs.checks import unbounded
from envlab.envs.discrete import DiscreteCfg
from envlab.envs.masks import assign, clear, masked_means
from envlab.nav import missing_extra
from envlab.nav.furniture import CLASSES, FIRST_TARGET, TARGETS
from envlab.nav.house import CELL, NUM_GOALS
from envlab.nav.nav_cfg import ACTIONS, NavEnvCfg
from envlab.sim.threads import OneThread

if TYPE_CHECKING:
    from envlab.nav.pictures import EpisodeView
try:
    import warp as wp

    from envlab.nav.camera import CHANNELS, Camera, Pictures
    from envlab.nav.house_set import HouseSet
    from envlab.nav.motion import Motion
except ModuleNotFoundError as error:
    raise missing_extra(error) from error

NO_CLASS = -1
_KEPT = ("slot", "goal", "pose", "start", "distance", "start_distance", "travelled", "collisions")
"""What an episode has, by attribute; saved for a resume."""
_LOGGED = ("success", "spl", "soft_spl", "distance_to_goal", "path_length", "collisions")
_ENDS = ("success", "failed_end", "time_out", "non_finite")
_LOG_NAMES = [f"Episode_Info/{name}" for name in _LOGGED]
_LOG_NAMES += [f"Episode_Termination/{name}" for name in _ENDS]
X, Y, HEIGHT, YAW, TAN_PITCH = range(5)
"""Columns of ``NavEnv.pose``."""


class NavEnv(BatchedEnv):
    """Agents that look for a point or an object, each in a house of its own choice.

    Observed are the groups ``policy``, float32 ``(num_envs, dim)``, see :meth:`policy_names`, and
    an image group ``(num_envs, height, width, channels)`` for each of ``cfg.images``: ``depth`` is
    float32, in m, the others are uint8.

    ``info["episodes"]`` holds the measures of the episodes that ended, ``(num_envs,)`` each, valid
    in the rows of ``info["_final_obs"]``; see :meth:`_measures`.

    Attributes:
        houses: The houses in memory.
        camera: What agents see with.
        slot: House of each environment, int32 ``(num_envs,)``.
        goal: Its goal: a number in ``TARGETS``, or that of a point after these; int32.
        pose: x, y and height of the camera in m, yaw in rad, tangent of the pitch, ``(num_envs,
            5)``.
        start: The same at the start of the episode.
        distance: Geodesic distance to the zone of arrival, in m, ``(num_envs,)``.
        start_distance: The same at the start of the episode.
        travelled: Length of the way so far, in m.
        collisions: Steps in which something was in the way.
    """

    cfg: NavEnvCfg
    _clock: int
    """Steps since the last seed, on which it depends what houses are in memory."""
    _images: Pictures
    _view: EpisodeView | None = None

    @property
    def step_dt(self) -> float:
        """Time for which a picture is shown in a video, in seconds; steps themselves take none."""
        return 0.2

    @property
    def max_episode_length(self) -> int:
        return self.cfg.max_episode_length

    def policy_names(self) -> list[str]:
        """Return what the columns of the group ``policy`` are.

        A point as the goal is given by its distance in m and its direction from straight ahead, as
        Habitat's ``pointgoal_with_gps_compass``; an object by 1 in the column of its class.
        Positions are relative to the start, x to where the agent looked.
        """
        point = ["goal_distance", "goal_direction_cos", "goal_direction_sin"]
        names = point if self.cfg.goal == "point" else [f"goal_is_{name}" for name in TARGETS]
        if self.cfg.gps_compass:
            names = [*names, "gps_x", "gps_y", "compass_cos", "compass_sin"]
        return [*names, "tan_pitch"] if self._looks else names

    def reset(self, **kwargs: Any) -> tuple[Observations, dict[str, Any]]:  # type: ignore[override]
        # What was handed out keeps its rows.
        images = self.camera.new_images()
        for kind, values in self._images.items():
            images[kind].copy_(values)
        self._images = images
        with self._on_torch_stream():
            return super().reset(**kwargs)

    def step(self, actions: torch.Tensor | np.ndarray) -> Step:  # type: ignore[override]
        with self._threads, self._on_torch_stream():
            obs, reward, terminated, truncated, info = super().step(actions)
        if "final_obs" in info:
            info["episodes"] = self._ended_episodes
        return obs, reward, terminated, truncated, info

    def render(self) -> tuple[np.ndarray, ...] | None:  # type: ignore[override]
        """Return what agent 0 sees beside its way on a map, in a tuple of one.

        It is uint8 ``(height, width, 3)``; None where no ``render_mode`` was asked for.
        """
        if self.render_mode is None:
            return None
        if self._view is None:
            from envlab.nav.pictures import EpisodeView  # needs Pillow

            self._view = EpisodeView()
        slot, goal, steps = (int(one[0]) for one in (self.slot, self.goal, self._episode_length))
        if steps == 0:
            self._view.begin()
        arrays = self.houses.arrays
        house = {name: values[slot].cpu().numpy().copy() for name, values in arrays.items()}
        is_class = goal < len(TARGETS)
        name = TARGETS[goal] if is_class else f"the point {float(self.distance[0]):.1f} m away"
        action = ACTIONS[int(self._action[0])] if steps else "-"
        lines = (f"Goal: {name}", f"Step {steps}: {action}")
        return (self._view.show(house, self.pose[0].cpu().numpy(), goal, lines),)

    def goal_points(self) -> torch.Tensor:
        """Return where the goals are, in m, ``(num_envs, 2)``; of objects, meaningless."""
        number = (self.goal.long() - len(TARGETS)).clamp(min=0)
        return self.houses.arrays["points"][self.slot.long(), number]

    def sees_goal(self) -> torch.Tensor:
        """Return whether the latest images show enough of the goal, bool ``(num_envs,)``."""
        return self.camera.goal_pixels() >= self.cfg.min_goal_pixels

    def distances_from(self, points: torch.Tensor) -> torch.Tensor:
        """Return geodesic distances to the goals, in m, ``(num_envs, num_points)``.

        Args:
            points: x and y, in m, ``(num_envs, num_points, 2)``.
        """
        return self._motion.distances(points)

    def is_free(self, points: torch.Tensor) -> torch.Tensor:
        """Return whether agents can be at such points, bool ``(num_envs, num_points)``."""
        column, row = (points / CELL).long().unbind(dim=2)
        free = self.houses.arrays["free"]
        row, column = row.clamp(0, free.shape[1] - 1), column.clamp(0, free.shape[2] - 1)
        return free[self.slot.long().unsqueeze(1), row, column]

    def state(self) -> dict[str, Any]:
        return super().state() | {
            "clock": self._clock,
            "episode_length": self._episode_length.cpu().clone(),
            "episodes": {name: getattr(self, name).cpu().clone() for name in _KEPT},
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        super().set_state(state)
        self._clock = int(state["clock"])
        self.houses.set_clock(self._clock)
        self._episode_length.copy_(state["episode_length"])
        for name, values in state["episodes"].items():
            getattr(self, name).copy_(values)
        self._set_goal_class()
        self._images = self.camera.new_images()
        self._to_draw.fill_(True)
        with self._on_torch_stream():
            self._observe()

    def close(self, **kwargs: Any) -> None:
        """End the threads that load houses and draw."""
        self.houses.close()
        self.camera.close()

    # What BatchedEnv asks for -------------------------------------------------------------------

    def _build(self) -> None:
        cfg = self.cfg
        self.houses = HouseSet(
            cfg.houses,
            goals=_goals(cfg),
            start_range_m=cfg.start_range_m,
            max_episode_length=cfg.max_episode_length,
            device=self.device,
        )
        self._make_state()
        self._motion = Motion(cfg, self.houses, slot=self.slot, goal=self.goal, pose=self.pose)
        self.camera = Camera(
            cfg.camera,
            self.houses.arrays,
            slot=self.slot,
            pose=self.pose,
            goal_class=self._goal_class,
            kinds=tuple(cfg.images),
            num_threads=self.context.num_threads,
        )
        self._images = self.camera.new_images()
        self._threads = OneThread(self.device.type == "cpu")
        self._make_spaces()
        self.reset()

    def _explain_failures(self) -> str:
        path = self._save_failure(self.state() | {"bad": self._failed.cpu()})
        return (
            f"Their states and actions are in {path}; look there for what wrote NaNs into env.pose."
        )

    def _num_actions(self) -> int:
        return 1

    def _choices(self) -> DiscreteCfg:
        return self.cfg.action_space

    def _make_observation_space(self) -> spaces.Space:
        groups: dict[str, spaces.Space] = {"policy": unbounded((len(self.policy_names()),))}
        for kind in self.cfg.images:
            shape = self.camera.shape(kind)
            is_depth = CHANNELS[kind][1] == torch.float32
            high, dtype = (np.inf, np.float32) if is_depth else (255, np.uint8)
            groups[kind] = spaces.Box(0, high, shape, dtype)  # type: ignore[arg-type]
        return spaces.Dict(groups)

    def _make_action_space(self) -> spaces.Space:
        return self.cfg.action_space.make_space()

    def _advance(self, actions: torch.Tensor) -> None:
        self._clock += 1
        self.houses.advance(self._clock)
        self._action = self._numbers[actions[:, 0]]
        self._turn(self._action)
        wanted = (self._action == _number("MoveAhead")) * self.cfg.step_m
        moved = self._motion.move(wanted)
        self._replace_failed()
        self.travelled += moved
        self.collisions += moved < 0.9 * wanted
        distance = self._motion.distances()
        # An agent may squeeze into a gap that the grid does not have.
        distance = torch.where(distance >= self._motion.unreachable_m, self.distance, distance)
        self._progress = torch.minimum(torch.maximum(self.distance - distance, -moved), moved)
        self.distance.copy_(distance)
        self._images = self.camera.new_images()
        self._to_draw.fill_(True)
        self._draw()

    def _get_dones(self) -> tuple[torch.Tensor, torch.Tensor]:
        ended = self._action == _number("End")
        self._success = ended & (self.distance <= self.cfg.success_tolerance_m)
        if self.cfg.goal == "object":
            self._success &= self.sees_goal()
        return ended, self._episode_length >= self.cfg.max_episode_length

    def _get_rewards(self) -> torch.Tensor:
        rewards = self.cfg.rewards
        failed_end = (self._action == _number("End")) & ~self._success
        return (
            rewards.step
            + rewards.progress * self._progress
            + rewards.success * self._success
            + rewards.failed_end * failed_end
        )

    def _end_failed(
        self, terminated: torch.Tensor, reward: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        self._success &= ~self._failed
        return terminated | self._failed, torch.where(self._failed, 0.0, reward)

    def _final_observations(self) -> Observations:
        final = self.camera.new_images()
        for kind, values in self._images.items():
            assign(final[kind], self._ended, values)
        return {"policy": self._policy()} | dict(final.items())

    def _before_resets(self, mask: torch.Tensor) -> None:
        self._ended = mask

    def _reset_ended(self, mask: torch.Tensor, count: torch.Tensor | int) -> Log:
        self._ended_episodes = measures = self._measures()
        if isinstance(count, torch.Tensor):
            count = count.clamp(min=1)
        means = masked_means([measures[name] for name in _LOGGED], mask, count)
        ended = self._action == _number("End")
        success = self._success
        failed_end = ended & ~(success | self._failed)
        ends = (success, failed_end, ~(ended | self._failed), self._failed)
        shares = masked_means([end.float() for end in ends], mask, count)
        log = dict(zip(_LOG_NAMES, [*means, *shares], strict=True))
        self._reset_masked(mask, count)
        return log

    def _reset_masked(self, mask: torch.Tensor, count: torch.Tensor | int) -> Log:
        """Begin episodes: a house, a goal that it has, and a start at a distance in the range."""
        draws = self.random.stream("episode").uniform(0.0, 1.0, 3, mask)
        houses = self.houses
        open_slot = houses.open_slots[(draws[:, 0] * houses.num_open).long()]
        offered = houses.offers[open_slot.long()]
        rank = (draws[:, 1] * offered.sum(dim=1)).long()
        chosen = offered & (offered.cumsum(dim=1) == rank.unsqueeze(1) + 1)
        assign(self.slot, mask, open_slot)
        assign(self.goal, mask, chosen.to(torch.uint8).argmax(dim=1).int())
        self._set_goal_class()
        pose = torch.zeros_like(self.pose)
        pose[:, HEIGHT] = self.cfg.camera.mount_m
        headings = round(360.0 / self.cfg.turn_deg)
        pose[:, YAW] = (draws[:, 2] * headings).floor() * math.radians(self.cfg.turn_deg)
        assign(self.pose, mask, pose)
        bits = self.random.stream("start").bits(1)[:, 0] & 0x7FFFFFFF
        self._motion.draw_starts(mask, bits.int())
        assign(self.start, mask, self.pose)
        distance = self._motion.distances()
        for values in (self.distance, self.start_distance):
            assign(values, mask, distance)
        for values in (self.travelled, self.collisions):
            clear(values, mask)
        self._clear_lengths(mask)
        self._to_draw |= mask
        return dict.fromkeys(_LOG_NAMES, 0.0)

    def _observe(self) -> None:
        self._draw()
        super()._observe()

    def _get_observations(self) -> Observations:
        return {"policy": self._policy()} | dict(self._images.items())

    def _restart(self, seed: int) -> None:
        super()._restart(seed)
        self._clock = 0
        self.houses.set_clock(0)

    # --------------------------------------------------------------------------------------------

    def _make_state(self) -> None:
        num_envs, device = self.num_envs, self.device
        self.slot, self.goal, self._goal_class = (
            torch.zeros(num_envs, dtype=torch.int32, device=device) for _ in range(3)
        )
        self.pose, self.start = (torch.zeros(num_envs, 5, device=device) for _ in range(2))
        self.distance, self.start_distance, self.travelled, self.collisions = (
            torch.zeros(num_envs, device=device) for _ in range(4)
        )
        names = [ACTIONS.index(name) for name in self.cfg.actions]
        self._numbers = torch.tensor(names, device=device)
        self._targets = torch.arange(len(TARGETS), device=device).unsqueeze(1)
        self._looks = bool({"LookUp", "LookDown"} & set(self.cfg.actions))
        self._clock = 0
        self._to_draw: torch.Tensor = torch.ones(num_envs, dtype=torch.bool, device=device)
        """Environments whose images are not those of their state."""
        self._failed: torch.Tensor = torch.zeros(num_envs, dtype=torch.bool, device=device)
        self._success = torch.zeros_like(self._failed)

    def _on_torch_stream(self) -> contextlib.AbstractContextManager[Any]:
        """Return what lets kernels follow torch's own on a GPU, where Warp has its own stream."""
        if self.device.type == "cpu":
            return contextlib.nullcontext()
        stream = torch.cuda.current_stream(self.device)
        return wp.ScopedStream(wp.stream_from_torch(stream))  # type: ignore[no-any-return]

    def _turn(self, action: torch.Tensor) -> None:
        left = (action == _number("RotateLeft")).float() - (
            action == _number("RotateRight")
        ).float()
        self.pose[:, YAW] += left * math.radians(self.cfg.turn_deg)
        if self._looks:
            limit = math.tan(math.radians(self.cfg.look_deg))
            up = (action == _number("LookUp")).float() - (action == _number("LookDown")).float()
            pitch = self.pose[:, TAN_PITCH] + up * limit
            self.pose[:, TAN_PITCH] = pitch.clamp(-limit, limit)

    def _replace_failed(self) -> None:
        """Put agents whose pose is not finite back to their start; their episodes will end."""
        if self.device.type == "cpu" and math.isfinite(float(self.pose.sum())):
            self._failed.zero_()
            self._failures.add()
            return
        torch.logical_not(torch.isfinite(self.pose).all(dim=1), out=self._failed)
        self.pose.copy_(torch.where(self._failed.unsqueeze(1), self.start, self.pose))
        self._failures.add(self._failed)

    def _draw(self) -> None:
        """Draw the images that are not those of the state."""
        if self.cfg.images or self.cfg.goal == "object":  # else nobody looks
            self.camera.draw(self._images, self._to_draw)
        self._to_draw.fill_(False)

    def _set_goal_class(self) -> None:
        is_class = self.goal < len(TARGETS)
        self._goal_class.copy_(torch.where(is_class, self.goal + FIRST_TARGET, NO_CLASS))

    def _policy(self) -> torch.Tensor:
        """Return the group ``policy``: see :meth:`policy_names`."""
        pose, start = self.pose, self.start
        if self.cfg.goal == "point":
            way = self.goal_points() - pose[:, :2]
            direction = torch.atan2(way[:, 1], way[:, 0]) - pose[:, YAW]
            columns = [way.norm(dim=1), direction.cos(), direction.sin()]
        else:
            columns = list((self.goal.unsqueeze(0) == self._targets).float())
        if self.cfg.gps_compass:
            x, y = (pose[:, :2] - start[:, :2]).unbind(dim=1)
            cos, sin = start[:, YAW].cos(), start[:, YAW].sin()
            turned = pose[:, YAW] - start[:, YAW]
            columns += [cos * x + sin * y, cos * y - sin * x, turned.cos(), turned.sin()]
        if self._looks:
            columns.append(pose[:, TAN_PITCH])
        return torch.stack(columns, dim=1)

    def _measures(self) -> dict[str, torch.Tensor]:
        """Return the measures of episodes as they would be if they ended now, ``(num_envs,)`` each.

        SPL is Anderson et al., "On Evaluation of Embodied Navigation Agents" (2018); soft SPL,
        Datta et al., "Integrating Egocentric Localization for More Realistic Point-Goal Navigation
        Agents" (2020).
        """
        success = self._success.float()
        shortest = self.start_distance.clamp(min=1e-3)
        efficiency = shortest / torch.maximum(shortest, self.travelled)
        return {
            "success": success,
            "spl": success * efficiency,
            "soft_spl": (1.0 - self.distance / shortest).clamp(min=0.0) * efficiency,
            "distance_to_goal": self.distance.clone(),
            "start_distance": self.start_distance.clone(),
            "path_length": self.travelled.clone(),
            "collisions": self.collisions.clone(),
            "steps": self._episode_length.float(),
            "goal": self.goal.clone(),
        }


def _number(action: str) -> int:
    return ACTIONS.index(action)  # type: ignore[arg-type]


def _goals(cfg: NavEnvCfg) -> list[int]:
    """Return the goals that episodes may have."""
    if cfg.goal == "point":
        return list(range(len(TARGETS), NUM_GOALS))
    return [CLASSES.index(name) - FIRST_TARGET for name in cfg.targets]
