"""``gymapi.pyi`` of isaacgym-stubs, read as syntax: its text and its package are not imported."""

from __future__ import annotations

import ast
import functools
import sysconfig
from pathlib import Path


@functools.cache
def parsed() -> ast.Module:
    """The stub file; two methods of it are named ``lambda``, which is no name in Python."""
    folder = Path(sysconfig.get_paths()["purelib"]) / "isaacgym-stubs"
    text = (folder / "gymapi.pyi").read_text()
    return ast.parse(text.replace("def lambda(", "def lambda_("))


def classes() -> dict[str, ast.ClassDef]:
    return {node.name: node for node in parsed().body if isinstance(node, ast.ClassDef)}


def constants() -> dict[str, ast.AnnAssign]:
    return {
        node.target.id: node
        for node in parsed().body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def functions() -> set[str]:
    return {node.name for node in parsed().body if isinstance(node, ast.FunctionDef)}


def methods(name: str) -> dict[str, list[ast.FunctionDef]]:
    """A class's methods and properties, with overloads."""
    found: dict[str, list[ast.FunctionDef]] = {}
    for node in classes()[name].body:
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, []).append(node)
    return found


def attributes(name: str) -> set[str]:
    """A class's attributes and properties."""
    body = classes()[name].body
    plain = {
        node.target.id
        for node in body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    properties = {
        node.name
        for node in body
        if isinstance(node, ast.FunctionDef)
        and any(isinstance(one, ast.Name) and one.id == "property" for one in node.decorator_list)
    }
    return {name for name in plain | properties if not name.startswith("__")}
