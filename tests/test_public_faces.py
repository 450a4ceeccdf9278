"""Tests see the code as its users do: they touch no name that begins with one underscore."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.launcher import ROOT

HOOKS = {
    # Methods that users write in their own task, as in Isaac Lab (docs/add_a_task.md)
    *("_setup_scene", "_setup", "_pre_physics_step", "_apply_action", "_reset_idx"),
    *("_get_observations", "_get_states", "_get_rewards", "_get_dones", "_reset_envs"),
    # Public by their documentation: named tuples' (so that no field has their names), and Python's
    *("_replace", "_asdict", "_fields", "_exit", "_getframe"),
}
SETTERS = ("setattr", "getattr", "hasattr", "delattr", "setitem")


def private_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and name of each private attribute of another object, and private import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            inherited = isinstance(node.value, ast.Call) and ast.unparse(node.value) == "super()"
            names = [] if own or inherited else [node.attr]
        elif isinstance(node, ast.ImportFrom):
            names = [name.name for name in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in SETTERS:
            texts = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
            names = [text.rpartition(".")[2] for text in texts if isinstance(text, str)]
        else:
            continue
        for name in names:
            if re.match(r"_[^_]", name) and name not in HOOKS:
                yield node.end_lineno or node.lineno, name


def unsaid(text: str) -> Iterator[tuple[int, str]]:
    """Yield the private names of a file that say no reason in their line or the one before."""
    lines = text.splitlines()
    for line, name in private_names(ast.parse(text)):
        if not any("# private: " in near for near in lines[max(0, line - 2) : line]):
            yield line, name


def test_tests_use_no_private_name_without_saying_why():
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for line, name in unsaid(path.read_text())
    ]
    assert not found, "\n".join([f"{len(found)} private names:", *found])


def foreign_private_modules(text: str, module: str) -> Iterator[str]:
    """Yield the modules ``_x`` that a file imports, but those of its own package."""
    for node in ast.walk(ast.parse(text)):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [name.name for name in node.names] if isinstance(node, ast.Import) else []
        for name in names:
            room, _, last = name.rpartition(".")
            if (
                room.startswith("envlab")
                and last.startswith("_")
                and room != module.rpartition(".")[0]
            ):
                yield name


def test_a_module_with_an_underscore_is_imported_by_its_room_alone():
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for folder in ("envlab", "source", "scripts", "tests")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name in foreign_private_modules(
            path.read_text(),
            ".".join(path.relative_to(ROOT).with_suffix("").parts).removeprefix("source."),
        )
    ]
    assert not found, "\n".join(found)
    other = "import envlab.sim._analytic_free\nfrom envlab.sim._analytic_model import Link\n"
    assert len(list(foreign_private_modules(other, "envlab.envs.scene"))) == 2
    assert not list(foreign_private_modules(other, "envlab.sim.analytic_backend"))


def test_each_kind_of_private_name_is_found():
    code = """
from a import _one
other._two = 2
monkeypatch.setattr("a.b._three", 3)
setattr(other, "_four", 4)
self._own, super()._own, env._get_rewards, module.__name__, point._replace()
# private: a reason
other._said
other._five  # private: is said
"""
    assert list(unsaid(code)) == [(2, "_one"), (3, "_two"), (4, "_three"), (5, "_four")]
