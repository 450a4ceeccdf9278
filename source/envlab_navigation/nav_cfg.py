"""Configuration of navigation (``env.*``). It needs neither Warp nor a house."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from envlab.config import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Range,
    UnitInterval,
)
from envlab.envs.cfg import NanGuardCfg
from envlab.envs.discrete import DiscreteCfg
from envlab.errors import ConfigurationError, did_you_mean
from envlab.sim.cfg import AugmentationCfg
from envlab_navigation.furniture import TARGETS
from envlab_navigation.house import CEILING_HEIGHT, HOUSES_PER_SPLIT, check_split

ImageKind = Literal["depth", "rgb", "labels", "goal_mask"]
Action = Literal["MoveAhead", "RotateLeft", "RotateRight", "LookUp", "LookDown", "End"]
ACTIONS: tuple[Action, ...] = (
    *("MoveAhead", "RotateLeft", "RotateRight"),
    *("LookUp", "LookDown", "End"),
)
"""Actions of an agent, by AI2-THOR's names; ``End`` declares that it has arrived."""
Pixels = Annotated[int, Range(above=0, at_most=4096)]
"""Width or height of an image."""


@dataclass(kw_only=True)
class CameraCfg:
    """Pinhole cameras with square pixels (``env.camera.*``)."""

    width: Pixels = 64
    """Pixels from left to right."""
    height: Pixels = 64
    """Pixels from top to bottom."""
    hfov_deg: Annotated[float, Range(above=0, below=180)] = 79.0
    """Horizontal field of view; 79° as in RoboTHOR's and Habitat's ObjectNav challenges."""
    mount_m: Annotated[float, Range(above=0, below=CEILING_HEIGHT)] = 0.88
    """Height above the floor; the value of Habitat's ObjectNav challenge."""
    headings_deg: list[float] = field(default_factory=lambda: [0.0])
    """Directions of the cameras, to the left of straight ahead: one camera each, whose images
    follow one another in the channels."""
    pitch: Literal["shift", "tilt"] = "shift"
    """Effect of looking up or down: ``shift`` moves the image plane, as an architect's camera does,
    so that upright edges stay upright; ``tilt`` turns the camera, which takes 25 times as long on a
    CPU."""

    def check_values(self, path: str) -> None:
        """Refuse no camera at all.

        Raises:
            ConfigurationError: If there is no heading.
        """
        if not self.headings_deg:
            raise ConfigurationError(
                f"{path}.headings_deg is empty, but needs a direction for each camera, such as [0]."
            )


@dataclass(kw_only=True)
class HousesCfg:
    """The choice of houses (``env.houses.*``)."""

    split: str = "train"
    """``train``, ``val`` or ``test``."""
    files: list[str] = field(default_factory=list)
    """House files, or folders of them, in place of a split: see docs/navigation.md."""
    first_house: NonNegativeInt = 0
    """Index of the first house in its split, or among the files."""
    num_houses: PositiveInt = 1000
    """Number of houses from there on; at most the number of files."""
    num_slots: PositiveInt = 128
    """Houses in memory at a time, of 0.5 MB each."""
    rotate_every: PositiveInt = 50
    """Steps after which one slot switches to the next house, if there are more houses than
    slots."""
    cache_dir: str | None = "~/.cache/envlab/houses"
    """Folder of houses on disk, of 0.2 MB each; null: none."""

    def check_values(self, path: str) -> None:
        """Refuse a split or houses that do not exist.

        Raises:
            ConfigurationError: With the existing ones.
        """
        check_split(self.split)
        if self.first_house + self.num_houses > HOUSES_PER_SPLIT:
            raise ConfigurationError(
                f"{path} asks for {self.num_houses} houses from {self.first_house} on, but a split "
                f"has {HOUSES_PER_SPLIT}. Lower {path}.first_house or {path}.num_houses."
            )

    @property
    def source(self) -> str:
        """Source of the houses, for messages."""
        return f"houses of {self.split}" if not self.files else f"houses of {', '.join(self.files)}"

    def check_turns(self, max_episode_length: int, num_houses: int) -> None:
        """Refuse so few slots that no episode could begin before its house's turn ends.

        Args:
            max_episode_length: In steps.
            num_houses: Number of houses.

        Raises:
            ConfigurationError: With the required number.
        """
        needed = max_episode_length // self.rotate_every + 2
        if num_houses > self.num_slots and self.num_slots < needed:
            raise ConfigurationError(
                f"env.houses.num_slots is {self.num_slots}, but episodes of {max_episode_length} "
                f"steps and a turn every {self.rotate_every} steps need {needed}. Raise num_slots "
                "or rotate_every, or take no more houses than slots."
            )


@dataclass(kw_only=True)
class ThorCfg:
    """AI2-THOR, if it is the backend (``env.thor.*``)."""

    world: Literal["RoboTHOR", "iTHOR"] = "RoboTHOR"
    """Set of scenes; ``env.houses.split`` selects among them."""
    num_workers: NonNegativeInt = 4
    """Processes, which share the environments; 0: this one. Each environment has its own
    controller."""
    controller_timeout_s: PositiveFloat = 60.0
    """Longest time of a controller's action before the controller is replaced."""
    worker_timeout_s: PositiveFloat = 1200.0
    """Longest time of a process's step of its environments, including restarts."""


@dataclass(kw_only=True)
class NavSceneCfg:
    """The number of environments (``env.scene.*``)."""

    num_envs: PositiveInt = 64
    """Environments per process."""


@dataclass(kw_only=True)
class NavRewardsCfg:
    """Rewards (``env.rewards.*``); the defaults are AllenAct's for ObjectNav."""

    step: float = -0.01
    """Reward of every step."""
    progress: float = 1.0
    """For each metre that the geodesic distance to the goal shrinks; per step at most for the
    distance that the agent has moved."""
    success: float = 10.0
    """For an ``End`` where the goal is reached."""
    failed_end: float = 0.0
    """For an ``End`` elsewhere. A small penalty keeps a bold learner from giving up ``End``."""


@dataclass(kw_only=True)
class NavAugmentationCfg(AugmentationCfg):
    """Random changes of images (``env.augmentation.*``); 0 everywhere is off.

    Mirrored episodes are AllenAct's ``allow_flipping``, which mirrors half of them.
    """

    mirror: UnitInterval = 0.0
    """Share of the episodes that are mirrored: with left and right exchanged in images,
    actions and ``policy``, so that they are consistent."""


@dataclass(kw_only=True)
class NavEnvCfg:
    """Configuration of a :class:`envlab_navigation.nav_env.NavEnv` (``env.*``)."""

    TEST_SPLIT: ClassVar[dict[str, Any]] = {"houses": {"split": "test"}}
    """Changes that select the episodes for final results."""
    SMALLEST: ClassVar[dict[str, Any]] = {
        "houses": {"num_houses": 1, "first_house": 0, "cache_dir": None}
    }
    """Changes that select the smallest environment that uses all kernels."""
    backend: Literal["houses", "ai2thor"] = "houses"
    """World of the agents: houses of envlab, or AI2-THOR's scenes; see docs/navigation.md."""
    goal: Literal["point", "object"] = "point"
    """The goal: a point given relative to the agent, or any object of a class."""
    targets: list[str] = field(default_factory=lambda: list(TARGETS))
    """Classes to find, of objects as goals."""
    images: list[ImageKind] = field(default_factory=lambda: ["depth"])
    """Kinds of images that are observed, each as its own group."""
    gps_compass: bool = True
    """Whether ``policy`` has the agent's position relative to its start."""
    actions: list[Action] = field(
        default_factory=lambda: ["MoveAhead", "RotateLeft", "RotateRight", "End"]
    )
    """Available actions; an action is an index of this list."""
    max_episode_length: PositiveInt = 500
    """Time limit of an episode, in steps."""
    is_finite_horizon: bool = False
    """Whether the time limit is part of the task, so that it ends an episode like a failure."""
    start_range_m: tuple[NonNegativeFloat, NonNegativeFloat] = (1.0, 30.0)
    """Minimum and maximum geodesic distance between a start and its goal."""
    step_m: Annotated[float, Range(above=0, at_most=0.5)] = 0.25
    """Length of ``MoveAhead``."""
    turn_deg: Annotated[float, Range(above=0, at_most=180)] = 30.0
    """Angle of ``RotateLeft`` and ``RotateRight``; starts look in multiples of it."""
    look_deg: Annotated[float, Range(above=0, below=60)] = 30.0
    """Angle of ``LookUp`` and ``LookDown``, possible once from level."""
    slides: bool = True
    """Whether an agent slides along obstacles; else it stops at them."""
    success_tolerance_m: PositiveFloat = 0.1
    """Largest distance of a successful ``End`` to the zone of arrival: 1.0 m around objects, 0.26 m
    around points."""
    min_goal_pixels: NonNegativeInt = 2
    """Pixels of the goal that an agent must see for an ``End`` to succeed, of objects as goals."""
    seed: int | None = None
    """Base seed of the environments' random streams; null: the agent's."""
    rewards: NavRewardsCfg = field(default_factory=NavRewardsCfg)
    """Rewards."""
    camera: CameraCfg = field(default_factory=CameraCfg)
    """Cameras."""
    augmentation: NavAugmentationCfg = field(default_factory=NavAugmentationCfg)
    """Random changes of images."""
    houses: HousesCfg = field(default_factory=HousesCfg)
    """Houses."""
    thor: ThorCfg = field(default_factory=ThorCfg)
    """AI2-THOR, if it is the backend."""
    scene: NavSceneCfg = field(default_factory=NavSceneCfg)
    """Number of environments."""
    nan_guard: NanGuardCfg = field(default_factory=NanGuardCfg)
    """Limits for values that are not finite."""

    @property
    def action_space(self) -> DiscreteCfg:
        """The space of actions."""
        return DiscreteCfg(num_options=len(self.actions))

    @property
    def looks(self) -> bool:
        """Whether agents can look up or down."""
        return "LookUp" in self.actions or "LookDown" in self.actions

    def check_values(self, path: str) -> None:
        """Refuse unknown goals and actions.

        Raises:
            ConfigurationError: With the nearest name, or the missing one.
        """
        for name in self.targets:
            if name not in TARGETS:
                raise ConfigurationError(
                    f"{path}.targets names {name!r}, but the classes are {', '.join(TARGETS)}."
                    f"{did_you_mean(name, TARGETS)}"
                )
        if not self.targets:
            raise ConfigurationError(f"{path}.targets is empty, but needs a class to find.")
        if "End" not in self.actions or len(set(self.actions)) < len(self.actions):
            raise ConfigurationError(
                f"{path}.actions is {self.actions}, but needs 'End', without which no episode "
                "succeeds, and each action once."
            )
        if self.augmentation.changes_colours and "rgb" not in self.images:
            raise ConfigurationError(
                f"{path}.augmentation changes colours, but {path}.images is {self.images}. Add "
                "'rgb', or set all but augmentation.mirror to 0."
            )
        nearest, farthest = self.start_range_m
        if nearest > farthest:
            raise ConfigurationError(
                f"{path}.start_range_m is {[nearest, farthest]}, but must be two distances, the "
                "smaller first."
            )
        if not self.houses.files:  # their number is known once they are read
            self.houses.check_turns(self.max_episode_length, self.houses.num_houses)
