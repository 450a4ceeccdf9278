"""Functions of Isaac Lab and mjlab, taken from the sources of their packages one by one.

The packages themselves import simulators.
"""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch


def module_of(path: Path) -> ModuleType:
    """Import a file that does not import from its package."""
    spec = importlib.util.spec_from_file_location(f"peer_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def functions_of(path: Path, **known: Any) -> dict[str, Any]:
    """Run a file without its imports; ``known`` are what its functions need of these."""
    tree = ast.parse(path.read_text())
    tree.body = [
        node
        for node in tree.body
        if not isinstance(node, (ast.Import, ast.ImportFrom))
        or getattr(node, "module", None) == "__future__"
    ]
    names = {"torch": torch, "TYPE_CHECKING": False, "SceneEntityCfg": chosen, **known}
    exec(compile(tree, str(path), "exec"), names)
    return names


class TermBase:
    """The base class of terms that are classes, as far as they need it."""

    def __init__(self, cfg: Any, env: Any) -> None:
        pass


def chosen(name: str = "robot", **ids: Any) -> SimpleNamespace:
    """Return what the peers' SceneEntityCfg is after its names were looked up."""
    every = slice(None)
    return SimpleNamespace(
        **{"name": name, "joint_ids": every, "body_ids": every, "joint_names": ".*", **ids}
    )
