"""``envlab isaaclab check PATH``: what a project uses that is refused here, before it runs.

Files are parsed, not imported, so a stranger's code does not run. What a program composes while it
runs is not seen.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from envlab.errors import ConfigurationError
from envlab_isaaclab.needs import REFUSED
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
    num_files, found = uses_in(flags.path)
    print(f"{flags.path}: {num_files} files import Isaac Lab.")
    print("\nMissing; ends the run when it is reached:" if found else "\nMissing: nothing.")
    for use in sorted(found):
        print(f"  {use.path}:{use.line}: {use.name} ({use.remark})")
    return int(bool(found))


def uses_in(path: Path) -> tuple[int, list[Use]]:
    """Return the number of files that import Isaac Lab, and what they use that is not here.

    Raises:
        ConfigurationError: If there are none.
    """
    if not path.exists():
        raise ConfigurationError(f"There is no file or folder {str(path)!r} to check.")
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    models = [one for one in path.rglob("*") if one.suffix in MODELS] if path.is_dir() else []
    found: list[Use] = []
    count = 0
    for file in files:
        try:
            tree = ast.parse(file.read_text(encoding="utf-8", errors="replace"))
        except (OSError, SyntaxError, ValueError):
            continue  # not Python 3, or not readable; it could not run either
        count += any(_imports(node) for node in ast.walk(tree))
        found += _uses(str(file.relative_to(path)) if path.is_dir() else str(file), tree, models)
    if not count:
        raise ConfigurationError(
            f"Nothing in {str(path)!r} imports isaaclab: {len(files)} Python files were read."
        )
    return count, found


def _imports(node: ast.AST) -> bool:
    names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
    if isinstance(node, ast.ImportFrom):
        names = [node.module or ""]
    return any(name.partition(".")[0] in PACKAGES or name.startswith(OLD) for name in names)


def _uses(place: str, tree: ast.Module, models: list[Path]) -> Iterator[Use]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(OLD):
            yield Use(place, node.lineno, node.module or "", "of Isaac Lab 1; rename the import")
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("isaacsim."):
            names = ", ".join(one.name for one in node.names)
            yield Use(place, node.lineno, names, f"of {node.module}, which does nothing here")
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name in REFUSED:
            yield Use(place, node.lineno, name, REFUSED[name])
        for keyword in node.keywords:
            file = _text(keyword.value)
            remark = _missing(file, models) if keyword.arg == "usd_path" and file else None
            if remark:
                yield Use(place, keyword.value.lineno, file, remark)


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
