"""The states of a clip at any time, as tensors."""

from __future__ import annotations

from typing import NamedTuple

import torch

from envlab.envs.math import normalize
from envlab.errors import ConfigurationError, did_you_mean
from envlab.motion import MotionClip


class Frames(NamedTuple):
    """States of a humanoid; ``n`` of them, in the world."""

    joint_pos: torch.Tensor
    """``(n, num_joints)``, in rad."""
    joint_vel: torch.Tensor
    body_pos: torch.Tensor
    """``(n, num_bodies, 3)``, in m."""
    body_quat: torch.Tensor
    """``(n, num_bodies, 4)``, (w, x, y, z)."""
    body_lin_vel: torch.Tensor
    """Of the bodies' origins, ``(n, num_bodies, 3)``, in m/s."""
    body_ang_vel: torch.Tensor


class MotionFrames:
    """A clip on a device, interpolated between its frames.

    Attributes:
        dt: Time between two frames, in s.
        duration: Time from the first to the last, in s.
    """

    def __init__(self, clip: MotionClip, device: torch.device) -> None:
        self._names, self._clip_name = clip.body_names or (), clip.name
        self.dt, self.duration = 1.0 / clip.fps, clip.seconds
        self._last = clip.num_frames - 1
        arrays = (
            *(clip.joint_pos, clip.joint_vel, clip.body_pos_w, clip.body_quat_w),
            *(clip.body_lin_vel_w, clip.body_ang_vel_w),
        )
        self._frames = Frames(*(torch.tensor(array).float().to(device) for array in arrays))

    def body(self, name: str) -> int:
        """Return the index of a body among those of the clip.

        Raises:
            ConfigurationError: If the clip lacks it.
        """
        if name not in self._names:
            raise ConfigurationError(
                f"The motion {self._clip_name} lacks the body {name!r}; it has "
                f"{', '.join(self._names)}.{did_you_mean(name, self._names)} Give another clip."
            )
        return self._names.index(name)

    def at(self, times: torch.Tensor) -> Frames:
        """Return the states at times in s, ``(n,)``; outside of the clip, those at its ends."""
        place = (times / self.dt).clamp(0.0, float(self._last))
        before = place.long().clamp(max=self._last - 1)
        share = place - before

        def between(values: torch.Tensor, *, are_quats: bool) -> torch.Tensor:
            first, second = values[before], values[before + 1]
            if are_quats:  # the shorter way
                second = torch.where((first * second).sum(-1, keepdim=True) < 0.0, -second, second)
            return torch.lerp(first, second, share.view(-1, *[1] * (values.dim() - 1)))

        # Between frames 17 ms apart, normalised means are as good as slerp: to 1e-6 rad at 5 rad/s.
        found = Frames(
            *(between(v, are_quats=n == "body_quat") for n, v in self._frames._asdict().items())
        )
        return found._replace(body_quat=normalize(found.body_quat))
