"""Start frames of episodes in clips: parts of about a second, drawn by the failures in them.

After mjlab 1.6.0's adaptive sampling, for several clips and any number of processes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from envlab.errors import ConfigurationError

if TYPE_CHECKING:
    from envlab.motion import MotionClip


class MotionBins:
    """Parts of about a second, by which failures in clips are counted.

    Attributes:
        num: Number of bins of all clips.
        of_frame: The bin of each frame, int64 ``(T,)``.
    """

    def __init__(
        self,
        clips: Sequence[MotionClip],
        weights: Sequence[float],
        kernel: np.ndarray,
        uniform: float,
        step_dt: float,
        device: torch.device,
    ) -> None:
        """Divide clips.

        Args:
            clips: At the environment's rate.
            weights: How often each is drawn, in addition to its length.
            kernel: Weights of the failures in a bin, the next one and so on, in drawing the bin.
            uniform: Failures added in total, spread evenly over the bins.
            step_dt: Time between two frames, in s.
            device: Device of the draws.
        """
        counts = [int(clip.num_frames // (1.0 / step_dt)) + 1 for clip in clips]
        starts = np.cumsum([0, *(clip.num_frames for clip in clips)])
        self.num = sum(counts)
        first, of_frame, table = 0, [], []
        smoothing = np.zeros((self.num, self.num))
        for clip, count, start, weight in zip(clips, counts, starts[:-1], weights, strict=True):
            frames = np.arange(clip.num_frames)
            of_frame.append(first + np.minimum(frames * count // clip.num_frames, count - 1))
            for index in range(count):
                table.append((start, clip.num_frames, index, count, weight))
                for offset, share in enumerate(kernel / kernel.sum()):
                    smoothing[first + index, first + min(index + offset, count - 1)] += share
            first += count
        self.of_frame = torch.as_tensor(np.concatenate(of_frame), device=device)
        start, num_frames, index, count, weight = np.array(table, dtype=np.float64).T
        shares = {
            "uniform": num_frames / count * weight,
            "start": (index == 0) * weight,
        }
        # The robot is first compared with the frame after that in which it starts.
        rows = (index, count, num_frames - 1, num_frames - 2, start, start + num_frames)

        def moved(values: np.ndarray) -> torch.Tensor:
            return torch.as_tensor(values, dtype=torch.float64, device=device)

        self._smoothing = moved(smoothing * weight[:, None])
        self._fixed = {mode: moved(values) for mode, values in shares.items()}
        self._rows = moved(np.stack(rows, axis=1))
        self._uniform = moved(np.full(self.num, uniform / self.num))

    def shares(self, failed: torch.Tensor, mode: str) -> torch.Tensor:
        """Return how often each bin is drawn, float64 ``(num,)``, of sum 1."""
        if mode == "adaptive":
            shares = self._smoothing @ (failed + self._uniform)
        else:
            shares = self._fixed[mode]
        return shares / shares.sum()

    def frames(
        self, shares: torch.Tensor, drawn: torch.Tensor, mode: str
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return frames, int64, and the ends of their clips, of two draws from [0, 1) each."""
        which, where = drawn.double().unbind(1)
        bins = torch.searchsorted(shares.cumsum(0)[:-1], which.contiguous(), right=True)
        rows = self._rows[bins]
        index, count, last, most, start, _ = rows.unbind(1)
        place = index / count if mode == "start" else (index + where) / count
        start += torch.minimum((place * last).floor_(), most)
        frames, ends = rows[:, 4:].long().unbind(1)
        return frames, ends

    def statistics(self, shares: torch.Tensor) -> torch.Tensor:
        """Return the relative entropy of ``shares``, the largest share, and its place, (3,)."""
        entropy = (shares * (shares + 1e-12).log()).sum() / -max(math.log(self.num), 1e-12)
        most, index = shares.max(dim=0)
        if self.num == 1:
            entropy = torch.ones_like(entropy)
        return torch.stack((entropy, most, index / self.num))


def clip_weights(weights: Sequence[float] | None, num_clips: int) -> list[float]:
    """Return a weight for each clip; None: 1.

    Raises:
        ConfigurationError: If there are not ``num_clips``, or they are not valid weights.
    """
    chosen = [1.0] * num_clips if weights is None else list(weights)
    if len(chosen) != num_clips or min(chosen) < 0.0 or not sum(chosen) > 0.0:
        raise ConfigurationError(
            f"motion_weights is {chosen}, but must have {num_clips} values, one a motion, of 0 or "
            "more and not all 0."
        )
    return chosen
