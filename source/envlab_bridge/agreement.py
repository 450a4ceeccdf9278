"""Checks among ranks before scripts of other projects train, as in all ways to train here.

A script for one process is unaware of the other ranks. Ranks started with different settings would
silently average the gradients of different problems.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from envlab.commit import code_digests
from envlab.distributed.audit import require_agreement
from envlab.libraries import packages_alike
from envlab.training.agreement import of_any_node
from envlab_bridge.ranks import context

_OF_A_RANK = {"seed", "device", "gpu", "rank", "path", "dir", "logdir", "run", "experiment"}
"""Words in names of settings in which ranks may differ: seeds, places, and a run's name."""
_DEEPEST = 8
"""Configurations that are objects may refer back to themselves."""
_LAUNCH = (
    "The ranks were started differently: {found}. They train one policy together: start all "
    "by the same command, with the same code and versions."
)
_CONFIGURATION = (
    "The ranks would train with different configurations: {found}. They train one policy together: "
    "give all of them the same flags and files."
)


def check_launch(words: Sequence[str]) -> None:
    """Compare the script, its arguments and the versions of packages. Every rank must call this.

    Args:
        words: The script and its arguments.

    Raises:
        ConfigurationError: On every rank alike, naming what differs, with the values and ranks.
    """
    if not context().is_distributed:
        return
    script = Path(words[0])
    text = hashlib.sha256(script.read_bytes()).hexdigest()[:12]
    values = {"the script": f"{script.name} ({text})"} | dict(_arguments(words[1:]))
    for package in packages_alike():
        try:
            values[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            values[package] = "absent"
    values |= {f"{name}'s code": digest for name, digest in code_digests().items()}
    require_agreement(context(), values, _LAUNCH)


def check_configurations(**configurations: Any) -> None:
    """Compare configurations, by the names of their settings. Every rank must call this.

    Args:
        configurations: Dictionaries, or legged_gym's classes of classes; None is ignored.

    Raises:
        ConfigurationError: On every rank, with the differences, their values and ranks.
    """
    if context().is_distributed:
        values = {
            name: of_any_node(value)
            for root, cfg in configurations.items()
            for name, value in _settings(cfg, root)
        }
        require_agreement(context(), values, _CONFIGURATION)


def compare_rl_games() -> None:
    """Let rl_games' runner compare its configuration, as it sets up its own ranks."""
    if context().is_distributed and importlib.util.find_spec("rl_games") is not None:
        runner = importlib.import_module("rl_games.torch_runner").Runner
        load = runner.load

        def compared(self: Any, configuration: Mapping[str, Any]) -> None:
            check_configurations(**configuration)
            load(self, configuration)

        runner.load = compared


def _arguments(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the arguments that must be the same, as ``--name value``, ``--name=value`` or alone."""
    for number, word in enumerate(words):
        name, is_joined, value = word.partition("=")
        if not is_joined and name.startswith("-"):
            following = words[number + 1] if number + 1 < len(words) else "-"
            value = "given" if following.startswith("-") else following
        elif not is_joined:
            if number and words[number - 1].startswith("-") and "=" not in words[number - 1]:
                continue  # the value of the previous word
            name, value = f"argument {number + 1}", word
        if not _is_of_a_rank(name):
            yield name, of_any_node(value)


def _is_of_a_rank(name: str) -> bool:
    return not _OF_A_RANK.isdisjoint(re.split(r"[^a-z]+", name.lower()))


def _settings(node: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield leaf values with their dotted paths."""
    if node is None or isinstance(node, str | int | float):
        yield path, node
        return
    if isinstance(node, Mapping):
        below = dict(node)
    elif isinstance(node, list | tuple):
        below = dict(enumerate(node))
    elif isinstance(node, type) or (hasattr(node, "__dict__") and not callable(node)):
        below = {name: getattr(node, name) for name in dir(node) if not name.startswith("_")}
    else:
        return  # functions, arrays: not set by files or flags
    for name, child in below.items():
        if not _is_of_a_rank(str(name)) and path.count(".") < _DEEPEST:
            yield from _settings(child, f"{path}.{name}")
