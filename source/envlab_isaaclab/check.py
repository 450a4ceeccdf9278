"""``envlab isaaclab check PATH``: what a project uses that is refused here, before it runs.

Files are parsed, not imported, so a stranger's code does not run. What a program composes while it
runs is not seen. In a project that registers tasks only what these reach counts
(:mod:`envlab_isaaclab.reach`); the rest, such as scripts of its own, is counted apart. Markers are
not drawn here, so nothing that they are made of can be missing.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from envlab.errors import ConfigurationError
from envlab_isaaclab.hook import known_modules
from envlab_isaaclab.needs import DRAWN, REFUSED
from envlab_isaaclab.project import modules, registering
from envlab_isaaclab.reach import executed, statements
from envlab_isaaclab.robots import find_prop, knows_robot
from envlab_isaaclab.upstream import OLD, PACKAGES
from envlab_isaaclab.usd import READER, has_reader, is_pointer

MODELS = (".usd", ".usda", ".usdc", ".usdz", ".urdf", ".xml")


@dataclass(frozen=True, order=True)
class Use:
    """A use of something that is not here: its place, name, and a remark."""

    path: str
    line: int
    name: str
    remark: str


def main(arguments: Sequence[str]) -> int:
    """Run ``envlab isaaclab``; return 1 if something is missing."""
    parser = argparse.ArgumentParser(
        prog="envlab isaaclab",
        description="Isaac Lab's projects on MuJoCo. To run a script: python -m envlab_isaaclab "
        "SCRIPT ...",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("check", help="what a project uses that is not here")
    check.add_argument("path", type=Path, metavar="PATH", help="a Python file or a folder")
    flags = parser.parse_args(list(arguments))
    found = uses_in(flags.path)
    print(f"{flags.path}: {found.num_files} files import Isaac Lab.")
    print("\nMissing; ends the run when it is reached:" if found.uses else "\nMissing: nothing.")
    for use in found.uses:
        print(f"  {use.path}:{use.line}: {use.name} ({use.remark})")
    if found.elsewhere:
        files = {use.path for use in found.elsewhere}
        print(
            f"\nMissing in code that no registered task reaches, in {len(files)} files such as "
            f"{min(files)}; matters only if you run it. To see what: envlab isaaclab check FILE."
        )
    return int(bool(found.uses))


@dataclass
class Found:
    """What a project uses that is not here.

    Attributes:
        num_files: Number of files that import Isaac Lab.
        uses: What its registered tasks reach; in a file, or without such tasks: everything.
        elsewhere: What only its other code uses.
    """

    num_files: int = 0
    uses: list[Use] = field(default_factory=list)
    elsewhere: list[Use] = field(default_factory=list)


def uses_in(path: Path) -> Found:
    """Return what a file, or a folder's files, use that is not here, in order.

    Raises:
        ConfigurationError: If none of them imports Isaac Lab.
    """
    if not path.exists():
        raise ConfigurationError(f"There is no file or folder {str(path)!r} to check.")
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    models = [one for one in path.rglob("*") if one.suffix in MODELS] if path.is_dir() else []
    tasks = _reached(path, files) if path.is_dir() else {}
    found = Found()
    for file in files:
        try:
            tree = ast.parse(file.read_text(encoding="utf-8", errors="replace"))
        except (OSError, SyntaxError, ValueError):
            continue  # not Python 3, or not readable; it could not run either
        found.num_files += any(_imports(node) for node in ast.walk(tree))
        place = str(file.relative_to(path)) if path.is_dir() else str(file)
        everything = set(_uses(place, tree.body, models))
        reached = set(_uses(place, tasks.get(file, []), models)) if tasks else everything
        found.uses += sorted(reached)
        found.elsewhere += sorted(everything - reached)
    if not found.num_files:
        raise ConfigurationError(
            f"Nothing in {str(path)!r} imports isaaclab: {len(files)} Python files were read."
        )
    return found


def _reached(folder: Path, files: list[Path]) -> dict[Path, list[ast.stmt]]:
    """Return the statements that tasks reach, by file; nothing if no module registers one."""
    packages = modules(folder)
    places = {file: file.relative_to(folder).with_suffix("").parts for file in files}
    by_place = {".".join(parts): file for file, parts in places.items()}  # some import them so
    return statements(registering(packages), by_place | packages)


def _imports(node: ast.AST) -> bool:
    names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
    if isinstance(node, ast.ImportFrom):
        names = [node.module or ""]
    return any(name.partition(".")[0] in PACKAGES or name.startswith(OLD) for name in names)


def _uses(place: str, nodes: list[ast.stmt], models: list[Path]) -> Iterator[Use]:
    old: list[tuple[int, str]] = []
    for node in executed(nodes, skip=_is_of_markers):
        if isinstance(node, ast.Import):
            old += [(node.lineno, one.name) for one in node.names if one.name.startswith(OLD)]
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if module.startswith(OLD):
                old.append((node.lineno, module))
            elif module.startswith("isaacsim.") and module not in known_modules():
                names = ", ".join(one.name for one in node.names)
                yield Use(place, node.lineno, names, f"of {module}, which does nothing here")
        if not isinstance(node, ast.Call):
            continue
        name = _name(node)
        if name in REFUSED:
            yield Use(place, node.lineno, name, REFUSED[name])
        for keyword in node.keywords:
            file = _text(keyword.value)
            remark = _missing(file, models) if keyword.arg == "usd_path" and file else None
            if remark:
                yield Use(place, keyword.value.lineno, file, remark)
    if old:
        line, module = min(old)
        several = f"one of {len(old)} imports of Isaac Lab 1; rename them"
        yield Use(place, line, module, several if old[1:] else "of Isaac Lab 1; rename the import")


def _name(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _is_of_markers(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _name(node) == DRAWN


def _text(value: ast.expr) -> str:
    """Return the literal text of a string or of an f-string."""
    parts = value.values if isinstance(value, ast.JoinedStr) else [value]
    written = [one.value for one in parts if isinstance(one, ast.Constant)]
    return "".join(str(one) for one in written)


def _missing(path: str, models: list[Path]) -> str | None:
    """Return what a USD file lacks, None if nothing: the folder's own come before envlab's."""
    end = Path(path.lstrip("/"))
    own = [one for one in models if one.match(str(end.with_suffix(".*")))]
    if any(one.suffix in (".urdf", ".xml") for one in own):
        return None
    usd = next((one for one in own if one.name == end.name), None)
    if usd is None:
        is_known = knows_robot(path) or find_prop(path) is not None
        return None if is_known else "envlab has no model for this file"
    if is_pointer(usd):
        return "a pointer of Git LFS: git lfs pull"
    return None if has_reader() else READER
