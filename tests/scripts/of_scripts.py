"""The files in ``scripts/`` as modules."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

from tests.launcher import ROOT


def load(path: str) -> ModuleType:
    """Import a script, by its path without ``scripts/`` and ``.py``."""
    name = "script_" + path.replace("/", "_")
    spec = importlib.util.spec_from_file_location(name, ROOT / f"scripts/{path}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look for their module
    spec.loader.exec_module(module)
    return module
