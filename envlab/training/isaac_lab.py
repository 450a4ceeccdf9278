"""Parts of Isaac Lab's command lines that ours lack: flags without effect, and other names.

Flags are those of Isaac Lab 2.3 (AppLauncher, and the train and play scripts of rsl_rl, rl_games
and skrl) and, where it differs, of 3.0.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from envlab.errors import ConfigurationError, did_you_mean
from envlab.training.flags import Flags

_NO_KIT = "there is no Isaac Sim below"
_NO_WINDOW = "there is no stream; --viz web shows environments in a browser"
WITHOUT_EFFECT = {
    "--livestream": (1, _NO_WINDOW),
    "--enable_cameras": (0, "cameras need no flag"),
    "--disable_fabric": (0, _NO_KIT),
    "--xr": (0, _NO_KIT),
    "--info": (0, _NO_KIT),
    "--experience": (1, _NO_KIT),
    "--rendering_mode": (1, _NO_KIT),
    "--kit_args": (1, _NO_KIT),
    "--anim_recording_enabled": (0, _NO_KIT),
    "--anim_recording_start_time": (1, _NO_KIT),
    "--anim_recording_stop_time": (1, _NO_KIT),
    "--export_io_descriptors": (0, "params/env.yaml says what is observed and done"),
    "--deterministic": (0, "runs on a CPU repeat bit by bit without it, those on a GPU do not"),
    "--ray-proc-id": (1, "the line that it adds is for Isaac Lab's own use of Ray"),
    "-rid": (1, "the line that it adds is for Isaac Lab's own use of Ray"),
}
"""Accepted flags: how many values each takes, and why it has no effect.

``--headless`` is not among them, as envlab is always headless.
"""
VIEWERS = {"viser": "web", "none": None, "kit": None, "newton": None, "rerun": None}
"""Isaac Lab's words for ``--viz``, and ours; None for windows that do not exist here."""

INSTEAD = {
    "--sigma": "rl_games' first standard deviation is agent.params.network.space.continuous."
    "sigma_init.val=...",
    "--use_pretrained_checkpoint": "A policy that comes with envlab is --checkpoint pretrained",
    "--train_env_cfg": "Give the id without -Play to play in the environment of training",
    "--external_callback": "A library of your own is registered as CONTRIBUTING.md shows",
    "--capture_env_sensors": "--video records what is drawn",
}
"""Flags that are refused, because they would change the results, and what to do instead."""

ENGINES = {
    "auto": "auto",
    "mujoco": "mujoco",
    "mujoco_warp": "mujoco_warp",
    "newton_mjwarp": "mujoco_warp",
    "analytic": "analytic",
}
"""Values of ``physics=``, Isaac Lab 3's word for ``env.sim.backend``."""


class _WithoutEffect(argparse.Action):
    """Records that a flag was given."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        namespace.without_effect.append(option)


class _Refused(argparse.Action):
    """Refuses a flag, with what to do instead."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        raise ConfigurationError(f"There is no flag {option}. {INSTEAD[str(option)]}.")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that have no effect, and the refused ones; ``--help`` omits them."""
    for option, (num_values, _) in WITHOUT_EFFECT.items():
        parser.add_argument(
            option,
            action=_WithoutEffect,
            nargs=num_values,
            dest="without_effect",
            help=argparse.SUPPRESS,
        )
    for option in INSTEAD:
        parser.add_argument(
            option,
            action=_Refused,
            nargs="*",
            default=argparse.SUPPRESS,
            help=argparse.SUPPRESS,
        )
    parser.add_argument(
        "--cpu", action="store_const", const="cpu", dest="device", help=argparse.SUPPRESS
    )


def without_effect_line(flags: Flags) -> str | None:
    """Return the one line on the given flags that have no effect; None if there are none."""
    given = list(dict.fromkeys(flags.without_effect))
    if not given:
        return None
    reasons: dict[str, list[str]] = {}
    for option in given:
        reasons.setdefault(WITHOUT_EFFECT.get(option, (1, _NO_WINDOW))[1], []).append(option)
    texts = [f"{', '.join(options)} ({reason})" for reason, options in reasons.items()]
    return f"Without effect here: {'; '.join(texts)}."


def translated(overrides: Sequence[str]) -> list[str]:
    """Return overrides with Isaac Lab 3's ``physics=NAME`` as ``env.sim.backend=NAME``.

    Raises:
        ConfigurationError: For an engine that envlab lacks, and for ``renderer=`` and ``presets=``,
            which have no equivalent.
    """
    return [_translated(word) for word in overrides]


def _translated(word: str) -> str:
    key, _, value = word.partition("=")
    if key in ("renderer", "presets"):
        raise ConfigurationError(
            f"{word!r} chooses among Isaac Lab's presets, which envlab does not have. Leave it "
            "out, or give the values themselves, as env.sim.dt=0.005."
        )
    if key != "physics":
        return word
    names = value.split(",")  # with -m, several
    for name in names:
        if name not in ENGINES:
            raise ConfigurationError(
                f"physics is {name!r}, but must be one of {', '.join(ENGINES)}."
                f"{did_you_mean(name, ENGINES)} Leave it out for the one that suits the device."
            )
    return f"env.sim.backend={','.join(ENGINES[name] for name in names)}"
