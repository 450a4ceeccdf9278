"""``envlab isaacgym check PATH``: a checkout's uses of Isaac Gym's interface, before it runs.

Files are parsed, not imported. The check sees calls of a ``gym`` and names of ``isaacgym``'s
modules, but no settings in YAML files, and no methods whose names a program composes.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from envlab.errors import ConfigurationError
from envlab_isaacgym import gymapi
from envlab_isaacgym.gym.missing import MISSING
from envlab_isaacgym.parameters import WITHOUT_EFFECT
from envlab_isaacgym.shim import MODULES, STAND_INS

_MOST_PARENTS = 4
"""Folders above a script in which packages of its checkout are looked for."""
SUPPORTED, IGNORED, MISSING_KIND = "supported", "ignored", "missing"
_SETTINGS = {name for names in WITHOUT_EFFECT.values() for name in names}
_SHOWS_NOTHING = {name for name in dir(gymapi.Viewers) if not name.startswith("_")}


@dataclass(frozen=True, order=True)
class Use:
    """One use of the interface: its kind, place and name, and a remark on it."""

    kind: str
    path: str
    line: int
    name: str
    remark: str = ""


def main(arguments: Sequence[str]) -> int:
    """Run ``envlab isaacgym``; return 1 if something is missing."""
    parser = argparse.ArgumentParser(
        prog="envlab isaacgym",
        description="Isaac Gym's interface on MuJoCo. To run a script: python -m envlab_isaacgym "
        "SCRIPT ...",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("check", help="what code uses: supported, ignored, missing")
    check.add_argument("path", type=Path, metavar="PATH", help="a Python file or a folder")
    flags = parser.parse_args(list(arguments))
    found = sorted(uses_in(flags.path))
    _print_report(flags.path, found)
    return int(any(use.kind == MISSING_KIND for use in found))


def uses_in(path: Path) -> Iterator[Use]:
    """Yield the uses in a file, or in the files below a folder.

    Raises:
        ConfigurationError: If nothing there imports ``isaacgym``.
    """
    if not path.exists():
        raise ConfigurationError(f"There is no file or folder {str(path)!r} to check.")
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    own, is_any = _own_names(path), False
    for file in files:
        try:
            tree = ast.parse(file.read_text(encoding="utf-8", errors="replace"))
        except (OSError, SyntaxError, ValueError):
            continue  # not Python 3, or not readable; it could not run either
        # A class of tasks may leave the import to its base.
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        is_any = is_any or any(_modules(node) for node in imports)
        place = str(file.relative_to(path)) if path.is_dir() else str(file)
        yield from _File(place, tree, imports).uses()
        yield from _not_installed(place, tree, own)
    if not is_any:
        raise ConfigurationError(
            f"Nothing in {str(path)!r} imports isaacgym: {len(files)} Python files were read."
        )


def missing_in(script: Path, folders: Sequence[Path]) -> list[Use]:
    """Return missing uses in a script, and in files in some folders that it imports."""
    waiting, seen, found, own = [script.resolve()], set(), [], _own_names(script)
    while waiting:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        try:
            tree = ast.parse(file.read_text(encoding="utf-8", errors="replace"))
        except (OSError, SyntaxError, ValueError):
            continue
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        found += [use for use in _File(str(file), tree, imports).uses() if use.kind == MISSING_KIND]
        found += _not_installed(str(file), tree, own)
        for node in imports:
            waiting += _files_of(node, file, folders)
    return sorted(found)


def _own_names(path: Path) -> set[str]:
    """Return the names that code in a folder, or beside and above a file, can be imported by."""
    if path.is_dir():
        files = list(path.rglob("*.py"))
        folders = {part for file in files for part in file.resolve().parts}
        return {file.stem for file in files} | folders
    above = [Path.cwd(), *list(path.resolve().parents)[:_MOST_PARENTS]]
    return {one.stem for folder in above for one in folder.iterdir()} | {*own_packages(path)}


def _not_installed(place: str, tree: ast.Module, own: set[str]) -> list[Use]:
    """Return imports of packages that are not installed, unless a ``try`` expects it."""
    expected = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.Try | ast.If)
        for inner in ast.walk(node)
    }
    found = {}
    for node in ast.walk(tree):
        if id(node) in expected or not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        is_relative = isinstance(node, ast.ImportFrom) and node.level
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else [node.module]
        for root in () if is_relative else {str(name).partition(".")[0] for name in names}:
            if root not in own and root not in STAND_INS and not _is_there(root):
                found[root] = Use(MISSING_KIND, place, node.lineno, root, "is not installed")
    return [*found.values()]


def _is_there(name: str) -> bool:
    try:
        return name in sys.modules or importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def own_packages(script: Path) -> dict[str, Path]:
    """Return the packages with a ``setup.py`` in a script's checkout, and their folders.

    They are searched in the script's folder and those above it, up to the root of the repository,
    and next to each of these, and count if they are not on the path already.
    """
    found: dict[str, Path] = {}
    for folder in list(script.resolve().parents)[:_MOST_PARENTS]:
        beside = [
            (setup.parent, setup.parent.name)
            for setup in sorted(folder.glob("*/setup.py"))
            if (setup.parent / setup.parent.name / "__init__.py").is_file()
        ]
        if (folder / "setup.py").is_file():
            beside += [(folder, one.parent.name) for one in sorted(folder.glob("*/__init__.py"))]
        for place, name in beside:
            if name != "isaacgym" and str(place) not in sys.path:
                found.setdefault(name, place)
        if (folder / ".git").exists():
            break
    return found


def _files_of(
    node: ast.Import | ast.ImportFrom, file: Path, folders: Sequence[Path]
) -> Iterator[Path]:
    """Yield the files in some folders that an import may load, including packages' ``__init__``."""
    if isinstance(node, ast.Import):
        names, starts = [alias.name for alias in node.names], list(folders)
    else:
        module = node.module or ""
        names = [f"{module}.{alias.name}".strip(".") for alias in node.names] + [module]
        starts = [file.parents[node.level - 1]] if node.level else list(folders)
    for name in names:
        parts = [part for part in name.split(".") if part]
        for start in starts:
            for length in range(1, len(parts) + 1):
                path = start.joinpath(*parts[:length])
                for candidate in (path.with_suffix(".py"), path / "__init__.py"):
                    if candidate.is_file():
                        yield candidate.resolve()


def _modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    names = [one.name for one in node.names] if isinstance(node, ast.Import) else [node.module]
    return [name for name in names if name and name.split(".")[0] == "isaacgym"]


def _bound_modules(
    imports: Sequence[ast.Import | ast.ImportFrom],
) -> Iterator[tuple[str, str]]:
    """Yield the names that imports bind to modules of ``isaacgym``, and these modules."""
    for node in imports:
        for alias in node.names:
            if isinstance(node, ast.Import):
                module = alias.name.removeprefix("isaacgym.")
                if alias.asname is not None and module in MODULES:
                    yield alias.asname, module
            elif node.module == "isaacgym":
                if alias.name == "*":
                    yield from ((module, module) for module in MODULES)
                elif alias.name in MODULES:
                    yield alias.asname or alias.name, alias.name


class _File:
    """One parsed file."""

    def __init__(
        self, place: str, tree: ast.Module, imports: list[ast.Import | ast.ImportFrom]
    ) -> None:
        self._place, self._tree = place, tree
        self._imports = [node for node in imports if _modules(node)]
        # Projects may have their own torch_utils, which is not Isaac Gym's.
        self._bound = dict(_bound_modules(self._imports))
        # Where the library of that name is imported, a bare `gym` is not Isaac Gym's.
        self._has_gym_library = any(
            isinstance(node, ast.Import)
            and any((name.asname or name.name.split(".")[0]) == "gym" for name in node.names)
            for node in imports
        )

    def uses(self) -> Iterator[Use]:
        """Yield its uses."""
        yield from self._imported_names()
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Attribute):
                yield from self._attribute(node)

    def _imported_names(self) -> Iterator[Use]:
        for node in self._imports:
            if isinstance(node, ast.ImportFrom) and node.module != "isaacgym":
                module = (node.module or "").removeprefix("isaacgym.")
                for alias in node.names:
                    if alias.name != "*":
                        yield self._member(module, alias.name, node.lineno)
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if alias.name not in (*MODULES, "*"):
                        yield self._missing(node.lineno, f"isaacgym.{alias.name}", "no such module")

    def _attribute(self, node: ast.Attribute) -> Iterator[Use]:
        owner = node.value
        if isinstance(owner, ast.Name) and owner.id in self._bound:
            yield self._member(self._bound[owner.id], node.attr, node.lineno)
        elif self._is_gym(owner):
            yield from self._method(node)
        elif isinstance(node.ctx, ast.Store) and node.attr in _SETTINGS and self._imports:
            yield Use(IGNORED, self._place, node.lineno, f".{node.attr}", "has no effect in MuJoCo")

    def _is_gym(self, owner: ast.expr) -> bool:
        if isinstance(owner, ast.Attribute):
            return owner.attr in ("gym", "_gym")
        return isinstance(owner, ast.Name) and owner.id == "gym" and not self._has_gym_library

    def _method(self, node: ast.Attribute) -> Iterator[Use]:
        name, line = node.attr, node.lineno
        if name in MISSING:
            yield self._missing(line, f"Gym.{name}", f"needs {MISSING[name]}")
        elif name in _SHOWS_NOTHING:
            yield Use(IGNORED, self._place, line, f"Gym.{name}", "there is no window")
        elif hasattr(gymapi.Gym, name):
            yield Use(SUPPORTED, self._place, line, f"Gym.{name}")

    def _member(self, module: str, name: str, line: int) -> Use:
        if module in MODULES and hasattr(
            importlib.import_module(f"envlab_isaacgym.{module}"), name
        ):
            return Use(SUPPORTED, self._place, line, f"{module}.{name}")
        return self._missing(line, f"{module}.{name}", "no such name")

    def _missing(self, line: int, name: str, remark: str) -> Use:
        return Use(MISSING_KIND, self._place, line, name, remark)


def _print_report(path: Path, found: list[Use]) -> None:
    names = Counter(use.name for use in found if use.kind == SUPPORTED)
    methods = sum(name.startswith("Gym.") for name in names)
    print(
        f"{path}: {len(names)} names are supported ({methods} methods of Gym), in "
        f"{names.total()} places."
    )
    for kind, headline in (
        (IGNORED, "Without effect:"),
        (MISSING_KIND, "Missing; raises an error when it is reached:"),
    ):
        uses = [use for use in found if use.kind == kind]
        print(f"\n{headline}" if uses else f"\n{headline.split(';')[0].rstrip(':')}: nothing.")
        places: dict[str, list[str]] = {}
        for use in uses:
            places.setdefault(f"{use.name} ({use.remark})", []).append(f"{use.path}:{use.line}")
        for what, where in places.items():
            print(f"  {what}: {', '.join(where)}")
