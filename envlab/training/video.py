"""Videos of environment 0, as in Isaac Lab: ``--video``, ``--video_length``, ``--video_interval``.

H.264 in MP4 by PyAV. It encodes inside this process, so that Ctrl-C, which reaches a whole process
group, cannot end a separate ffmpeg before the last frames are written. Its wheel is self-contained
(104 MB installed; imageio-ffmpeg's is 165 MB).
"""

from __future__ import annotations

import importlib.util
import logging
import os
from fractions import Fraction
from pathlib import Path

import numpy as np
from tqdm import tqdm

from envlab.distributed.disk import surviving_disk_errors
from envlab.envs import BatchedEnv
from envlab.errors import ConfigurationError
from envlab.sim.opengl import INSTALL_HINT, opengl_problems, pin_opengl
from envlab.training.flags import Flags

logger = logging.getLogger(__name__)

LENGTH = 200
"""Steps of a clip."""

INTERVAL = 2000
"""Steps between the starts of two clips, in training."""

CONTAINER = {"movflags": "frag_keyframe+empty_moov+default_base_moof", "flush_packets": "1"}
"""Written a second at a time, so that a clip plays even if the process was killed midway."""

ENCODER: dict[str, object] = {"preset": "veryfast", "tune": "zerolatency"}
"""Holds no frames back. A clip of 200 frames of Cartpole has 70 kB and takes 2.3 s on a CPU,
nearly all of it for rendering."""


class VideoRecorder:
    """Writes clips of environment 0, ``step_<n>.mp4``, where ``n`` is the step it starts at.

    A clip plays in real time. A frame shows the state after a step, which is of the new episode if
    one ended.
    """

    def __init__(
        self,
        env: BatchedEnv,
        directory: Path,
        *,
        length: int = LENGTH,
        interval: int | None = INTERVAL,
    ) -> None:
        """Write nothing yet.

        Args:
            env: The environment, with ``render_mode="rgb_array"``.
            directory: Folder to write to, made with the first clip.
            length: Steps of a clip.
            interval: Steps between the starts of two clips; None: a single clip. A clip that is
                still running at the next start is completed first.
        """
        self._env, self._directory = env, directory
        self.length, self.interval = length, interval
        self._step = 0
        self._clip: _Clip | None = None
        self.paths: list[Path] = []
        """The clips, oldest first."""
        # No bar in a training, which logs its progress, or without a terminal.
        self._progress = tqdm(
            total=length, desc="Video", unit="frame", leave=False, disable=interval or None
        )

    def after_step(self) -> None:
        """Record a frame if a clip is due or running. Call it after each environment step."""
        step, self._step = self._step, self._step + 1
        is_start = step == 0 if self.interval is None else step % self.interval == 0
        if self._clip is None and not is_start:
            return
        picture = self._env.render()
        assert picture is not None, "a recorder's environment has render_mode='rgb_array'"
        clip, self._clip = self._clip, None  # stays so if the disk is full
        path = self._directory / f"step_{step}.mp4" if clip is None else clip.path
        with surviving_disk_errors(path, *_broken_off(path)):
            if clip is None:
                self._directory.mkdir(parents=True, exist_ok=True)
                clip = _Clip(path, picture.shape, max(1, round(1.0 / self._env.step_dt)))
                self.paths.append(path)
            clip.write(picture)
            self._progress.update()
            self._clip = clip
        if self._clip is not None and self._clip.num_frames == self.length:
            self.close()

    def close(self) -> None:
        """Finish the running clip, if there is one."""
        self._progress.close()
        if self._clip is not None:
            clip, self._clip = self._clip, None
            with surviving_disk_errors(clip.path, *_broken_off(clip.path)):
                clip.close()
            logger.debug("Wrote %s (%d frames).", os.path.relpath(clip.path), clip.num_frames)


def _broken_off(path: Path) -> tuple[str, str]:
    return f"The video {path} is broken off", "The run continues."


class _Clip:
    """One file that is being written."""

    def __init__(self, path: Path, shape: tuple[int, ...], fps: int) -> None:
        import av  # an optional package

        self.path = path
        self.num_frames = 0
        self._frame_of = av.VideoFrame.from_ndarray
        self._container = av.open(str(path), mode="w", options=CONTAINER)
        self._stream = self._container.add_stream("libx264", rate=Fraction(fps))
        self._stream.height, self._stream.width = shape[:2]
        self._stream.pix_fmt = "yuv420p"  # which all players support
        self._stream.options = ENCODER
        self._stream.codec_context.gop_size = fps

    def write(self, picture: np.ndarray) -> None:
        """Append a frame, uint8 ``(height, width, 3)``."""
        self._container.mux(self._stream.encode(self._frame_of(picture, format="rgb24")))
        self.num_frames += 1

    def close(self) -> None:
        """Write the frames still in the encoder, and the end of the file."""
        if self.num_frames:
            self._container.mux(self._stream.encode(None))
        self._container.close()


def render_mode(flags: Flags) -> str | None:
    """Return the ``render_mode`` that an environment needs for these flags."""
    return "rgb_array" if flags.video else None


def start_recording(flags: Flags, env: BatchedEnv, directory: Path) -> VideoRecorder | None:
    """Return the recorder that the flags ask for, on rank 0.

    Args:
        flags: ``video``, ``video_length`` and, in training, ``video_interval``; play makes one.
        env: The environment.
        directory: Where to write.
    """
    if not (flags.video and env.context.is_main):
        return None
    interval = flags.video_interval or INTERVAL if flags.command == "train" else None
    length = flags.video_length or LENGTH
    return VideoRecorder(env, directory, length=length, interval=interval)


def check_recording(flags: Flags, env: BatchedEnv) -> None:
    """Refuse ``--video`` if it cannot work, before anything is written. Called by every rank.

    Raises:
        ConfigurationError: On every rank, if rank 0 has no encoder or cannot render.
    """
    if not flags.video:
        return
    problem = env.context.broadcast(_find_problem(env) if env.context.is_main else None)
    if problem is not None:
        raise ConfigurationError(problem)


def _find_problem(env: BatchedEnv) -> str | None:
    """Return why this process cannot record, if so. Leaves the renderer open for the first clip."""
    if importlib.util.find_spec("av") is None:
        return (
            "--video needs the package 'av' to write videos, which is not installed. Install it "
            "with: pip install -c constraints.txt -e '.[video]'"
        )
    pin_opengl(env.context.device.index or 0)  # None on a CPU
    try:
        env.render()
    except Exception as error:  # each OpenGL raises its own types
        return (
            "--video cannot render on this machine "
            f"({opengl_problems() or f'{type(error).__name__}: {error}'}). {INSTALL_HINT}."
        )
    return None
