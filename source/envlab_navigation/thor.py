"""ObjectNav in AI2-THOR's scenes as a Gymnasium environment: one controller with its Unity process.

API: ai2thor 5.0.0. Success, actions and the camera are those of RoboTHOR's ObjectNav challenge
(Deitke et al., "RoboTHOR: An Open Simulation-to-Real Embodied AI Platform", CVPR 2020), rewards
those of AllenAct.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from envlab.errors import ConfigurationError, SimulationError

logger = logging.getLogger(f"envlab.{__name__}")

MOVES = {
    **{"MoveAhead": "MoveAhead", "RotateLeft": "RotateLeft", "RotateRight": "RotateRight"},
    **{"LookUp": "LookUp", "LookDown": "LookDown"},
}
"""Our actions by AI2-THOR's names; the remaining one, ``End``, moves nothing."""
VISIBLE_M = 1.0
"""Distance within which an object counts as visible."""
SUCCESS, FAILED_END, TIME_OUT, BROKEN = range(4)
"""Reasons for an episode's end: numbers of ``envlab_navigation.metrics.ENDS``."""
MAX_RESTARTS = 3
"""Restarts of a controller without an episode in between, after which a run ends."""
TRIES = 20
"""Starts that are drawn in a scene before moving to the next scene."""
_LOST = (TimeoutError, RuntimeError, OSError)
"""Errors of a controller when Unity hangs, crashes or has exited."""


def scenes_of(world: str, split: str) -> list[str]:
    """Return the scenes of a split.

    RoboTHOR's are those of its challenge, whose test scenes are not public; iTHOR's are the rooms 1
    to 20, 21 to 25 and 26 to 30 of each kind, as AI2-THOR's documentation proposes.

    Raises:
        ConfigurationError: If the split has none.
    """
    if world == "RoboTHOR":
        apartments = {"train": ("Train", 12), "val": ("Val", 3)}
        if split not in apartments:
            raise ConfigurationError(
                f"RoboTHOR has no public scenes of the split {split!r}. Set env.houses.split to "
                "train or val."
            )
        name, count = apartments[split]
        numbers = itertools.product(range(1, count + 1), range(1, 6))
        return [f"FloorPlan_{name}{one}_{other}" for one, other in numbers]
    first, last = {"train": (1, 20), "val": (21, 25), "test": (26, 30)}[split]
    numbers = itertools.product((0, 200, 300, 400), range(first, last + 1))
    return [f"FloorPlan{kind + number}" for kind, number in numbers]


class Setup(NamedTuple):
    """Arguments of an environment; picklable, for workers."""

    scenes: Sequence[str]
    targets: Sequence[str]
    """Object types that may be goals."""
    all_targets: Sequence[str]
    """Object types that the observation can name."""
    actions: Sequence[str]
    images: Sequence[str]
    """``rgb``, ``depth``."""
    width: int
    height: int
    hfov_deg: float
    step_m: float
    turn_deg: float
    start_range_m: tuple[float, float]
    rewards: Mapping[str, float]
    agent_mode: str
    timeout_s: float
    """Limit of any action of the controller; its start may take five times as long."""


class ThorEnv(gymnasium.Env[Any, Any]):
    """A search for an object of a class; the observations are ``policy`` and the images.

    ``policy`` is 1 in the column of the goal's class, and the tangent of the pitch last. The
    controller starts with the first reset. If it hangs or crashes, it is stopped and another one
    started; the episode is truncated and its ``end`` is ``BROKEN``.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 5}

    def __init__(self, setup: Setup, render_mode: str | None = None) -> None:
        """Make an environment, initially without a controller."""
        self.render_mode, self._setup = render_mode, setup
        self.action_space = spaces.Discrete(len(setup.actions))
        size = setup.height, setup.width
        images: dict[str, spaces.Space[Any]] = {
            "depth": spaces.Box(0, np.inf, (*size, 1), np.float32),
            "rgb": spaces.Box(0, 255, (*size, 3), np.uint8),
        }
        num = len(setup.all_targets) + 1
        groups = {"policy": spaces.Box(-np.inf, np.inf, (num,), np.float32)}
        self.observation_space = spaces.Dict(groups | {kind: images[kind] for kind in setup.images})
        self._controller: Any = None
        self._restarts = 0
        self._seen: dict[str, np.ndarray] = {}
        self._lengths: dict[tuple[str, str, int, int], float] = {}
        """Lengths of shortest paths, by scene, type and place in cm."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        super().reset(seed=seed)
        while True:
            try:
                self._begin()
            except _LOST as error:
                self._restart(error)
            else:
                return self._seen, {}

    def step(self, action: int) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        name = self._setup.actions[int(action)]
        try:
            reward, ended = self._act(name)
        except _LOST as error:
            self._restart(error)
            return self._seen, 0.0, False, True, self._measures(BROKEN)
        self._restarts = 0
        end = (SUCCESS if self._success else FAILED_END) if ended else TIME_OUT
        return self._seen, reward, ended, False, self._measures(end)

    def render(self) -> np.ndarray:  # type: ignore[override]
        return np.asarray(self._controller.last_event.frame)

    def close(self) -> None:
        """Stop the controller."""
        controller, self._controller = self._controller, None
        if controller is not None:
            try:
                controller.stop()
            except Exception as error:  # a broken one may not even stop cleanly
                logger.debug("A controller did not stop in order: %s", error)

    # --------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Draw a scene, a goal and a start whose path to it has a length in the range."""
        if self._controller is None:
            self._controller = start_controller(self._setup)
        setup, rng = self._setup, self.np_random
        nearest, farthest = setup.start_range_m
        for number in rng.permutation(len(setup.scenes)).tolist():
            self._scene = setup.scenes[number]
            event = self._controller.reset(scene=self._scene)
            kinds = {one["objectType"] for one in event.metadata["objects"]} & set(setup.targets)
            places = self._do("GetReachablePositions").metadata["actionReturn"] or []
            for _ in range(TRIES if kinds and places else 0):
                self._goal = sorted(kinds)[rng.integers(len(kinds))]
                place = places[rng.integers(len(places))]
                length = self._way_from(place)
                if nearest <= length <= farthest:
                    turn = setup.turn_deg * float(rng.integers(round(360 / setup.turn_deg)))
                    event = self._do(
                        "Teleport",
                        position=place,
                        rotation={"x": 0, "y": turn, "z": 0},
                        horizon=0,
                    )
                    if event.metadata["lastActionSuccess"]:
                        self._start_episode(event, length)
                        return
        raise ConfigurationError(
            f"No scene of {', '.join(setup.scenes[:3])}{', ...' * (len(setup.scenes) > 3)} has a "
            f"start at {nearest:g} to {farthest:g} m from one of {', '.join(setup.targets)}. Take "
            "other scenes, targets or another env.start_range_m."
        )

    def _start_episode(self, event: Any, length: float) -> None:
        self._start_distance = self._distance = length
        self._travelled = self._collisions = self._steps = 0.0
        self._success = False
        self._at = event.metadata["agent"]["position"]
        self._see(event)

    def _act(self, name: str) -> tuple[float, bool]:
        """Return the reward, and whether the episode ended."""
        rewards = self._setup.rewards
        self._steps += 1
        if name == "End":
            self._success = any(
                one["objectType"] == self._goal and one["visible"]
                for one in self._controller.last_event.metadata["objects"]
            )
            return rewards["step"] + rewards["success" if self._success else "failed_end"], True
        event = self._do(MOVES[name])
        moved = _between(self._at, event.metadata["agent"]["position"])
        self._at = event.metadata["agent"]["position"]
        self._travelled += moved
        self._collisions += not event.metadata["lastActionSuccess"] and name == "MoveAhead"
        progress = 0.0
        if moved > 0:
            distance = self._way_from(self._at)
            if math.isfinite(distance):  # off the navigation mesh, the last one counts
                progress = min(max(self._distance - distance, -moved), moved)
                self._distance = distance
        self._see(event)
        return rewards["step"] + rewards["progress"] * progress, False

    def _do(self, action: str, **arguments: Any) -> Any:
        return self._controller.step(action=action, **arguments)

    def _way_from(self, place: Mapping[str, float]) -> float:
        """Return the length of the shortest path to the goal, in m; infinite if there is none."""
        key = (self._scene, self._goal, round(100 * place["x"]), round(100 * place["z"]))
        if key not in self._lengths:
            event = self._do("GetShortestPath", objectType=self._goal, position=dict(place))
            found = event.metadata["lastActionSuccess"]
            corners = event.metadata["actionReturn"]["corners"] if found else []
            length = sum(_between(one, other) for one, other in itertools.pairwise(corners))
            self._lengths[key] = length if found else math.inf
        return self._lengths[key]

    def _see(self, event: Any) -> None:
        setup = self._setup
        policy = np.zeros(len(setup.all_targets) + 1, np.float32)
        policy[list(setup.all_targets).index(self._goal)] = 1.0
        # A horizon of 30 degrees looks down.
        policy[-1] = -math.tan(math.radians(event.metadata["agent"]["cameraHorizon"]))
        self._seen = {"policy": policy}
        if "rgb" in setup.images:
            self._seen["rgb"] = np.asarray(event.frame, np.uint8)
        if "depth" in setup.images:
            self._seen["depth"] = np.asarray(event.depth_frame, np.float32)[..., None]

    def _measures(self, end: int) -> dict[str, float]:
        """Return ``NavEnv``'s measures of an episode; the shortest path is AI2-THOR's."""
        shortest = max(self._start_distance, 1e-3)
        efficiency = shortest / max(shortest, self._travelled)
        return {
            "success": float(self._success),
            "spl": self._success * efficiency,
            "soft_spl": max(0.0, 1.0 - self._distance / shortest) * efficiency,
            "distance_to_goal": self._distance,
            "start_distance": self._start_distance,
            "path_length": self._travelled,
            "collisions": float(self._collisions),
            "steps": float(self._steps),
            "goal": float(list(self._setup.all_targets).index(self._goal)),
            "end": float(end),
        }

    def _restart(self, error: BaseException) -> None:
        """Stop a lost controller; the next reset starts another.

        Raises:
            SimulationError: If that has happened too often in a row.
        """
        self.close()
        self._restarts += 1
        if self._restarts > MAX_RESTARTS:
            raise SimulationError(
                f"AI2-THOR's controller was lost {self._restarts} times in a row "
                f"({type(error).__name__}: {error}). Try one controller alone, with "
                "env.scene.num_envs=1, or raise env.thor.controller_timeout_s."
            ) from error
        logger.warning(
            "AI2-THOR's controller is started again, because it was lost (%s: %s).",
            *(type(error).__name__, error),
        )


def start_controller(setup: Setup) -> Any:
    """Return a controller that renders without a display.

    Raises:
        ConfigurationError: If ai2thor is not installed, or no controller starts.
    """
    try:
        from ai2thor.controller import Controller
        from ai2thor.platform import CloudRendering
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"env.backend=ai2thor needs the package {error.name!r}, which is not installed. "
            "Install it with: pip install -c constraints.txt -e '.[ai2thor]'"
        ) from error
    # AI2-THOR counts its field of view from top to bottom.
    half = math.tan(math.radians(setup.hfov_deg) / 2) * setup.height / setup.width
    try:
        return Controller(
            platform=CloudRendering,
            scene=setup.scenes[0],
            agentMode=setup.agent_mode,
            width=setup.width,
            height=setup.height,
            fieldOfView=math.degrees(2 * math.atan(half)),
            gridSize=setup.step_m,
            rotateStepDegrees=setup.turn_deg,
            snapToGrid=False,
            visibilityDistance=VISIBLE_M,
            renderDepthImage="depth" in setup.images,
            server_timeout=setup.timeout_s,
            server_start_timeout=5 * setup.timeout_s,
        )
    except _LOST:
        raise
    except Exception as error:
        raise ConfigurationError(
            f"AI2-THOR's controller does not start ({type(error).__name__}: {error}). Its first "
            "start downloads a build of Unity into ~/.ai2thor, and CloudRendering needs Vulkan "
            "(apt-get install libvulkan1)."
        ) from error


def _between(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    return math.hypot(one["x"] - other["x"], one["z"] - other["z"])
