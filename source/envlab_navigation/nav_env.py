"""PointNav and ObjectNav as a :class:`BatchedEnv`: agents in houses, seen through cameras."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium import spaces

from envlab.envs.batched_env import BatchedEnv, Observations
from envlab.envs.checks import unbounded
from envlab.envs.discrete import DiscreteCfg
from envlab.envs.episodes import EpisodeMeasures, Log
from envlab.envs.masks import assign, masked_means
from envlab.sim.host import OneThread
from envlab.state import State
from envlab_navigation import metrics, missing_extra
from envlab_navigation.furniture import CLASSES, FIRST_TARGET, TARGETS
from envlab_navigation.house import CELL, NUM_GOALS, POINT_RADIUS
from envlab_navigation.metrics import ENDS
from envlab_navigation.nav_cfg import ACTIONS, NavEnvCfg

if TYPE_CHECKING:
    from envlab_navigation.pictures import EpisodeView
try:
    import warp as wp

    from envlab.sim.augmentation import Augmentation
    from envlab_navigation.agents import Agents
    from envlab_navigation.camera import CHANNELS, Camera, Pictures
    from envlab_navigation.house_set import HouseSet
except ModuleNotFoundError as error:
    raise missing_extra(error) from error

_LOGGED = ("success", "spl", "soft_spl", "distance_to_goal", "path_length", "collisions")
_LOG_NAMES = [f"Episode_Info/{name}" for name in _LOGGED]
_LOG_NAMES += [f"Episode_Termination/{name}" for name in ENDS]
END = ACTIONS.index("End")
X, Y, HEIGHT, YAW, TAN_PITCH = range(5)
"""Columns of ``NavEnv.pose``."""


class NavEnv(BatchedEnv):
    """Agents that look for a point or an object, each in its own randomly chosen house.

    Observations have the groups ``policy``, float32 ``(num_envs, dim)`` (:meth:`policy_names`), and
    an image group ``(num_envs, height, width, channels)`` for each of ``cfg.images``: ``depth`` is
    float32, in m, the others are uint8.

    ``info["episodes"]`` holds the measures of the episodes that ended, ``(num_envs,)`` each, valid
    in the rows of ``info["_final_obs"]``; see :meth:`_measures`. ``end`` is the reason, a
    number in ``ENDS``.

    Attributes:
        houses: The houses in memory.
        agents: The agents; ``slot``, ``goal``, ``pose``, ``start``, ``distance``,
            ``start_distance``, ``travelled`` and ``collisions`` are their tensors.
        camera: The agents' cameras.
        ended_episodes: ``info["episodes"]`` of the last step in which episodes ended.
    """

    STATE = State(shared=("_clock",), parts=("agents", "_augmentation"))
    cfg: NavEnvCfg
    measures: EpisodeMeasures | None = metrics
    _clock: int
    """Steps since the last seed, which determine the houses in memory."""
    _images: Pictures
    ended_episodes: dict[str, torch.Tensor] | None = None
    _on_torch_stream: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
    _view: EpisodeView | None = None

    @property
    def place(self) -> str:  # type: ignore[override]
        """Description of the houses."""
        return self.cfg.houses.source

    @property
    def step_dt(self) -> float:
        """Time for which a picture is shown in a video, in seconds; steps themselves take none."""
        return 0.2

    @property
    def max_episode_length(self) -> int:
        return self.cfg.max_episode_length

    def policy_names(self) -> list[str]:
        """Return the names of the columns of the group ``policy``.

        A point as the goal is given by its distance in m and its direction from straight ahead, as
        Habitat's ``pointgoal_with_gps_compass``; an object by 1 in the column of its class.
        Positions are relative to the start, with x along the agent's initial view.
        """
        point = ["goal_distance", "goal_direction_cos", "goal_direction_sin"]
        names = point if self.cfg.goal == "point" else [f"goal_is_{name}" for name in TARGETS]
        if self.cfg.gps_compass:
            names = [*names, "gps_x", "gps_y", "compass_cos", "compass_sin"]
        return [*names, "tan_pitch"] if self.cfg.looks else names

    def reset(self, **kwargs: Any) -> tuple[Observations, dict[str, Any]]:  # type: ignore[override]
        # Returned tensors must keep their rows.
        images = self.camera.new_images()
        for kind, values in self._images.items():
            images[kind].copy_(values)
        self._images = images
        with self._on_torch_stream:
            return super().reset(**kwargs)

    def render(self) -> np.ndarray | None:  # type: ignore[override]
        """Return agent 0's view next to its path on a map.

        It is uint8 ``(height, width, 3)``; None without a ``render_mode``.
        """
        if self.render_mode is None:
            return None
        if self._view is None:
            from envlab_navigation.pictures import EpisodeView  # needs Pillow

            self._view = EpisodeView()
        slot, goal, steps = (int(one[0]) for one in (self.slot, self.goal, self._episode_length))
        if steps == 0:
            self._view.begin()
        arrays = self.houses.arrays
        house = {name: values[slot].cpu().numpy().copy() for name, values in arrays.items()}
        is_class = goal < len(TARGETS)
        name = TARGETS[goal] if is_class else f"the point {float(self.distance[0]):.1f} m away"
        action = ACTIONS[int(self.agents.action[0])] if steps else "-"
        lines = [f"Goal: {name}", f"Step {steps}: {action}"]
        if (
            not steps and self.ended_episodes is not None
        ):  # an episode's end shows as the start of the next
            spl, end = (float(self.ended_episodes[key][0]) for key in ("spl", "end"))
            lines.append(f"The episode before: {ENDS[int(end)]}, SPL {spl:.2f}")
        return self._view.show(house, self.pose[0].cpu().numpy(), goal, lines)

    def goal_points(self) -> torch.Tensor:
        """Return where the goals are, in m, ``(num_envs, 2)``; meaningless for objects."""
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
        return self.agents.distances(points)

    def is_free(self, points: torch.Tensor) -> torch.Tensor:
        """Return whether agents can be at such points, bool ``(num_envs, num_points)``."""
        column, row = (points / CELL).long().unbind(dim=2)
        free = self.houses.arrays["free"]
        row, column = row.clamp(0, free.shape[1] - 1), column.clamp(0, free.shape[2] - 1)
        return free[self.slot.long().unsqueeze(1), row, column]

    def on_restore(self) -> None:
        """Load the houses of the restored clock, and draw what agents see in them."""
        super().on_restore()
        self.houses.set_clock(self._clock)
        self._images = self.camera.new_images()
        with self._on_torch_stream:
            self._draw(self._everyone)
            self._observe()

    def close(self, **kwargs: Any) -> None:
        """End the threads that load houses and draw."""
        self.houses.close()
        self.camera.close()

    # The interface of BatchedEnv----------------------------------------------------------------

    def _build(self) -> None:
        cfg = self.cfg
        self.houses = HouseSet(
            cfg.houses,
            goals=_goals(cfg),
            start_range_m=cfg.start_range_m,
            max_episode_length=cfg.max_episode_length,
            device=self.device,
        )
        self.agents = agents = Agents(cfg, self.houses, self.num_envs, len(self.policy_names()))
        self.slot, self.goal = agents.slot, agents.goal
        self.pose, self.start = agents.pose, agents.start
        self.distance, self.start_distance = agents.distance, agents.start_distance
        self.travelled, self.collisions = agents.travelled, agents.collisions
        self.camera = Camera(
            cfg.camera,
            self.houses.arrays,
            slot=agents.slot,
            pose=agents.pose,
            goal_class=agents.goal_class,
            kinds=tuple(cfg.images),
            mirrored=agents.mirrored,
            num_threads=self.context.num_threads,
        )
        self._augmentation: Augmentation | None = None
        if cfg.augmentation.changes_colours:
            self._augmentation = Augmentation(
                cfg.augmentation,
                self.num_envs,
                self.device,
                num_views=len(cfg.camera.headings_deg),
            )
            self._only_slot = torch.zeros(self.num_envs, dtype=torch.int32, device=self.device)
        if self.device.type != "cpu":
            self._on_torch_stream = _TorchStream(self.device)
        self._clock = 0
        self._success = torch.zeros_like(agents.failed)
        self._everyone = torch.ones_like(agents.failed)
        self._images = self.camera.new_images()
        self._stepping = OneThread(True) if self.device.type == "cpu" else self._on_torch_stream
        self._make_spaces()
        self.reset()

    def _explain_failures(self) -> str:
        path = self._save_failure(self.state() | {"bad": self.agents.failed.cpu()})
        return (
            f"Their states and actions are in {path}; look in it for the cause of the NaNs in "
            "env.pose."
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

    def _apply_actions(self, actions: torch.Tensor) -> None:
        self._clock += 1
        self.houses.advance(self._clock)
        self.agents.act(actions[:, 0])

    def _advance(self) -> None:
        # On a CPU reading them takes no time.
        if self.device.type != "cpu" or self.agents.failed.numpy().any():
            self._failures.add(self.agents.failed)
        self._images = self.camera.new_images()
        self._look(self._everyone)

    def _get_dones(self) -> tuple[torch.Tensor, torch.Tensor]:
        ended = self.agents.action == END
        self._success = ended & (self.distance <= self.cfg.success_tolerance_m)
        if self.cfg.goal == "object":
            self._success &= self.sees_goal()
        return ended, self._episode_length >= self.cfg.max_episode_length

    def _get_rewards(self) -> torch.Tensor:
        rewards = self.cfg.rewards
        failed_end = (self.agents.action == END) & ~self._success
        return (
            rewards.step
            + rewards.progress * self.agents.progress
            + rewards.success * self._success
            + rewards.failed_end * failed_end
        )

    def _end_failed(
        self, terminated: torch.Tensor, reward: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        failed = self.agents.failed
        self._success &= ~failed
        return terminated | failed, torch.where(failed, 0.0, reward)

    def _final_observations(self) -> Observations:
        final = self.camera.new_images()
        for kind, values in self._images.items():
            assign(final[kind], self._ended, values)
        return {"policy": self.agents.tell()} | dict(final.items())

    def _before_resets(self, mask: torch.Tensor) -> None:
        self._ended = mask

    def _reset_ended(self, mask: torch.Tensor, count: torch.Tensor | int) -> Log:
        measures = self._measures()
        if isinstance(count, torch.Tensor):
            count = count.clamp(min=1)
        means = masked_means([measures[name] for name in _LOGGED], mask, count)
        ended, success, failed = self.agents.action == END, self._success, self.agents.failed
        failed_end = ended & ~(success | failed)
        ends = (success, failed_end, ~(ended | failed), failed)
        measures["end"] = torch.stack(ends).to(torch.uint8).argmax(dim=0)
        self.ended_episodes = measures
        shares = masked_means([end.float() for end in ends], mask, count)
        log = dict(zip(_LOG_NAMES, [*means, *shares], strict=True))
        self._reset_masked(mask, count)
        return log

    def _reset_masked(self, mask: torch.Tensor, count: torch.Tensor | int) -> Log:
        """Begin episodes: a house, a goal in it, and a start at a distance in the range."""
        draws = self.random.stream("episode").uniform(0.0, 1.0, 4, mask)
        self.agents.begin(mask, draws, self.random.stream("start").bits(1)[:, 0])
        self._clear_lengths(mask)
        self._look(mask)
        return dict.fromkeys(_LOG_NAMES, 0.0)

    def _tell(self, info: dict[str, Any]) -> None:
        if "final_obs" in info:
            info["episodes"] = self.ended_episodes

    def _get_observations(self) -> Observations:
        return {"policy": self.agents.tell()} | dict(self._images.items())

    def _restart(self, seed: int) -> None:
        super()._restart(seed)
        self._clock = 0
        self.houses.set_clock(0)

    # --------------------------------------------------------------------------------------------

    def _look(self, mask: torch.Tensor) -> None:
        """Draw the current views of the agents of ``mask``."""
        if self._augmentation is not None:
            self._augmentation.draw(self.random.stream("augmentation").bits(1)[:, 0], mask)
        self._draw(mask)

    def _draw(self, mask: torch.Tensor) -> None:
        if self.cfg.images or self.cfg.goal == "object":  # else nothing reads them
            self.camera.draw(self._images, mask)
        if self._augmentation is not None:
            rgb = self._images["rgb"].unflatten(3, (-1, 3)).flatten(2, 3).unsqueeze(1)
            self._augmentation.apply(rgb, mask, self._only_slot)

    def _measures(self) -> dict[str, torch.Tensor]:
        """Return the measures of episodes as they would be if they ended now, ``(num_envs,)`` each.

        ``house`` is the number of its house, and ``detour`` is :meth:`_detour`. SPL is Anderson et
        al., "On Evaluation of Embodied Navigation Agents" (2018); soft SPL, Datta et al.,
        "Integrating Egocentric Localization for More Realistic Point-Goal Navigation Agents"
        (2020).
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
            "house": self.houses.numbers[self.slot.long()],
            "detour": self._detour(),
        }

    def _detour(self) -> torch.Tensor:
        """Return the shortest path to a point over the straight line; 1 for objects."""
        if self.cfg.goal == "object":
            return torch.ones_like(self.start_distance)
        straight = torch.linalg.vector_norm(self.goal_points() - self.start[:, :2], dim=1)
        return (self.start_distance + POINT_RADIUS) / straight.clamp(min=POINT_RADIUS)


class _TorchStream(contextlib.AbstractContextManager[None]):
    """Runs Warp's kernels on a GPU's current stream of torch while it is entered."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def __enter__(self) -> None:
        stream = torch.cuda.current_stream(self._device)
        self._scope = wp.ScopedStream(wp.stream_from_torch(stream))
        self._scope.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._scope.__exit__(*error)


def _goals(cfg: NavEnvCfg) -> list[int]:
    """Return the goals that episodes may have."""
    if cfg.goal == "point":
        return list(range(len(TARGETS), NUM_GOALS))
    return [CLASSES.index(name) - FIRST_TARGET for name in cfg.targets]
