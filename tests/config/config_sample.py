"""A small task config in Isaac Lab's shape, and one that uses every type a config can hold."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal


def is_alive() -> float:
    return 1.0


def joint_velocity() -> float:
    return 0.0


class Network:
    pass


class WideNetwork(Network):
    pass


class Mode(enum.Enum):
    RESET = 1
    INTERVAL = 2


@dataclass(kw_only=True)
class RewardTermCfg:
    __removable__ = True

    func: Callable[..., float] = is_alive
    weight: float = 1.0
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(kw_only=True)
class EventTermCfg:
    __removable__ = True

    mode: Mode = Mode.INTERVAL
    interval_range_s: tuple[float, float] = (10.0, 15.0)


@dataclass(kw_only=True)
class RewardsCfg:
    """The base environment has no terms."""


@dataclass(kw_only=True)
class BalanceRewardsCfg(RewardsCfg):
    alive: RewardTermCfg = field(default_factory=RewardTermCfg)
    joint_vel: RewardTermCfg = field(
        default_factory=lambda: RewardTermCfg(
            func=joint_velocity,
            weight=-0.01,
            params={"joints": ("slider", "hinge"), "threshold": 0.5, "limit": None, "count": 2},
        )
    )


@dataclass(kw_only=True)
class BalanceEventsCfg:
    push_robot: EventTermCfg = field(default_factory=EventTermCfg)


@dataclass(kw_only=True)
class SceneCfg:
    num_envs: int = 4096
    env_spacing_m: float = 4.0


@dataclass(kw_only=True)
class SimCfg:
    dt: float = 1 / 120
    backend: Literal["mujoco", "mujoco_warp"] = "mujoco"
    gravity: tuple[float, float, float] = (0.0, 0.0, -9.81)


@dataclass(kw_only=True)
class EnvCfg:
    seed: int | None = None
    decimation: int = 2
    debug: bool = False
    scene: SceneCfg = field(default_factory=SceneCfg)
    sim: SimCfg = field(default_factory=SimCfg)
    rewards: RewardsCfg = field(default_factory=RewardsCfg)
    events: Any = None

    @property
    def step_dt(self) -> float:
        return self.sim.dt * self.decimation


@dataclass(kw_only=True)
class BalanceEnvCfg(EnvCfg):
    rewards: RewardsCfg = field(default_factory=BalanceRewardsCfg)
    events: Any = field(default_factory=BalanceEventsCfg)


@dataclass(kw_only=True)
class AlgorithmCfg:
    learning_rate: float = 1e-3
    schedule: str = "adaptive"


@dataclass(kw_only=True)
class AgentCfg:
    max_iterations: int = 150
    run_name: str = ""
    hidden_dims: list[int] = field(default_factory=lambda: [32, 32])
    algorithm: AlgorithmCfg = field(default_factory=AlgorithmCfg)


@dataclass(kw_only=True)
class EveryTypeCfg:
    required: int
    text: str = "1e-3"
    texts: list[str] = field(
        default_factory=lambda: [
            "yes",
            "null",
            "010",
            "-08",
            "1:30",
            "2026-01-31",
            "",
            " x: #y ",
            "é",
        ]
    )
    tiny: float = 1e-05
    floats: tuple[float, ...] = (1e20, 0.1, -0.0, float("inf"), 1 / 3)
    flag_or_count: bool | int = 1
    scale: float | dict[str, float] = 1.0
    pair: tuple[int, str] = (1, "a")
    terms: list[RewardTermCfg] = field(default_factory=lambda: [RewardTermCfg()])
    named: dict[str, EventTermCfg] = field(default_factory=lambda: {"a": EventTermCfg()})
    mode: Mode | None = Mode.RESET
    network: type[Network] = Network
    anything: Any = (1, (2.5, "x"))
    nested: dict[str, Any] = field(default_factory=lambda: {"f": is_alive, "m": Mode.RESET})
    derived: int = field(init=False, default=7)
