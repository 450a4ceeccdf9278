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
from envlab_navigation.furniture import TARGETS
from envlab_navigation.house import CEILING_HEIGHT, HOUSES_PER_SPLIT, check_split

ImageKind = Literal["depth", "rgb", "labels", "goal_mask"]
Action = Literal["MoveAhead", "RotateLeft", "RotateRight", "LookUp", "LookDown", "End"]
ACTIONS: tuple[Action, ...] = (
    *("MoveAhead", "RotateLeft", "RotateRight"),
    *("LookUp", "LookDown", "End"),
)
"""What an agent can do, by the names of AI2-THOR; ``End`` says that it has arrived."""
Pixels = Annotated[int, Range(above=0, at_most=4096)]
"""Of an image from one side to the other."""


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
    """Height above the floor; that of Habitat's ObjectNav challenge."""
    headings_deg: list[float] = field(default_factory=lambda: [0.0])
    """Directions of the cameras, to the left of straight ahead: one camera for each, whose images
    follow one another in the channels."""
    pitch: Literal["shift", "tilt"] = "shift"
    """What looking up or down does: ``shift`` moves the image plane, as an architect's camera does,
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
    """Which houses there are (``env.houses.*``)."""

    split: str = "train"
    """``train``, ``val`` or ``test``."""
    files: list[str] = field(default_factory=list)
    """House files, or folders of them, in place of a split: see docs/navigation.md."""
    first_house: NonNegativeInt = 0
    """Index of the first house in its split, or among the files."""
    num_houses: PositiveInt = 1000
    """Houses from there on; of files, at most those that there are."""
    num_slots: PositiveInt = 128
    """Houses in memory at a time, of 0.5 MB each."""
    rotate_every: PositiveInt = 50
    """Steps after which one slot goes on to the next house, where there are more houses than
    slots."""
    cache_dir: str | None = "~/.cache/envlab/houses"
    """Where houses are kept on disk, of 0.2 MB each; null: nowhere."""

    def check_values(self, path: str) -> None:
        """Refuse a split or houses that there are not.

        Raises:
            ConfigurationError: With what there is.
        """
        check_split(self.split)
        if self.first_house + self.num_houses > HOUSES_PER_SPLIT:
            raise ConfigurationError(
                f"{path} asks for {self.num_houses} houses from {self.first_house} on, but a split "
                f"has {HOUSES_PER_SPLIT}. Lower {path}.first_house or {path}.num_houses."
            )

    @property
    def source(self) -> str:
        """Where the houses come from, for messages."""
        return f"houses of {self.split}" if not self.files else f"houses of {', '.join(self.files)}"

    def check_turns(self, max_episode_length: int, num_houses: int) -> None:
        """Refuse so few slots that no episode could begin before its house's turn ends.

        Args:
            max_episode_length: In steps.
            num_houses: Houses that there are.

        Raises:
            ConfigurationError: With the number that is needed.
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
    """AI2-THOR, where it is the backend (``env.thor.*``)."""

    world: Literal["RoboTHOR", "iTHOR"] = "RoboTHOR"
    """Whose scenes; ``env.houses.split`` says which of them."""
    num_workers: NonNegativeInt = 4
    """Processes, which share the environments; 0: this one. Each environment has a controller of
    its own."""
    controller_timeout_s: PositiveFloat = 60.0
    """How long a controller may take for anything before another is started in its place."""
    worker_timeout_s: PositiveFloat = 1200.0
    """How long a process may take for a step of its environments, restarts included."""


@dataclass(kw_only=True)
class NavSceneCfg:
    """The number of environments (``env.scene.*``)."""

    num_envs: PositiveInt = 64
    """Environments per process."""


@dataclass(kw_only=True)
class NavRewardsCfg:
    """What an agent earns (``env.rewards.*``); the defaults are AllenAct's for ObjectNav."""

    step: float = -0.01
    """In every step."""
    progress: float = 1.0
    """For each metre that the goal comes nearer, by the geodesic distance; not more in a step than
    the agent has moved."""
    success: float = 10.0
    """For an ``End`` where the goal is reached."""
    failed_end: float = 0.0
    """For an ``End`` elsewhere. A small penalty keeps a bold learner from giving up ``End``."""


@dataclass(kw_only=True)
class AugmentationCfg:
    """Random changes of what agents see (``env.augmentation.*``); 0 everywhere is off.

    Colours change anew in each picture, in the ranges of torchvision's ``ColorJitter``, which
    RobustNav, built on AllenAct, has with 0.4 for all four. Mirrored episodes are AllenAct's
    ``allow_flipping``, which has a share of 0.5.
    """

    brightness: UnitInterval = 0.0
    """Pictures are multiplied by a factor up to so much above or below 1."""
    contrast: UnitInterval = 0.0
    """The same for differences from a picture's mean."""
    saturation: UnitInterval = 0.0
    """The same for differences from grey."""
    hue: Annotated[float, Range(at_least=0, at_most=0.5)] = 0.0
    """Colours turn by up to this part of the circle of hues, either way."""
    noise: UnitInterval = 0.0
    """Standard deviation of the noise of a pixel, as a part of the largest value."""
    mirror: UnitInterval = 0.0
    """Share of the episodes that happen in the mirror: with left and right exchanged in images,
    actions and ``policy``, so that what is learned there is true."""

    @property
    def changes_colours(self) -> bool:
        """Whether pictures change."""
        changes = (self.brightness, self.contrast, self.saturation, self.hue, self.noise)
        return any(change > 0.0 for change in changes)


@dataclass(kw_only=True)
class NavEnvCfg:
    """Configuration of a :class:`envlab_navigation.nav_env.NavEnv` (``env.*``)."""

    TEST_SPLIT: ClassVar[dict[str, Any]] = {"houses": {"split": "test"}}
    """Changes that lead to the episodes of which final results are reported."""
    SMALLEST: ClassVar[dict[str, Any]] = {
        "houses": {"num_houses": 1, "first_house": 0, "cache_dir": None}
    }
    """Changes that lead to the least that uses all kernels."""
    backend: Literal["houses", "ai2thor"] = "houses"
    """Where agents are: in houses of envlab, or in AI2-THOR's scenes; see docs/navigation.md."""
    goal: Literal["point", "object"] = "point"
    """What to find: a place that is given relative to the agent, or any object of a class."""
    targets: list[str] = field(default_factory=lambda: list(TARGETS))
    """Classes to find, of objects as goals."""
    images: list[ImageKind] = field(default_factory=lambda: ["depth"])
    """What of the camera's images is observed, each as a group of its own."""
    gps_compass: bool = True
    """Whether ``policy`` says where the agent is relative to its start."""
    actions: list[Action] = field(
        default_factory=lambda: ["MoveAhead", "RotateLeft", "RotateRight", "End"]
    )
    """What the agent can do; actions are numbers in this list."""
    max_episode_length: PositiveInt = 500
    """Time limit of an episode, in steps."""
    is_finite_horizon: bool = False
    """Whether the time limit is part of the task, so that it ends an episode as a failure does."""
    start_range_m: tuple[NonNegativeFloat, NonNegativeFloat] = (1.0, 30.0)
    """Least and largest geodesic distance between a start and its goal."""
    step_m: Annotated[float, Range(above=0, at_most=0.5)] = 0.25
    """Length of ``MoveAhead``."""
    turn_deg: Annotated[float, Range(above=0, at_most=180)] = 30.0
    """Angle of ``RotateLeft`` and ``RotateRight``; starts look in multiples of it."""
    look_deg: Annotated[float, Range(above=0, below=60)] = 30.0
    """Angle of ``LookUp`` and ``LookDown``, of which one from level is possible."""
    slides: bool = True
    """Whether an agent slides along what is in its way; else it stays where it meets it."""
    success_tolerance_m: PositiveFloat = 0.1
    """How near the zone of arrival an ``End`` succeeds: 1.0 m around objects, 0.26 m around
    points."""
    min_goal_pixels: NonNegativeInt = 2
    """Pixels of the goal that an agent must see for an ``End`` to succeed, of objects as goals."""
    seed: int | None = None
    """Base seed of the environments' random streams; null: the agent's."""
    rewards: NavRewardsCfg = field(default_factory=NavRewardsCfg)
    """What an agent earns."""
    camera: CameraCfg = field(default_factory=CameraCfg)
    """What it sees with."""
    augmentation: AugmentationCfg = field(default_factory=AugmentationCfg)
    """What of it changes at random."""
    houses: HousesCfg = field(default_factory=HousesCfg)
    """Where it is."""
    thor: ThorCfg = field(default_factory=ThorCfg)
    """AI2-THOR, where it is the backend."""
    scene: NavSceneCfg = field(default_factory=NavSceneCfg)
    """Number of environments."""
    nan_guard: NanGuardCfg = field(default_factory=NanGuardCfg)
    """Limits for values that are not finite."""

    @property
    def action_space(self) -> DiscreteCfg:
        """What actions choose among."""
        return DiscreteCfg(num_options=len(self.actions))

    @property
    def looks(self) -> bool:
        """Whether agents can look up or down."""
        return "LookUp" in self.actions or "LookDown" in self.actions

    def check_values(self, path: str) -> None:
        """Refuse goals and actions that there are not.

        Raises:
            ConfigurationError: With the nearest name, or what is missing.
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
        if not self.houses.files:  # how many those are is known when they are read
            self.houses.check_turns(self.max_episode_length, self.houses.num_houses)
