"""``envlab terms``: the terms of manager-based tasks, with parameters and defaults.

The sources are parsed, not imported, so that this is as fast as ``envlab list``. A term is a public
function whose first parameter is ``env``, a class with a memory that is called as one, what
``of_field(...)`` returns, or the configuration of an action or a command.
"""

from __future__ import annotations

import argparse
import ast
import importlib.metadata
import importlib.util
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from envlab.arguments import ArgumentParser
from envlab.errors import ConfigurationError, did_you_mean
from envlab.task import ENTRY_POINT_GROUP

SHARED = "envlab.envs.mdp"
"""Terms that tasks share; those of one family of tasks are next to its tasks."""
_BASES = "envlab.envs.managers"
"""The package of base classes of terms' configurations."""
KINDS = (
    "action",
    "command",
    "observation",
    "reward",
    "termination",
    "success",
    "event",
    "curriculum",
)
_OF_CONFIG = {
    "ObservationTermCfg": "observation",
    "RewardTermCfg": "reward",
    "TerminationTermCfg": "termination",
    "SuccessTermCfg": "success",
}
_IN_ONE_LINE = ("observation", "reward", "termination")
"""Functions of envlab.envs.terms, whose first argument is a term."""
_OBSERVE = ("observations", "root", "perception")
"""Modules of terms that are observations, whether or not a task uses them."""
_GIVEN = ("env", "mask", "stream")
"""Parameters that the managers pass."""


@dataclass(kw_only=True)
class Term:
    """A listed term."""

    name: str
    """As in ``mdp.NAME``, or ``module:NAME``."""
    module: str
    """The module of its code."""
    kinds: list[str]
    """Its possible kinds; a function of the state may be both an observation and a reward."""
    params: dict[str, str]
    """Parameters or fields with their defaults as source text; ``...`` if there is none."""
    summary: str
    """The first line of its docstring."""


def main(arguments: Sequence[str]) -> int:
    """Print the terms, and return 0."""
    flags = _parse(arguments)
    found = [
        term
        for term in find_terms()
        if (flags.kind is None or flags.kind in term.kinds)
        and (flags.keyword or "").lower() in f"{term.name} {term.summary}".lower()
    ]
    if flags.json:
        print(json.dumps([asdict(term) for term in found], indent=2))
    elif found:
        print(text(found))
    else:
        print("No term matches.")
    return 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = ArgumentParser(
        prog="envlab terms",
        description="List the terms that tasks are made of, with their parameters and defaults.",
        epilog="Shared ones are mdp.NAME, after 'from envlab.envs import mdp'.",
    )
    parser.add_argument("kind", nargs="?", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument(
        "--keyword", metavar="WORD", help="only terms whose name or description has it"
    )
    parser.add_argument("--json", action="store_true", help="for scripts: a list of objects")
    flags = parser.parse_args(list(arguments))
    if flags.kind is not None:
        singular = {plural(kind): kind for kind in KINDS}
        flags.kind = singular.get(flags.kind, flags.kind)
        if flags.kind not in KINDS:
            raise ConfigurationError(
                f"There is no kind of term {flags.kind!r}.{did_you_mean(flags.kind, KINDS)} There "
                f"are {', '.join(KINDS)}."
            )
    return flags


def plural(kind: str) -> str:
    """Return a kind of term in the plural."""
    return {"curriculum": "curricula", "success": "successes"}.get(kind, f"{kind}s")


def text(terms: Sequence[Term]) -> str:
    """Return terms under their kinds; a term of several kinds is under the first."""
    parts = []
    for kind in KINDS:
        of_kind = [term for term in terms if term.kinds[0] == kind]
        if of_kind:
            parts.append(plural(kind).upper())
        for term in of_kind:
            also = f"  (also {', '.join(term.kinds[1:])})" if term.kinds[1:] else ""
            params = ", ".join(
                name if default == "..." else f"{name}={default}"
                for name, default in term.params.items()
            )
            place = f"  [{term.module}]" if term.name.startswith("mdp.") else ""
            parts += [f"  {term.name}({params}){also}", f"      {term.summary}{place}"]
    return "\n".join(parts)


def find_terms() -> list[Term]:
    """Return envlab's terms, and those of the installed suites of tasks, by kind and name."""
    packages = (SHARED, _BASES, *_suites())
    sources = {name: tree for package in packages for name, tree in _modules(package)}
    uses = _uses(sources.values())
    classes = {
        node.name: node
        for tree in sources.values()
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }
    exported = {node.value for node in ast.walk(sources[SHARED]) if isinstance(node, ast.Constant)}
    terms: list[Term] = []
    for module, tree in sources.items():
        is_shared = module.startswith(SHARED)
        if module == f"{SHARED}.dr":
            terms += _made(module, tree)
            continue
        for node in () if module.startswith(_BASES) else tree.body:
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or node.name.startswith("_"):
                continue
            called = _called(node, classes)
            kinds = _kinds(called, module, uses.get(node.name, ()))
            if not kinds or (is_shared and node.name not in exported):
                continue
            term = Term(
                name=f"mdp.{node.name}" if is_shared else f"{module}:{node.name}",
                module=module,
                kinds=kinds,
                params=(
                    _params(called, tree)
                    if isinstance(called, ast.FunctionDef)
                    else _fields(called, classes)
                ),
                summary=(ast.get_docstring(node) or "").partition("\n")[0],
            )
            terms.append(term)
    return sorted(terms, key=lambda term: (KINDS.index(term.kinds[0]), term.name))


def _called(
    node: ast.FunctionDef | ast.ClassDef, classes: Mapping[str, ast.ClassDef]
) -> ast.FunctionDef | ast.ClassDef:
    """Return the method ``__call__(self, env, ...)`` of a term that is a class, else the node."""
    own: ast.FunctionDef | ast.ClassDef | None = node
    while isinstance(own, ast.ClassDef):
        for line in own.body:
            if isinstance(line, ast.FunctionDef) and line.name == "__call__":
                arguments = ast.arguments(**{**vars(line.args), "args": line.args.args[1:]})
                return ast.FunctionDef(**{**vars(line), "args": arguments})
        bases = [classes[name] for name in map(_last_name, own.bases) if name in classes]
        own = next((base for base in bases if base.name != "ManagerTermBase"), None)
    return node


def _made(module: str, tree: ast.Module) -> Iterator[Term]:
    """Yield the events of ``dr``: those made by ``of_field`` and its like, and functions."""
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    makers = {name: function for name, function in functions.items() if name.startswith("of_")}
    terms: dict[str, Term] = {}

    def add(name: str, function: ast.FunctionDef, summary: str) -> None:
        kinds, params = ["event"], _params(function, tree)
        terms[name] = Term(
            name=f"mdp.dr.{name}", module=module, kinds=kinds, params=params, summary=summary
        )

    for name, function in functions.items():
        if not name.startswith("_") and name not in makers:
            add(name, function, (ast.get_docstring(function) or "").partition("\n")[0])
    for line in tree.body:
        if not isinstance(line, ast.Assign):
            continue
        name, value = _last_name(line.targets[0]), line.value
        if isinstance(value, ast.Call) and _last_name(value.func) in makers:
            maker = makers[_last_name(value.func)]
            inner = next(node for node in maker.body if isinstance(node, ast.FunctionDef))
            add(name, inner, str(ast.literal_eval(value.args[1])))
            if "operation" in terms[name].params:  # the maker's, which it may be given
                given = [*map(ast.unparse, value.args[2:3]), _params(maker, tree)["operation"]]
                terms[name].params["operation"] = given[0]
        elif isinstance(value, ast.Name) and value.id in terms:
            terms[name] = replace(terms[value.id], name=f"mdp.dr.{name}")
    yield from terms.values()


def _suites() -> list[str]:
    """Return the packages of the installed suites of tasks."""
    entry_points = importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
    return sorted({entry_point.module.partition(".")[0] for entry_point in entry_points})


def _modules(package: str) -> Iterator[tuple[str, ast.Module]]:
    """Yield the modules of a package by name, parsed; none if it cannot be found."""
    outer, *inner = package.split(".")
    spec = importlib.util.find_spec(outer)
    for place in (spec and spec.submodule_search_locations) or ():
        folder = Path(place, *inner)
        for path in sorted(folder.rglob("*.py")):
            below = path.relative_to(folder).with_suffix("").parts
            name = ".".join((package, *(part for part in below if part != "__init__")))
            yield name, ast.parse(path.read_text(encoding="utf-8"))


def _uses(trees: Iterable[ast.Module]) -> dict[str, list[str]]:
    """Return the uses of functions in tasks: kinds by the function's name."""
    uses: dict[str, list[str]] = {}
    for node in (node for tree in trees for node in ast.walk(tree)):
        for kind, function in _used(node):
            kinds = uses.setdefault(_last_name(function), [])
            if kind not in kinds:
                kinds.append(kind)
    return uses


def _used(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield the functions that an expression uses as terms, each with its kind."""
    if isinstance(node, ast.Call):
        name = _last_name(node.func)
        if name in _IN_ONE_LINE:
            yield from ((name, function) for function in node.args[:1])
        elif name in _OF_CONFIG:
            functions = (each.value for each in node.keywords if each.arg == "func")
            yield from ((_OF_CONFIG[name], function) for function in functions)
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        # A field of a task, which may come from the task's own function: feet(mdp.foot_height).
        of_field = [_OF_CONFIG[name] for name in _OF_CONFIG if name in ast.unparse(node.annotation)]
        for part in ast.walk(node.value) if of_field else ():
            if isinstance(part, ast.Attribute) and _last_name(part.value) == "mdp":
                yield of_field[0], part


def _last_name(node: ast.AST) -> str:
    return getattr(node, "attr", getattr(node, "id", ""))


def _kinds(node: ast.FunctionDef | ast.ClassDef, module: str, uses: Sequence[str]) -> list[str]:
    """Return the possible kinds of a definition; none if it is not a term."""
    if isinstance(node, ast.ClassDef):
        found = re.search(r"(Action|Command)Cfg$", node.name)
        return [found[1].lower()] if found else []
    names = [each.arg for each in node.args.args]
    if names[:1] != ["env"] or {"entity", "initial_value"} & {*names}:  # a helper of other terms
        return []
    if "mask" in names:
        return ["event" if "stream" in names else "curriculum"]
    if uses:
        return sorted(uses, key=KINDS.index)
    if node.returns is None or _last_name(node.returns) != "Tensor":
        return []
    if (ast.get_docstring(node) or "").startswith(("Return whether", "Return which")):
        return ["termination"]
    return ["observation" if module.rpartition(".")[2] in _OBSERVE else "reward"]


def _params(function: ast.FunctionDef, tree: ast.Module) -> dict[str, str]:
    """Return parameters and defaults; named defaults are looked up in the module."""
    named = {
        _last_name(target): ast.unparse(line.value)
        for line in tree.body
        if isinstance(line, (ast.Assign, ast.AnnAssign)) and line.value is not None
        for target in (line.targets if isinstance(line, ast.Assign) else [line.target])
    }
    arguments = function.args.args
    missing = ["..."] * (len(arguments) - len(function.args.defaults))
    defaults = [*missing, *(ast.unparse(default) for default in function.args.defaults)]
    return {
        each.arg: named.get(default, default)
        for each, default in zip(arguments, defaults, strict=True)
        if each.arg not in _GIVEN
    }


def _fields(node: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> dict[str, str]:
    """Return the fields of a dataclass, inherited ones first."""
    fields: dict[str, str] = {}
    for base in (classes[name] for name in map(_last_name, node.bases) if name in classes):
        fields |= _fields(base, classes)
    for line in node.body:
        if isinstance(line, ast.AnnAssign) and "ClassVar" not in ast.unparse(line.annotation):
            fields[_last_name(line.target)] = ast.unparse(line.value) if line.value else "..."
    return fields
