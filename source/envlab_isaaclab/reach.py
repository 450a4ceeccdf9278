"""The statements of a project that its registered tasks run, found without running them.

A module that registers tasks is imported, and with it what it imports; of the modules on the way,
only those functions, classes and values count that a task's configuration leads to by name. So a
robot that no task has is not among them, though its neighbour in the file may be.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_ENTRY = re.compile(r"([\w.]+):(\w+)")
"""How a registration names a class: ``package.module:Class``."""
_TYPES = "TYPE_CHECKING"


def statements(registering: list[str], files: dict[str, Path]) -> dict[Path, list[ast.stmt]]:
    """Return what tasks run, by file.

    Args:
        registering: Modules that register tasks.
        files: The project's modules, with their files.
    """
    project = _Project(files)
    for name in registering:
        project.run(name)
    found: dict[Path, list[ast.stmt]] = {}
    for module in project.modules.values():
        found.setdefault(module.path, []).extend(module.reached)
    return found


def executed(
    nodes: list[ast.stmt], skip: Callable[[ast.AST], bool] = lambda node: False
) -> Iterator[ast.AST]:
    """Yield statements and all that is in them, but for what only a type checker reads.

    Args:
        nodes: The statements.
        skip: Whether to leave out a node, and all that is in it.
    """
    waiting: list[ast.AST] = list(nodes)
    while waiting:
        node = waiting.pop()
        if skip(node):
            continue
        yield node
        if isinstance(node, ast.If) and _TYPES in ast.unparse(node.test):
            waiting += node.orelse
        else:
            waiting += ast.iter_child_nodes(node)


class _Module:
    """A file: what its names stand for, and which of its statements are reached."""

    def __init__(self, name: str, path: Path) -> None:
        self.name, self.path = name, path
        self.package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        self.reached: list[ast.stmt] = []
        self.definitions: dict[str, list[ast.stmt]] = {}
        self.imports: dict[str, tuple[str, str]] = {}
        """Local names: the module, and the name in it; empty: the module itself."""
        self.stars: list[str] = []
        self.effects: list[ast.stmt] = []
        try:
            tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
        except (OSError, SyntaxError, ValueError):
            return
        for node in _top_level(tree.body):
            self._add(node)

    def _add(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom):
            self.effects.append(node)
            for local, module, name in self.imported(node):
                if local == "*":
                    self.stars.append(module)
                else:
                    self.imports[local] = (module, name)
            return
        names = []
        if isinstance(node, _Definition):
            names = [node.name]
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [found for target in targets for found in _bases(target)]
        for name in names:
            self.definitions.setdefault(name, []).append(node)
        if not names:
            self.effects.append(node)

    def imported(self, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str, str]]:
        """Yield what an import binds: the local name, the module, and the name in it."""
        if isinstance(node, ast.Import):
            for one in node.names:
                first = one.name.partition(".")[0]
                yield one.asname or first, one.name if one.asname else first, ""
            return
        above = self.package.split(".")
        above = above[: len(above) + 1 - node.level] if node.level else []
        module = ".".join([*above, *([node.module] if node.module else [])])
        for one in node.names:
            yield one.asname or one.name, module, one.name


class _Project:
    """Follows names from module to module."""

    def __init__(self, files: dict[str, Path]) -> None:
        self.files = files
        self.modules: dict[str, _Module] = {}
        self._seen: set[int] = set()

    def run(self, name: str) -> None:
        """Import a module: those above it, what it imports, and its statements without a name."""
        parts = name.split(".")
        for count in range(1, len(parts) + 1):
            module = self._load(".".join(parts[:count]))
            for node in module.effects if module is not None else ():
                self._reach(module, node)

    def _load(self, name: str) -> _Module | None:
        if name in self.files and name not in self.modules:
            self.modules[name] = _Module(name, self.files[name])
        return self.modules.get(name)

    def _reach(self, module: _Module | None, statement: ast.stmt) -> None:
        if module is None or id(statement) in self._seen:
            return
        self._seen.add(id(statement))
        module.reached.append(statement)
        for node in executed([statement]):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._import(module, node, is_used=node is not statement)
            elif isinstance(node, ast.Name):
                self._find(module, [node.id])
            elif isinstance(node, ast.Attribute):
                self._find(module, ast.unparse(node).split("."))
            elif isinstance(node, ast.Constant | ast.JoinedStr):
                self._enter(module, node)

    def _import(self, module: _Module, node: ast.Import | ast.ImportFrom, *, is_used: bool) -> None:
        if isinstance(node, ast.Import):
            for one in node.names:
                self.run(one.name)
        for _, name, attribute in module.imported(node):
            self.run(name)
            if attribute and f"{name}.{attribute}" in self.files:
                self.run(f"{name}.{attribute}")
            elif is_used and attribute:  # in a function
                self._name(name, attribute, set())

    def _find(self, module: _Module, path: list[str]) -> None:
        """Reach what a dotted name stands for."""
        found = module.imports.get(path[0])
        if found is None or (found[1] and f"{found[0]}.{found[1]}" not in self.files):
            self._name(module.name, path[0], set())
            return
        place = ".".join(part for part in found if part)
        for part in path[1:]:
            if f"{place}.{part}" not in self.files:
                self._name(place, part, set())
                return
            place = f"{place}.{part}"

    def _name(self, place: str, name: str, seen: set[str]) -> bool:
        """Reach a name of a module, wherever that has it from; return whether it has it."""
        module = self._load(place)
        if module is None or place in seen:
            return False
        seen.add(place)
        for node in module.definitions.get(name, ()):
            self._reach(module, node)
        if name in module.definitions:
            return True
        if name in module.imports:
            source, attribute = module.imports[name]
            return bool(attribute) and self._name(source, attribute, seen)
        return any(self._name(star, name, seen) for star in module.stars)

    def _enter(self, module: _Module, node: ast.Constant | ast.JoinedStr) -> None:
        """Reach the class that a text names."""
        text = ""
        for part in node.values if isinstance(node, ast.JoinedStr) else [node]:
            if isinstance(part, ast.FormattedValue):
                owner = ast.unparse(part.value).removesuffix("__name__").rstrip(".")
                source, attribute = module.imports.get(owner, (owner, ""))
                inside = f"{source}.{attribute}" if attribute else source
                text += module.name if not owner else inside
            elif isinstance(part, ast.Constant):
                text += str(part.value)
        match = _ENTRY.fullmatch(text)
        if match is not None and match[1] in self.files:
            self.run(match[1])
            self._name(match[1], match[2], set())


def _top_level(nodes: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that an import runs, also those in its conditions and attempts."""
    for node in nodes:
        if isinstance(node, ast.If):
            is_for_types = _TYPES in ast.unparse(node.test)
            yield from _top_level(node.orelse if is_for_types else [*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            handled = [one for handler in node.handlers for one in handler.body]
            yield from _top_level([*node.body, *handled, *node.orelse, *node.finalbody])
        elif isinstance(node, ast.With):
            yield from _top_level(node.body)
        else:
            yield node


def _bases(target: ast.expr) -> list[str]:
    """Return the names that an assignment changes: ``A`` of ``A.b["c"]`` too."""
    if isinstance(target, ast.Tuple | ast.List):
        return [name for one in target.elts for name in _bases(one)]
    while isinstance(target, ast.Attribute | ast.Subscript | ast.Starred):
        target = target.value
    return [target.id] if isinstance(target, ast.Name) else []
