"""Checks of flags alone, made before torch takes seconds to load."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envlab.distributed.timeouts import LEAST_TIMEOUT_S
from envlab.errors import (
    CheckpointError,
    ConfigurationError,
    RunDirectoryError,
    did_you_mean,
)
from envlab.libraries import Library
from envlab.plugins import named_plugins
from envlab.run.manifest import LOG_ROOT, read_manifest, read_manifests
from envlab.run.pretrained import SELECTOR, TRAIN_FIRST, shipped
from envlab.task import Task
from envlab.training import isaac_lab
from envlab.training.flags import Flags
from envlab.training.viewing import ENTRY_POINT_GROUP as VIEWERS

POSITIVE = (
    *("num_envs", "global_num_envs", "num_episodes", "num_steps"),
    *("max_iterations", "max_frames", "video_length", "video_interval"),
)
"""Flags that count something, and must be at least 1."""
_BELOW = ("*", "*/*", "*/*/*")
"""Where a folder of runs may have them: of an experiment, a library, or all."""


def check_flags(flags: Flags) -> None:
    """Refuse flags that make no sense, or that contradict each other.

    Raises:
        ConfigurationError: Naming the first of them.
    """
    _check_video(flags)
    _check_viewer(flags)
    _check_timeout(flags)
    if flags.num_envs and flags.global_num_envs:
        raise ConfigurationError(
            "--num_envs and --global_num_envs were both given; the first counts per process, the "
            "second in all. Keep one."
        )
    if flags.command == "train":
        _check_continuation(flags)
    elif flags.checkpoint == SELECTOR and flags.load_run is not None:
        raise ConfigurationError(
            f"--load_run has no effect with --checkpoint pretrained ({flags.load_run}). Leave "
            "one out."
        )
    elif flags.as_trained and flags.checkpoint != SELECTOR:
        raise ConfigurationError(
            f"--as_trained has no effect with --checkpoint {flags.checkpoint or 'latest'}: the "
            "policies of a run always take its own environment. Leave it out."
        )


def check_counts(flags: Mapping[str, Any]) -> None:
    """Refuse numbers that are not positive.

    Raises:
        ConfigurationError: Naming the first of them.
    """
    for name in POSITIVE:
        given = flags.get(name)
        for value in given if isinstance(given, list) else [given]:  # benchmarks take several
            if value is not None and value <= 0:
                raise ConfigurationError(f"--{name} is {value}, but must be greater than 0.")


def _check_continuation(flags: Flags) -> None:
    if flags.run_id == "":  # as from an unset variable
        raise ConfigurationError(
            "--run_id is empty, so unrelated runs would share a name. "
            "Give a name, or leave the flag out."
        )
    if flags.resume and flags.checkpoint == SELECTOR:
        raise ConfigurationError(
            "--checkpoint pretrained is a policy to play or export: it holds no optimizer, so no "
            "training can continue from it. Resume a run of your own."
        )
    if flags.multirun and flags.resume and flags.checkpoint is None and flags.load_run is None:
        raise ConfigurationError(
            "--resume takes the newest run, which with -m would be the run before. Name the one "
            "that all begin with by --load_run or --checkpoint; or give a sweep that may be ended "
            "a --run_id from its start, with which the same command continues it."
        )


def check_beginning(library: Library, flags: Flags) -> None:
    """Refuse to begin a new run with a policy if the library cannot.

    Raises:
        ConfigurationError: Naming the flag.
    """
    if flags.resume or (library.takes_policies and flags.checkpoint is not None):
        return
    for name in ("checkpoint", "load_run"):
        if getattr(flags, name) is not None:
            raise ConfigurationError(
                f"--{name} has no effect on a new run. Add --resume to continue one."
            )


def checkpoint_file(flags: Flags) -> Path | None:
    """Return the file that ``--checkpoint`` names; None if it must be found in a run.

    Raises:
        CheckpointError: If there is no such file, or it is a folder, and of no run.
        ConfigurationError: If ``--load_run`` names a run as well.
    """
    selector = flags.checkpoint or "latest"
    path = Path(selector).absolute()
    is_folder = _is_folder(selector)
    if is_folder:
        _check_is_run(Path(selector))
    elif not ("/" in selector or path.is_file()):
        return None
    elif not path.is_file():
        raise CheckpointError(
            f"There is no checkpoint {path}. Use 'latest', 'best', or the path of a file or a run."
        )
    if flags.load_run is not None:
        raise ConfigurationError(
            f"--load_run has no effect with a checkpoint's path ({selector}). Leave one out."
        )
    return None if is_folder else path


def run_and_name(flags: Flags) -> tuple[str | None, str]:
    """Return what names the run of a checkpoint that is no file's path, and its name there.

    ``--checkpoint`` may be a run's folder; then it is the run's latest one.
    """
    selector = flags.checkpoint or "latest"
    return (selector, "latest") if _is_folder(selector) else (flags.load_run, selector)


def _is_folder(selector: str) -> bool:
    """Return whether ``--checkpoint`` is a folder's path, and none of its words."""
    return selector not in ("latest", "best", SELECTOR) and Path(selector).is_dir()


def _check_is_run(folder: Path) -> None:
    """Refuse a folder that is no run's.

    Raises:
        CheckpointError: Naming a run in it.
    """
    if (folder / "run.json").is_file():
        return
    runs = next(filter(None, (list(read_manifests(folder, glob)) for glob in _BELOW)), [])
    if (folder.parent / "run.json").is_file():
        runs = [folder.parent]
    found = f"in which there are {len(runs)} runs" if len(runs) > 1 else "and no run"
    step = f"Give a run, such as --checkpoint={runs[-1]}," if runs else "Give a run"
    raise CheckpointError(
        f"--checkpoint is {folder}, which is a folder, {found}. {step} or the path of a checkpoint."
    )


def check_any_run(library: str, task: Task) -> None:
    """Refuse to look for a checkpoint if a library has trained nothing.

    Raises:
        RunDirectoryError: Naming the policy that comes with envlab, if there is one.
    """
    folder = Path(LOG_ROOT, library).absolute()
    if next(folder.glob("*/*/run.json"), None) is None:
        raise RunDirectoryError(
            f"There is no run with a checkpoint in {folder}. "
            f"{shipped(library, {task.id, task.trained_id})}{TRAIN_FIRST}"
        )


def given_config(flags: Flags) -> Path | None:
    """Return the run directory, or the file of ``envlab config``, that ``--config`` names, if any.

    Raises:
        EnvlabError: If it is neither.
    """
    if flags.config is None:
        return None
    path = Path(flags.config)
    path = path.parent if path.name == "params" else path
    if path.suffix not in (".yaml", ".yml"):
        read_manifest(path)
        return path
    if path.parent.name == "params" and (path.parents[1] / "run.json").is_file():
        raise ConfigurationError(
            f"--config is {path}, one half of a run's configuration. Give the run: "
            f"--config={path.parents[1]}."
        )
    from envlab.config import load_yaml

    values = load_yaml(path)
    parts = ("task", "library", "env", "agent", "population")
    unknown = [name for name in values if name not in parts]
    if unknown or "task" not in values:
        found = f"has {unknown[0]!r}" if unknown else "names no task"
        raise ConfigurationError(
            f"--config is {path}, which {found}. It must hold {', '.join(parts)}, as "
            "'envlab config' prints them."
        )
    return path


def _check_timeout(flags: Flags) -> None:
    value = flags.timeout_s
    if not LEAST_TIMEOUT_S <= value < float("inf"):
        raise ConfigurationError(
            f"--timeout_s is {value:g}, but must be at least {LEAST_TIMEOUT_S:g} seconds, and "
            "finite. Give a large number, such as 86400, to wait for a day."
        )


def _check_viewer(flags: Flags) -> None:
    """Check ``--viz``, and replace Isaac Lab's word by ours."""
    word, port = flags.viz, flags.viz_port
    if word in isaac_lab.VIEWERS:
        flags.viz = isaac_lab.VIEWERS[word]
        if flags.viz is None and word != "none":
            flags.without_effect.append(f"--viz {word}")
    elif word is not None and word not in (viewers := named_plugins(VIEWERS)):
        known = " or ".join(viewers) or "left out, as no viewer is installed"
        raise ConfigurationError(
            f"--viz is {word!r}, but must be {known}.{did_you_mean(word, viewers)}"
        )
    if flags.command == "play" and flags.viz is not None and flags.num_episodes is None:
        for name in ("json", "video"):
            if getattr(flags, name):
                raise ConfigurationError(
                    f"--{name} has no effect on --viz without --num_episodes, which plays until "
                    "you end it. Add --num_episodes, or leave one of them out."
                )
    if port is None:
        return
    if flags.viz != "web":
        raise ConfigurationError(
            "--viz_port has no effect without --viz web. Add it, or leave the port out."
        )
    if not 0 < port < 2**16:
        raise ConfigurationError(f"--viz_port is {port}, but must be from 1 to 65535.")


def _check_video(flags: Flags) -> None:
    for name in ("video_length", "video_interval"):
        if getattr(flags, name) is not None and not flags.video:
            raise ConfigurationError(
                f"--{name} has no effect without --video. Add --video, or leave it out."
            )
