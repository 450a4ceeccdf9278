"""What flags name on disk: a configuration, a run or a checkpoint; found before torch is loaded."""

from __future__ import annotations

from pathlib import Path

from envlab.errors import CheckpointError, ConfigurationError, RunDirectoryError
from envlab.run.manifest import LOG_ROOT, read_manifest, read_manifests
from envlab.run.pretrained import SELECTOR, TRAIN_FIRST, shipped
from envlab.task import Task
from envlab.training.flags import Flags, guest_flags

_BELOW = ("*", "*/*", "*/*/*")
"""Where a folder of runs may have them: of an experiment, a library, or all."""


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
        _check_is_run(Path(selector), "--checkpoint", " or the path of a checkpoint")
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
    """Return a checkpoint's run and its name within the run, if ``--checkpoint`` is no file's path.

    ``--checkpoint`` may be a run's folder; then it is the run's latest one.
    """
    selector = flags.checkpoint or "latest"
    return (selector, "latest") if _is_folder(selector) else (flags.load_run, selector)


def _is_folder(selector: str) -> bool:
    """Return whether ``--checkpoint`` is a folder's path, and none of its words."""
    return selector not in ("latest", "best", SELECTOR) and Path(selector).is_dir()


def _check_is_run(folder: Path, flag: str, otherwise: str) -> None:
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
    step = f"Give a run, such as {flag}={runs[-1]}," if runs else "Give a run"
    raise CheckpointError(f"{flag} is {folder}, which is a folder, {found}. {step}{otherwise}.")


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
        if path.is_dir():
            _check_is_run(path, "--config", " or a file that 'envlab config' printed")
        read_manifest(path)
        return path
    if path.parent.name == "params" and (path.parents[1] / "run.json").is_file():
        raise ConfigurationError(
            f"--config is {path}, one half of a run's configuration. Give the run: "
            f"--config={path.parents[1]}."
        )
    from envlab.config import load_yaml

    values = load_yaml(path)
    guests = (name for name, one in guest_flags().items() if one.cfg)
    parts = ("task", "library", "env", "agent", *guests)
    unknown = [name for name in values if name not in parts]
    if unknown or "task" not in values:
        found = f"has {unknown[0]!r}" if unknown else "names no task"
        raise ConfigurationError(
            f"--config is {path}, which {found}. It must hold {', '.join(parts)}, as "
            "'envlab config' prints them."
        )
    return path
