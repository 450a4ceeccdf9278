"""Inertial measurement units and the wrenches of joints, from MuJoCo sensors that they add."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import mujoco
import torch

from envlab.envs import math
from envlab.envs.entities import SceneEntityCfg, as_index, columns
from envlab.envs.managers.sensor import InstantSensor, PeriodicSensorCfg
from envlab.envs.spec_sensors import (
    KINDS,
    OffsetCfg,
    add_frame,
    add_sensor,
    columns_of,
    matches,
    names_of,
)

if TYPE_CHECKING:
    from envlab.envs.vector_env import VectorEnv

_OF_IMU = ("framepos", "framequat", "velocimeter", "gyro", "accelerometer", "frameangacc")


def _add(spec: mujoco.MjSpec, types: tuple[str, ...], site: str) -> None:
    for one in types:
        number = mujoco.mjtSensor.__members__[f"mjSENS_{one.upper()}"]
        add_sensor(spec, f"{one} of {site}", type=number, objtype=KINDS["site"], objname=site)


@dataclass(kw_only=True)
class ImuCfg(PeriodicSensorCfg):
    """An inertial measurement unit on a body; Isaac Lab's name."""

    DATA_FIELDS: ClassVar[tuple[str, ...]] = ("sensordata",)

    body_name: str = "base"
    """The body that carries it."""
    offset: OffsetCfg = field(default_factory=OffsetCfg)
    """Its pose on the body."""

    def add_to(self, spec: mujoco.MjSpec) -> None:
        _add(spec, _OF_IMU, self._site(spec))

    def build(self, env: VectorEnv) -> Imu:
        return Imu(self, env, self._site(env.model_spec))

    def _site(self, spec: mujoco.MjSpec) -> str:
        return add_frame(spec, "An IMU is on the body", self.body_name, self.offset)


class Imu(InstantSensor):
    """See :class:`ImuCfg`. Names are Isaac Lab's; ``_b`` is in the sensor's own frame."""

    def __init__(self, cfg: ImuCfg, env: VectorEnv, site: str) -> None:
        super().__init__(cfg, env)
        self._ids = {}
        for one in _OF_IMU:
            found = columns_of(env.sim.model, f"{one} of {site}")
            self._ids[one] = slice(found.start, found.stop)

    def present(self) -> dict[str, torch.Tensor]:
        return {name: self._env.sim.data.sensordata[:, ids] for name, ids in self._ids.items()}

    @property
    def pos_w(self) -> torch.Tensor:
        """Position in the world, in m, ``(num_envs, 3)``."""
        return self.measured()["framepos"]

    @property
    def quat_w(self) -> torch.Tensor:
        """Orientation (w, x, y, z) in the world, ``(num_envs, 4)``."""
        return self.measured()["framequat"]

    @property
    def projected_gravity_b(self) -> torch.Tensor:
        """Direction of gravity, ``(num_envs, 3)``."""
        return math.gravity_in_body(self.quat_w)

    @property
    def lin_vel_b(self) -> torch.Tensor:
        """Linear velocity in m/s, ``(num_envs, 3)``."""
        return self.measured()["velocimeter"]

    @property
    def ang_vel_b(self) -> torch.Tensor:
        """Angular velocity in rad/s, ``(num_envs, 3)``."""
        return self.measured()["gyro"]

    @property
    def lin_acc_b(self) -> torch.Tensor:
        """Acceleration as an accelerometer feels it, in m/s², ``(num_envs, 3)``.

        At rest it is upwards, opposite to gravity. Like all accelerations it is that of the last
        physics step.
        """
        return self.measured()["accelerometer"]

    @property
    def ang_acc_b(self) -> torch.Tensor:
        """Angular acceleration in rad/s², ``(num_envs, 3)``."""
        return math.quat_apply_inverse(self.quat_w, self.measured()["frameangacc"])


@dataclass(kw_only=True)
class JointWrenchCfg(PeriodicSensorCfg):
    """Forces and torques between bodies and their parents, as a robot's load cells measure."""

    DATA_FIELDS: ClassVar[tuple[str, ...]] = ("sensordata",)

    body_names: str | list[str] = ".*"
    """The bodies below the joints, by regular expressions that match in full."""

    def add_to(self, spec: mujoco.MjSpec) -> None:
        for body in self._bodies(spec):
            _add(spec, ("force", "torque"), self._site(spec, body))

    def build(self, env: VectorEnv) -> JointWrench:
        bodies = self._bodies(env.model_spec)
        return JointWrench(self, env, bodies, [self._site(env.model_spec, body) for body in bodies])

    def _bodies(self, spec: mujoco.MjSpec) -> list[str]:
        names = [name for name in names_of(spec, "body") if name != "world"]
        return matches("A joint's wrench is that of the body", self.body_names, names)

    def _site(self, spec: mujoco.MjSpec, body: str) -> str:
        return add_frame(spec, "", re.escape(body), OffsetCfg())


class JointWrench(InstantSensor):
    """See :class:`JointWrenchCfg`.

    Attributes:
        body_names: The bodies, in the model's order.
    """

    def __init__(
        self, cfg: JointWrenchCfg, env: VectorEnv, body_names: list[str], sites: list[str]
    ) -> None:
        super().__init__(cfg, env)
        self.body_names, model = body_names, env.sim.model
        names = [f"{kind} of {site}" for site in sites for kind in ("force", "torque")]
        found = [column for name in names for column in columns_of(model, name)]
        self._ids = as_index(found, model.nsensordata, env.device)

    def present(self) -> dict[str, torch.Tensor]:
        return {"wrenches": columns(self._env.sim.data.sensordata, self._ids).unflatten(1, (-1, 6))}

    @property
    def wrenches_b(self) -> torch.Tensor:
        """Force in N and torque in N m of the parent on each body, at and in the body's frame.

        ``(num_envs, num_bodies, 6)``.
        """
        return self.measured()["wrenches"]

    def select(self, cfg: SceneEntityCfg) -> JointWrench | WrenchesOfBodies:
        """Return the bodies that ``cfg.body_names`` matches."""
        if cfg.body_names is None:
            return self
        found = matches("A term asks for the wrench of the body", cfg.body_names, self.body_names)
        return WrenchesOfBodies(self, found, self._env.device)


class WrenchesOfBodies:
    """Some bodies of a :class:`JointWrench`: a term's ``asset_cfg`` when resolved."""

    def __init__(self, sensor: JointWrench, body_names: list[str], device: torch.device) -> None:
        self.body_names, self._sensor = body_names, sensor
        chosen = [sensor.body_names.index(name) for name in body_names]
        self._ids = as_index(chosen, len(sensor.body_names), device)

    @property
    def wrenches_b(self) -> torch.Tensor:
        """Force in N and torque in N m of the parent on each, ``(num_envs, num_bodies, 6)``."""
        return columns(self._sensor.wrenches_b, self._ids)
