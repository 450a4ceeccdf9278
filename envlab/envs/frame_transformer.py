"""Poses of frames on bodies as seen from another frame; Isaac Lab's frame transformer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import mujoco
import torch

from envlab.envs import math
from envlab.envs.entities import as_index, columns
from envlab.envs.managers.sensor import InstantSensor, PeriodicSensorCfg
from envlab.envs.spec_sensors import OffsetCfg
from envlab.errors import ConfigurationError, did_you_mean

if TYPE_CHECKING:
    from envlab.envs.vector_env import VectorEnv


@dataclass(kw_only=True)
class FrameCfg:
    """A frame on a body."""

    body_name: str
    """The body."""
    name: str = ""
    """The frame's name; empty: the body's."""
    offset: OffsetCfg = field(default_factory=OffsetCfg)
    """Its pose on the body."""


@dataclass(kw_only=True)
class FrameTransformerCfg(PeriodicSensorCfg):
    """Poses of some frames in another."""

    DATA_FIELDS: ClassVar[tuple[str, ...]] = ("xpos", "xquat")

    body_name: str = "base"
    """The body of the source frame."""
    source_frame_offset: OffsetCfg = field(default_factory=OffsetCfg)
    """The source frame's pose on it."""
    target_frames: list[FrameCfg] = field(default_factory=list)
    """The frames whose poses are measured."""

    def build(self, env: VectorEnv) -> FrameTransformer:
        return FrameTransformer(self, env)


class FrameTransformer(InstantSensor):
    """See :class:`FrameTransformerCfg`. Positions are in m, orientations (w, x, y, z).

    Attributes:
        target_frame_names: Names of the frames, ``num_frames``.
    """

    def __init__(self, cfg: FrameTransformerCfg, env: VectorEnv) -> None:
        """Look up the bodies.

        Raises:
            ConfigurationError: If a body does not exist, or there is no target.
        """
        super().__init__(cfg, env)
        if not cfg.target_frames:
            raise ConfigurationError(
                "A frame transformer has no target_frames. Add FrameCfg(body_name=...) to them."
            )
        self.target_frame_names = [frame.name or frame.body_name for frame in cfg.target_frames]
        bodies = [cfg.body_name, *(frame.body_name for frame in cfg.target_frames)]
        offsets = [cfg.source_frame_offset, *(frame.offset for frame in cfg.target_frames)]
        model = env.sim.model
        self._ids = as_index([_body(model, name) for name in bodies], model.nbody, env.device)
        self._pos = torch.tensor([offset.pos for offset in offsets], device=env.device)
        rot = torch.tensor([offset.rot for offset in offsets], device=env.device)
        self._quat = math.normalize(rot)

    def present(self) -> dict[str, torch.Tensor]:
        data, shape = self._env.sim.data, (self._env.num_envs, -1, -1)
        pos, quat = math.combine_frame_transforms(
            columns(data.xpos, self._ids),
            columns(data.xquat, self._ids),
            self._pos.expand(shape),
            self._quat.expand(shape),
        )
        targets, num = (pos[:, 1:], quat[:, 1:]), len(self.target_frame_names)
        source = pos[:, :1].expand(-1, num, -1), quat[:, :1].expand(-1, num, -1)
        pos_source, quat_source = math.subtract_frame_transforms(*source, *targets)
        return {"pos": pos, "quat": quat, "pos_source": pos_source, "quat_source": quat_source}

    @property
    def source_pos_w(self) -> torch.Tensor:
        """Position of the source frame in the world, ``(num_envs, 3)``."""
        return self.measured()["pos"][:, 0]

    @property
    def source_quat_w(self) -> torch.Tensor:
        """Orientation of the source frame in the world, ``(num_envs, 4)``."""
        return self.measured()["quat"][:, 0]

    @property
    def target_pos_w(self) -> torch.Tensor:
        """Positions of the frames in the world, ``(num_envs, num_frames, 3)``."""
        return self.measured()["pos"][:, 1:]

    @property
    def target_quat_w(self) -> torch.Tensor:
        """Orientations of the frames in the world, ``(num_envs, num_frames, 4)``."""
        return self.measured()["quat"][:, 1:]

    @property
    def target_pos_source(self) -> torch.Tensor:
        """Positions of the frames in the source frame, ``(num_envs, num_frames, 3)``."""
        return self.measured()["pos_source"]

    @property
    def target_quat_source(self) -> torch.Tensor:
        """Orientations of the frames in the source frame, ``(num_envs, num_frames, 4)``."""
        return self.measured()["quat_source"]


def _body(model: mujoco.MjModel, name: str) -> int:
    names: list[Any] = [model.body(index).name for index in range(model.nbody)]
    if name not in names:
        raise ConfigurationError(
            f"A frame transformer names the body {name!r}, but the model has {', '.join(names)}."
            f"{did_you_mean(name, names)}"
        )
    return names.index(name)
