"""``isaaclab.app``: the flags of Isaac Lab's scripts, and no application."""

from __future__ import annotations

import argparse
import os
from typing import Any

import torch

from envlab.distributed.ranks import launched_local_rank
from envlab_isaaclab.kit import SETTINGS

__all__ = ["AppLauncher"]

_SWITCHES = ("headless", "enable_cameras", "xr", "cpu", "verbose", "info", "anim_recording_enabled")
_NUMBERS = ("livestream", "anim_recording_start_time", "anim_recording_stop_time")
_WORDS = ("experience", "rendering_mode", "kit_args")


class SimulationApp:
    """An inert stand-in for Isaac Sim's application."""

    def is_running(self) -> bool:
        """Return True, as scripts end by their own counts."""
        return True

    def is_exiting(self) -> bool:
        """Return False."""
        return False

    def update(self) -> None:
        """Do nothing: there is no window."""

    def close(self, *arguments: Any, **keywords: Any) -> None:
        """Do nothing: the script's end is the end."""


class AppLauncher:
    """Takes the flags; there is nothing to launch."""

    def __init__(self, launcher_args: Any = None, **keywords: Any) -> None:
        flags = launcher_args or {}
        given = {**(flags if isinstance(flags, dict) else vars(flags)), **keywords}
        self.local_rank = launched_local_rank()
        self.global_rank = int(os.environ.get("RANK", "0"))
        device = resolve_device(str(given.get("device") or "cuda:0"))
        self.device = str(device)
        self.device_id = device.index or 0
        self.app = SimulationApp()
        SETTINGS.set("/isaaclab/cameras_enabled", bool(given.get("enable_cameras")))

    @staticmethod
    def add_app_launcher_args(parser: argparse.ArgumentParser) -> None:
        """Add Isaac Lab's flags; those of windows and pictures have no effect."""
        group = parser.add_argument_group("app_launcher arguments")
        group.add_argument("--device", type=str, default="cuda:0", help="cpu, cuda or cuda:N")
        for name in _SWITCHES:
            group.add_argument(f"--{name}", action="store_true", default=False)
        for name in _NUMBERS:
            group.add_argument(f"--{name}", type=float, default=-1)
        for name in _WORDS:
            group.add_argument(f"--{name}", type=str, default="")


def resolve_device(name: str) -> torch.device:
    """Return the device for a name: the CPU without a GPU, this rank's GPU for the first."""
    if not name.startswith("cuda") or not torch.cuda.is_available():
        return torch.device("cpu")
    if name in ("cuda", "cuda:0"):
        return torch.device(f"cuda:{launched_local_rank()}")
    return torch.device(name)
