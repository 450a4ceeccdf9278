"""Mutations of the code: small faults, each of which some test should find.

They are chosen by a seed, in equal parts over rooms (folders of the packages) and kinds.
"""

from __future__ import annotations

import ast
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

KINDS = ("comparison", "sign", "condition", "collective", "state", "rank")
"""A comparison is turned, a sign changed, a condition dropped, a collective left out, a field left
out of a state, a rank read wrongly."""
_TURNED = {"<=": ">", ">=": "<", "==": "!=", "!=": "==", "<": ">=", ">": "<="}
_COLLECTIVES = {
    "gather": "[{}]",
    "gather_to_main": "[{}]",
    "max": "[{}]",
    **dict.fromkeys(("broadcast", "sum", "all_reduce", "scatter_from_main"), "{}"),
}
"""Replacements of collectives: their result with one process; ``{}`` is the argument."""
_SAVES = re.compile(r"(^|_)(state|state_dict|checkpoint|resume|save)($|_)")
_RANKS = {"rank": "0", "local_rank": "0", "world_size": "1"}


@dataclass(frozen=True, kw_only=True)
class Mutation:
    """A replacement in a line of a file."""

    path: str
    """Relative to the repository."""
    room: str
    kind: str
    function: str
    """Its qualified name, or an empty text."""
    line: int
    """From 1."""
    before: str
    after: str
    """The text of the replaced lines, before and after."""

    def applied(self, root: Path) -> str:
        """Return the text of a checkout's file with the replacement.

        Raises:
            ValueError: If the checkout's file lacks the text.
        """
        lines = (root / self.path).read_text().splitlines(keepends=True)
        first = self.place(root) - 1
        lines[first : first + self.before.count("\n")] = [self.after]
        return "".join(lines)

    def place(self, root: Path) -> int:
        """Return the line of a checkout where the text is, the nearest one if there are several.

        Raises:
            ValueError: If the file lacks the text.
        """
        file, old = root / self.path, self.before.splitlines(keepends=True)
        lines = file.read_text().splitlines(keepends=True) if file.exists() else []
        places = [n + 1 for n in range(len(lines)) if lines[n : n + len(old)] == old]
        if not places:
            raise ValueError(f"{self.path} has no {self.before.strip()!r}")
        return min(places, key=lambda line: abs(line - self.line))


def room_of(path: Path) -> str:
    """Return a file's room: a folder of the core, or a guest."""
    if path.parts[0] == "source":
        return path.parts[1]
    return "/".join(path.parts[:2]) if len(path.parts) > 2 else path.parts[0]


def mutations(root: Path) -> Iterator[Mutation]:
    """Yield all mutations of a checkout."""
    for package in (root / "envlab", *sorted((root / "source").glob("envlab_*"))):
        for path in sorted(package.rglob("*.py")):
            yield from _of_file(root, path)


def choose(root: Path, seed: int, count: int) -> list[Mutation]:
    """Return mutations of a checkout, evenly over rooms and kinds, and at most one in a line."""
    draw = random.Random(seed)
    groups: dict[tuple[str, str], list[Mutation]] = defaultdict(list)
    for one in mutations(root):
        groups[one.room, one.kind].append(one)
    for members in groups.values():
        draw.shuffle(members)
    chosen: list[Mutation] = []
    taken: set[tuple[str, int]] = set()
    order = sorted(groups)
    while len(chosen) < count and groups:
        draw.shuffle(order)
        for key in order:
            while groups[key]:
                one = groups[key].pop()
                if (one.path, one.line) not in taken and _is_python(root, one):
                    taken.add((one.path, one.line))
                    chosen.append(one)
                    break
    return chosen[:count]


def _of_file(root: Path, path: Path) -> Iterator[Mutation]:
    text = path.read_text()
    tree, lines = ast.parse(text), text.splitlines(keepends=True)
    relative = path.relative_to(root)
    for function, parent, node in _walk(tree):
        for kind, mutate in _MUTATORS.items():
            for first, last, replacement in mutate(node, parent, function, text):
                # Columns count bytes of UTF-8.
                head = lines[first[0] - 1].encode()[: first[1]].decode()
                tail = lines[last[0] - 1].encode()[last[1] :].decode()
                before = "".join(lines[first[0] - 1 : last[0]])
                after = f"{head}{replacement}{tail}"
                if before != after:
                    yield Mutation(
                        path=str(relative),
                        room=room_of(relative),
                        kind=kind,
                        function=function,
                        line=first[0],
                        before=before,
                        after=after,
                    )


def _is_python(root: Path, one: Mutation) -> bool:
    try:
        ast.parse(one.applied(root))
    except SyntaxError:
        return False
    return True


def _walk(tree: ast.AST, function: str = "") -> Iterator[tuple[str, ast.AST, ast.AST]]:
    """Yield functions' names, parents and nodes; without annotations, which nothing executes."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST):
                continue
            yield function, tree, child
            inner = function
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                inner = f"{function}.{child.name}".lstrip(".")
            yield from _walk(child, inner)


Place = tuple[int, int]
Edit = tuple[Place, Place, str]


def _start(node: ast.expr | ast.stmt) -> Place:
    return node.lineno, node.col_offset


def _end(node: ast.expr | ast.stmt) -> Place:
    return node.end_lineno or node.lineno, node.end_col_offset or 0


def _between(left: ast.expr, right: ast.expr, text: str) -> tuple[str, Place, Place]:
    """Return the text between two operands on one line; an empty one across lines."""
    first, last = _end(left), _start(right)
    if first[0] != last[0]:
        return "", first, last
    return text.splitlines()[first[0] - 1].encode()[first[1] : last[1]].decode(), first, last


def _comparison(node: ast.AST, parent: ast.AST, function: str, text: str) -> Iterator[Edit]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        gap, first, last = _between(node.left, node.comparators[0], text)
        if gap.strip(" ()") in _TURNED and "__name__" not in ast.dump(node.left):
            sign = gap.strip(" ()")
            yield first, last, gap.replace(sign, _TURNED[sign])


def _sign(node: ast.AST, parent: ast.AST, function: str, text: str) -> Iterator[Edit]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        words = (ast.JoinedStr, ast.List, ast.Tuple)
        is_text = any(
            isinstance(one, words) or (isinstance(one, ast.Constant) and isinstance(one.value, str))
            for one in (node.left, node.right)
        )
        gap, first, last = _between(node.left, node.right, text)
        sign = gap.strip(" ()")
        if sign in ("+", "-") and not is_text:
            yield first, last, gap.replace(sign, "-" if sign == "+" else "+")
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield _start(node), _start(node.operand), ""


def _condition(node: ast.AST, parent: ast.AST, function: str, text: str) -> Iterator[Edit]:
    if isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.dump(node.test):
        if node.test.lineno == node.test.end_lineno:
            yield _start(node.test), _end(node.test), "False"
    elif isinstance(node, ast.BoolOp):
        yield _start(node), _end(node), ast.get_source_segment(text, node.values[0]) or ""


def _collective(node: ast.AST, parent: ast.AST, function: str, text: str) -> Iterator[Edit]:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return
    owner = ast.get_source_segment(text, node.func.value) or ""
    if not re.search(r"(context|dist|ranks|group)$", owner):
        return
    name = node.func.attr
    if isinstance(parent, ast.Expr) and (name in _COLLECTIVES or name == "barrier"):
        yield _start(node), _end(node), "None"
    elif name in _COLLECTIVES and node.args:
        given = ", ".join(ast.get_source_segment(text, one) or "" for one in node.args)
        yield _start(node), _end(node), _COLLECTIVES[name].format(given)


def _state(node: ast.AST, parent: ast.AST, function: str, text: str) -> Iterator[Edit]:
    if not (isinstance(node, ast.Dict) and _SAVES.search(function.rpartition(".")[2])):
        return
    rows = list(zip(node.keys, node.values, strict=True))
    for (key, value), (after, _) in zip(rows, [*rows, (None, None)][1:], strict=True):
        if len(rows) > 1 and isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield _start(key), _start(after) if isinstance(after, ast.expr) else _end(value), ""


def _rank(node: ast.AST, parent: ast.AST, function: str, text: str) -> Iterator[Edit]:
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and node.attr in _RANKS:
        yield _start(node), _end(node), _RANKS[node.attr]


_MUTATORS: dict[str, Callable[[ast.AST, ast.AST, str, str], Iterator[Edit]]] = {
    "comparison": _comparison,
    "sign": _sign,
    "condition": _condition,
    "collective": _collective,
    "state": _state,
    "rank": _rank,
}
