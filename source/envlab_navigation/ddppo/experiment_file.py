"""Loading an experiment from the file named on the command line.

The file is the user's own code and runs like any script. No file of a run directory refers to
it: to resume or play a run, the user names it again.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from envlab.errors import ConfigurationError, EnvlabError, did_you_mean
from envlab_bridge.config_kwargs import read_config_kwargs
from envlab_navigation.ddppo.experiment import ExperimentConfig

T = TypeVar("T")


def load_experiment(
    given: str, config_kwargs: str | None = None, *, allenact: bool = False
) -> ExperimentConfig:
    """Return the experiment of a file: the same object for the same arguments.

    Args:
        given: The file, ``experiment.py`` or, of several classes in it, ``experiment.py:Class``.
        config_kwargs: Arguments of the class, as JSON or a file with JSON.
        allenact: Whether modules of AllenAct are replaced by their counterparts here.

    Raises:
        ConfigurationError: If there is no such file or class, it raises, or arguments do not fit.
    """
    kwargs = {} if config_kwargs is None else read_config_kwargs(config_kwargs)
    return load_cached(given, json.dumps(kwargs), allenact)


def load_again(source: tuple[str, str]) -> ExperimentConfig:
    """Return an experiment of AllenAct's in a worker, from its ``source``."""
    return load_cached(*source, True)


@cache
def load_cached(given: str, kwargs_json: str, allenact: bool) -> ExperimentConfig:
    """See :func:`load_experiment`; each is loaded once."""
    name, _, class_name = given.partition(".py:")
    path = Path(f"{name}.py" if class_name else name)
    if path.suffix != ".py" or not path.is_file():
        siblings = [str(one) for one in path.parent.glob("*.py")] if path.parent.is_dir() else []
        raise ConfigurationError(
            f"There is no experiment {str(path)!r}: it must be a Python file."
            f"{did_you_mean(str(path), siblings)}"
        )
    if allenact:
        from envlab_navigation.ddppo.allenact.houses import install_surface
        from envlab_navigation.ddppo.allenact.packages import needs_packages

        if needs_packages(path):
            return _load_of_packages(path, class_name, (given, kwargs_json))
        install_surface()
    module = calling(path, "as it was loaded", lambda: _import(path))
    return _made(_choose(module, path, class_name), path, kwargs_json)


def _load_of_packages(path: Path, class_name: str, source: tuple[str, str]) -> ExperimentConfig:
    """Return an experiment that is made of AllenAct's own objects.

    Raises:
        ConfigurationError: If a package is missing, or as :func:`load_experiment`.
    """
    from envlab_navigation.ddppo.allenact.packages import prepare_packages, refuse_missing

    try:
        prepare_packages(path)
        from envlab_navigation.ddppo.allenact.experiment import PeerExperiment, is_experiment

        module = calling(path, "as it was loaded", lambda: _import(path), (ModuleNotFoundError,))
    except ModuleNotFoundError as error:
        refuse_missing(path, str(error.name))
    chosen = _choose(module, path, class_name, is_experiment, "AllenAct's ExperimentConfig")
    return PeerExperiment(_made(chosen, path, source[1]), source)


def _made(chosen: type[T], path: Path, kwargs_json: str) -> T:
    """Return an experiment of a class with its arguments."""
    kwargs = json.loads(kwargs_json)
    _check_kwargs(chosen, kwargs, path)
    return calling(path, f"in {chosen.__name__}.__init__", lambda: chosen(**kwargs))


def calling(
    path: Path,
    where: str,
    function: Callable[[], T],
    passed_on: tuple[type[Exception], ...] = (),
) -> T:
    """Return the result of code of an experiment's file; show its own traceback on errors.

    Args:
        path: The file.
        where: Description of the call.
        function: Calls it.
        passed_on: Errors that are left to the caller.

    Raises:
        ConfigurationError: If it raises, after printing the traceback from the file on.
    """
    try:
        return function()
    except Exception as error:
        if isinstance(error, (*passed_on, EnvlabError)):
            raise
        frames = traceback.extract_tb(error.__traceback__)
        own = [n for n, frame in enumerate(frames) if Path(frame.filename).name == path.name]
        shown = frames[own[0] :] if own else frames[-1:]
        lines = ["Traceback (most recent call last):\n", *traceback.format_list(shown)]
        print("".join([*lines, *traceback.format_exception_only(error)]), file=sys.stderr, end="")
        hint = ""
        is_import = isinstance(error, ImportError) and "allenact" not in sys.modules
        if is_import and re.search(r"^(from|import) allenact", path.read_text(), re.MULTILINE):
            hint = " To run an experiment of AllenAct's, add --allenact."
        raise ConfigurationError(
            f"The experiment {path} raised {type(error).__name__} {where}, see above.{hint}"
        ) from None


def _import(path: Path) -> ModuleType:
    """Import a file, with its folder on the path, as Python runs a script."""
    name = f"experiment_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look up the types of their fields
    sys.path.insert(0, str(path.parent.resolve()))
    spec.loader.exec_module(module)
    return module


def _is_experiment(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, ExperimentConfig)


def _choose(
    module: ModuleType,
    path: Path,
    class_name: str,
    is_experiment: Callable[[Any], bool] = _is_experiment,
    base: str = "envlab_navigation.ddppo.experiment.ExperimentConfig",
) -> type[Any]:
    """Return the one experiment that a file defines, or the named one."""
    found = {
        name: value
        for name, value in vars(module).items()
        if is_experiment(value) and value.__module__ == module.__name__
    }
    if class_name:
        if class_name not in found:
            raise ConfigurationError(
                f"{path} has no experiment {class_name!r}; it has {', '.join(found) or 'none'}."
                f"{did_you_mean(class_name, found)}"
            )
        return found[class_name]
    if not found:
        is_peers = is_experiment is _is_experiment and "allenact" in path.read_text()
        hint = " To run an experiment of AllenAct's, add --allenact." if is_peers else ""
        raise ConfigurationError(
            f"{path} has no experiment: no class there derives from {base} and defines all of its "
            f"methods.{hint}"
        )
    if len(found) > 1:
        raise ConfigurationError(
            f"{path} has {len(found)} experiments, {', '.join(found)}. Name the one to run: "
            f"{path}:{next(iter(found))}."
        )
    return next(iter(found.values()))


def _check_kwargs(chosen: type, kwargs: Mapping[str, Any], path: Path) -> None:
    """Refuse unknown arguments of ``__init__``, and missing ones."""
    has_own = chosen.__init__ is not object.__init__  # type: ignore[misc]
    signature = inspect.signature(chosen.__init__ if has_own else lambda self: None)  # type: ignore[misc]
    try:
        signature.bind(None, **kwargs)
    except TypeError as error:
        known = [one.name for one in signature.parameters.values() if one.kind.name[:3] != "VAR"][
            1:
        ]
        wrong = next((name for name in kwargs if name not in known), "")
        raise ConfigurationError(
            f"--config_kwargs: {chosen.__name__} in {path} {error}; it takes "
            f"{', '.join(known) or 'none'}.{did_you_mean(wrong, known)}"
        ) from None
