"""AllenAct's packages: their location, stand-ins for other packages, and missing ones."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import logging
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from envlab.errors import ConfigurationError
from envlab_navigation.ddppo.allenact import gym_stand_in
from envlab_navigation.ddppo.allenact.houses import SURFACE

_PEERS = ("allenact", "allenact_plugins", "projects")
_EXTRA = "pip install -c constraints.txt -e '.[allenact]'"
_HOUSES = (
    " For ObjectNav in envlab's houses, derive the experiment from AllenAct's "
    "ObjectNavRoboThorRGBPPOExperimentConfig, as its multi-node tutorial does."
)
REMEDIES = {
    "ai2thor": "AI2-THOR (pip install -e '.[ai2thor]'), whose build of Unity it downloads at the "
    f"first start.{_HOUSES}",
    "allenact": "AllenAct: run a file inside a checkout of it, or pip install --no-deps "
    "allenact==0.5.4 allenact_plugins==0.5.4",
    # Its default branch installs without babyai.rl; AllenAct's requirements pin this commit.
    "babyai": "BabyAI: pip install --no-deps "
    "git+https://github.com/Lucaweihs/babyai.git@0b450eeb3a2dc7116c67900d51391986bdbb84cd",
    "clip": "CLIP: pip install --no-deps git+https://github.com/openai/CLIP.git ftfy regex",
    "gym_minigrid": "gym-minigrid: pip install --no-deps gym-minigrid==1.0.3",
    "habitat": "the Habitat simulator, which has no release for this Python. envlab's own PointNav "
    "(--task Nav-PointNav-Depth-v0) has the same sensors in envlab's houses",
    "quaternion": "numpy-quaternion: pip install numpy-quaternion",
}
"""Remedies for missing modules."""
REMEDIES["allenact_plugins"] = REMEDIES["allenact"]
_UNUSED: dict[str, tuple[str, ...]] = {
    "blosc": (),
    "moviepy": (),
    "moviepy.editor": ("concatenate_videoclips",),
    "pickle5": (),
    "wandb": (),
}
"""Names that AllenAct or BabyAI import for features that are unused here: logging, its own videos
and files of demonstrations. MoviePy 2 has no ``editor`` any more."""


class _Instructions:
    """BabyAI's reader of instructions, where it is not installed."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise ConfigurationError(f"The words of missions need {REMEDIES['babyai']}.")


def needs_packages(path: Path) -> bool:
    """Return whether a file names more of AllenAct than ``houses`` has.

    Its imports of neighbouring files, such as a common base, count as its own.

    Raises:
        ConfigurationError: If it is not Python.
    """
    waiting, seen = [path], {path}
    while waiting:
        tree = _parsed(waiting.pop())
        if any(_names_more(node) for node in ast.walk(tree)):
            return True
        for module in _imported(tree):
            beside = path.parent / f"{module.replace('.', '/')}.py"
            if beside not in seen and beside.is_file():
                seen.add(beside)
                waiting.append(beside)
    return False


def _parsed(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_text())
    except (SyntaxError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{path} is not Python ({error}). Name the file of an experiment."
        ) from None


def _names_more(node: ast.AST) -> bool:
    """Return whether a statement imports what only AllenAct's packages have."""
    if isinstance(node, ast.ImportFrom) and node.module and _is_peer(node.module):
        known = SURFACE.get(node.module, {})
        named = {name.name for name in node.names if name.name not in known}
        return any(f"{node.module}.{name}" not in SURFACE for name in named)
    return isinstance(node, ast.Import) and any(_is_peer(name.name) for name in node.names)


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def _is_peer(module: str) -> bool:
    return module.partition(".")[0] in (*_PEERS, "gym")


def prepare_packages(path: Path) -> None:
    """Make AllenAct's packages importable in this process: those of the file's checkout first.

    Raises:
        ConfigurationError: If there are none.
    """
    root = checkout_of(path)
    if root is not None and str(root) not in sys.path:
        sys.path.insert(0, str(root))
        _forget_other_projects(root)
    gym_stand_in.install()
    for name, contents in _UNUSED.items():
        if is_missing(name):
            module = sys.modules[name] = types.ModuleType(name)
            module.__path__ = []
            vars(module).update(dict.fromkeys(contents))
    if is_missing("babyai"):
        _stand_in_for_babyai()
    complete_torchvision()
    if "allenact" not in sys.modules and importlib.util.find_spec("allenact") is None:
        refuse_missing(path, "allenact")
    # Otherwise its logger prints all messages of this process in its own format.
    system = importlib.import_module("allenact.utils.system")
    vars(system)["_LOGGER"] = logging.getLogger(f"envlab.{__name__}.peer")


def checkout_of(path: Path) -> Path | None:
    """Return the folder of AllenAct's repository that contains a file, if any."""
    for folder in path.resolve().parents:
        if (folder / "allenact" / "__init__.py").is_file():
            return folder
    return None


def refuse_missing(path: Path, module: str) -> NoReturn:
    """Raise the error for a file that needs a package which is not installed.

    Raises:
        ConfigurationError: Always.
    """
    name = module.partition(".")[0]
    remedy = REMEDIES.get(name, f"the package {name}: {_EXTRA}")
    raise ConfigurationError(f"{path} needs {remedy.rstrip('.')}.") from None


def is_missing(module: str) -> bool:
    """Return whether a module can be neither found nor is imported already."""
    try:
        return module not in sys.modules and importlib.util.find_spec(module) is None
    except ModuleNotFoundError:  # the package that it would be in
        return True


def _forget_other_projects(root: Path) -> None:
    """Let ``projects`` be the checkout's, if another project's was imported before."""
    found = sys.modules.get("projects")
    if found is not None and str(root) not in str(list(getattr(found, "__path__", []))):
        for name in [name for name in sys.modules if name.partition(".")[0] == "projects"]:
            del sys.modules[name]


def _stand_in_for_babyai() -> None:
    """Allow the import of AllenAct's MiniGrid, which needs BabyAI only for the words of missions.

    Other modules of BabyAI are missing as before.
    """
    for name in ("babyai", "babyai.utils", "babyai.utils.format"):
        module = sys.modules[name] = types.ModuleType(name)
        module.__path__ = []
    vars(module)["InstructionsPreprocessor"] = _Instructions


def complete_torchvision() -> None:
    """Allow the import of a torchvision whose operators were compiled for another torch.

    AllenAct uses its transforms and networks, which need none of the operators; torchvision 0.28
    describes its operators on import, and fails if they are missing.
    """
    if "torchvision" in sys.modules or importlib.util.find_spec("torchvision") is None:
        return
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        for name in [name for name in sys.modules if name.startswith("torchvision")]:
            del sys.modules[name]
        descriptions = "torchvision._meta_registrations"
        sys.modules[descriptions] = types.ModuleType(descriptions)
        importlib.import_module("torchvision")
