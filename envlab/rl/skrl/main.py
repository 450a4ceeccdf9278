"""The two commands of skrl: ``--ml_framework`` decides which adapter runs, and only that is loaded.

:mod:`envlab.rl.skrl.torch` is on PyTorch, :mod:`envlab.rl.skrl.jax` on JAX. The ``learner`` and the
``play`` of each have ``main(arguments, agent_cfg)``, which gets the defaults of the algorithm that
``--algorithm`` names.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import importlib.util
from collections.abc import Callable, Sequence

from envlab.errors import ConfigurationError
from envlab.rl.command.arguments import play_parser, train_parser
from envlab.rl.skrl.cfg import SkrlCfg

LIBRARY = "skrl"
_ADAPTERS = {"torch": "envlab.rl.skrl.torch", "jax": "envlab.rl.skrl.jax"}
_JAX_PACKAGES = ("jax", "flax", "optax")


def train(arguments: Sequence[str]) -> int:
    """Run ``train.py``: see :func:`envlab.rl.command.launch.run_training`."""
    flags, overrides = train_parser(LIBRARY).parse_with_overrides(arguments)
    return _run(flags, overrides, arguments, ".learner")


def play(arguments: Sequence[str]) -> int:
    """Run ``play.py``: see :func:`envlab.rl.command.play.run_playing`."""
    flags, overrides = play_parser(LIBRARY).parse_with_overrides(arguments)
    return _run(flags, overrides, arguments, ".play")


def _run(
    flags: argparse.Namespace, overrides: Sequence[str], arguments: Sequence[str], suffix: str
) -> int:
    framework = _framework(flags, overrides)
    if framework == "jax":
        _require_jax()
    main = importlib.import_module(_ADAPTERS[framework] + suffix).main
    code: int = main(arguments, _agent_cfg(flags, framework))
    return code


def _agent_cfg(flags: argparse.Namespace, framework: str) -> Callable[[], SkrlCfg]:
    return functools.partial(SkrlCfg.of, flags.algorithm or "ppo", framework)


def _framework(flags: argparse.Namespace, overrides: Sequence[str]) -> str:
    """Return the framework that the flag names, else an override, else ``torch``."""
    given = [word.partition("=")[2] for word in overrides if word.startswith("agent.ml_framework=")]
    framework = str(flags.ml_framework or (given[-1] if given else "torch"))
    if framework not in _ADAPTERS:
        raise ConfigurationError(
            f"agent.ml_framework is {framework!r}, but must be one of {', '.join(_ADAPTERS)}."
        )
    return framework


def _require_jax() -> None:
    missing = [name for name in _JAX_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigurationError(
            f"--ml_framework jax needs {', '.join(missing)}, which cannot be found. Install with: "
            "pip install -c constraints.txt -e '.[jax]'"
        )
