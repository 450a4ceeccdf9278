"""Motion clips: a robot's motion, frame by frame, for policies that should follow it."""

from envlab.motion.clip import MotionClip, clip_of_states, fit_clip, resample_clip
from envlab.motion.files import read_clip, read_csv, write_clip

__all__ = [
    "MotionClip",
    "clip_of_states",
    "fit_clip",
    "read_clip",
    "read_csv",
    "resample_clip",
    "write_clip",
]
