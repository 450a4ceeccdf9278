"""Checks of the input before torch is loaded.

They find the configuration, run or checkpoint that flags name, limit the code that a stranger's
file may name to that of tasks and libraries and to what the user admits, and refuse settings that
exclude each other, whether flags, overrides or lines of a file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from envlab import libraries, registry
from envlab.agent_cfg import value_at
from envlab.config import Override, Trust, sets_value
from envlab.config.ranges import check_conditions
from envlab.errors import CheckpointError, ConfigurationError, RunDirectoryError
from envlab.foreign import read_text
from envlab.libraries import Library
from envlab.registry import packages_of
from envlab.run.manifest import LOG_ROOT, read_manifest, read_manifests
from envlab.run.pretrained import SELECTOR, TRAIN_FIRST, shipped
from envlab.task import Task
from envlab.training.flags import Flags, given_flag, guest_flags

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


def check_exclusions(
    flags: Flags, configs: Mapping[str, Any], overrides: Sequence[Override], base: Path | None
) -> None:
    """Refuse settings that exclude each other, as they declare at their fields.

    Args:
        flags: All flags.
        configs: The configurations by their root.
        overrides: The overrides that are in them.
        base: The run or file that they were taken from, if any.

    Raises:
        ConfigurationError: Naming both, with the file's line if one comes from a file.
    """
    if configs["agent"].overlap and not configs["agent"].OVERLAPS:
        raise ConfigurationError(
            "agent.overlap=true has no effect here: only fast_sac and rsl_rl's PPO can collect "
            "while they learn. Leave it out, or train with one of them."
        )
    paths = {f"agent.{path}": name for name, path in configs["agent"].FLAGS.items()}
    for field in dataclasses.fields(flags):
        paths.setdefault(field.metadata.get("path", ""), field.name)

    def flag_of(path: str) -> str | None:
        """Return the given flag that sets a value."""
        name = paths.get(path)
        return name if name and getattr(flags, name, None) is not None else None

    def given(setting: str) -> str | None:
        if setting.startswith("--"):
            return given_flag(flags, setting)
        path, _, wanted = setting.partition("=")
        value = value_at(configs, path)
        if value == _default(configs, path) or wanted not in ("", str(value)):
            return None
        if name := flag_of(path):
            return f"--{name} {value}"
        return f"{path}={str(value).lower() if isinstance(value, bool) else value}"

    def place(setting: str) -> str:
        path = setting.partition("=")[0]
        is_words = path.startswith("--") or flag_of(path) or sets_value(overrides, path)
        return "" if is_words or base is None else _place(base, path)

    check_conditions(
        {"--": flags} | {f"{root}.": cfg for root, cfg in configs.items()}, given, place
    )


def _default(configs: Mapping[str, Any], path: str) -> Any:
    """Return the default of a value; None if there is no such field."""
    above, _, name = path.rpartition(".")
    fields = getattr(value_at(configs, above), "__dataclass_fields__", {})
    if name not in fields:
        return None
    default, factory = fields[name].default, fields[name].default_factory
    return default if factory is dataclasses.MISSING else factory()


def _place(base: Path, path: str) -> str:
    """Return the file and line in which a value stands, in brackets; empty if it is nowhere."""
    root, *names = path.split(".")
    file = base / "params" / f"{root}.yaml" if base.is_dir() else base
    node: Any = yaml.compose(read_text(file), Loader=yaml.SafeLoader)
    line = 0
    for wanted in names if base.is_dir() else (root, *names):
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        key, node = next((pair for pair in pairs if pair[0].value == wanted), (None, None))
        if key is None:  # such as below a merge key
            return ""
        line = key.start_mark.line + 1
    return f" ({file}, line {line})"


def trust_of(modules: Iterable[str] | None, typed: Iterable[str] = ()) -> Trust:
    """Return the code that files may name.

    Args:
        modules: Those of ``--trust``.
        typed: Texts that the user has written, such as the values of overrides.
    """
    packages = registry.trusted_modules() | libraries.trusted_modules()
    return Trust(modules=packages | frozenset(modules or ()), named=frozenset(typed))


def module_of(task_id: str) -> str:
    """Return the module of ``module:Id`` or ``gym:module:Id``; empty for an id alone."""
    return task_id.removeprefix("gym:").rpartition(":")[0]


def check_task(task_id: str, trust: Trust) -> None:
    """Refuse a task that a file names by a module which is not trusted.

    To look it up would import the module, and so run it. Packages of a way to train are fine:
    envlab's own have environments that they register on import.

    Raises:
        ConfigurationError: Naming the module, and ``--trust``.
    """
    module = module_of(task_id)
    own = module.partition(".")[0] in packages_of(_places())
    if module and not (own and "._" not in module):
        trust.admit(task_id, module)


def _places() -> list[str]:
    """Return where the parts of libraries are, as ``module:name``."""
    known: Iterable[Library] = libraries.libraries().values()
    return [place for one in known for place in (one.cfg, one.build, one.player)]
