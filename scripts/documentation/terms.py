"""Write docs/terms.md: the words that tasks are made of, and where each comes from.

The words and their lines come from the code, the peers' words and the differences from terms.yaml
next to the page. Run this again after adding a term (a test compares the page with the output)::

    python scripts/documentation/terms.py
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envlab.config import load_yaml
from envlab.envs.mdp import dr
from envlab.tools.terms import Term, find_terms, plural

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/terms.md"
KINDS = (
    *("reward", "termination", "observation", "event", "command", "action", "curriculum"),
    "sensor",
)
_BASES = ("SensorTermCfg", "PeriodicSensorCfg", "RayCastSensorCfg")
HEAD = """# Terms

<!-- Written by scripts/documentation/terms.py from the code and terms.yaml: edit those. -->

Every word of `envlab.envs.mdp` by its kind, with its origin: the same name in `isaaclab.envs.mdp`
(2.3.2), in `mjlab.envs.mdp` (1.6.0), or in the tasks of either. `envlab terms` has their
parameters, and the words of single tasks. How they find joints, bodies and sensors is in
[environments.md](environments.md#terms-and-the-names-in-them). Below are lists of
[differences](#what-differs), of words that [have no meaning here](#what-has-no-meaning-here) or are
[missing](#not-here-yet), and of [Isaac Lab's math](#isaac-labs-math).
"""


def main() -> int:
    """Write the page."""
    PAGE.write_text(page())
    return 0


def page() -> str:
    """Return the text of docs/terms.md."""
    peers = load_yaml(ROOT / "docs/terms.yaml")
    words = [*(term for term in find_terms() if term.name.startswith("mdp.")), *sensors()]
    parts = [HEAD]
    for kind in KINDS:
        rows = sorted(
            (word.name.removeprefix("mdp."), line_of(word.summary))
            for word in words
            if kind in word.kinds
        )
        parts.append(f"\n## {plural(kind).capitalize()}\n\n| word | from | |\n|---|---|---|\n")
        parts += [f"| `{name}` | {origin(name, peers)} | {line} |\n" for name, line in rows]
    known = {word.name.removeprefix("mdp.") for word in words}
    known |= {f"dr.{name}" for name in dr.__all__}  # from other modules
    yet = "".join(_not_here(peers, known))
    return "".join(
        [
            *parts,
            _table("What differs", peers["differs"]),
            _table("What has no meaning here", peers["no_meaning"]),
            "\n## Not here yet\n\n| | Isaac Lab | mjlab |\n|---|---|---|\n",
            *(yet or "| nothing | | |\n"),
            *_math(peers["math"]),
        ]
    )


def line_of(summary: str) -> str:
    """Return a docstring's first line as a table has it: what is returned, not that it is."""
    line = summary.removeprefix("Return ").replace("``", "`").replace("|", r"\|")
    return line[:1].upper() + line[1:]


def origin(name: str, peers: Mapping[str, Any]) -> str:
    """Return where a word comes from."""
    lists = peers["lists"]
    names = {name, f"dr.{name}"}
    found = [peer for peer in lists if names & set(" ".join(lists[peer].values()).split())]
    found += [place for place, words in peers["of_tasks"].items() if name in words.split()]
    return ", ".join(found) or "envlab"


def sensors() -> list[Term]:
    """Return the configurations of sensors in envlab.envs."""
    found = []
    for path in sorted((ROOT / "envlab/envs").rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if not isinstance(node, ast.ClassDef) or node.name in _BASES[:2]:
                continue
            if any(ast.unparse(base) in _BASES for base in node.bases):
                line = (ast.get_docstring(node) or "").partition("\n")[0]
                found.append(
                    Term(name=node.name, module="", kinds=["sensor"], params={}, summary=line)
                )
    return found


def _not_here(peers: Mapping[str, Any], known: set[str]) -> list[str]:
    """Return a row for each kind of which a peer has words that are not here."""
    rows = []
    for kind in KINDS:
        missing = [
            ", ".join(
                f"`{name}`"
                for name in peers["lists"][peer].get(kind, "").split()
                if name not in {*known, *peers["no_meaning"], *peers["differs"]}
            )
            for peer in ("Isaac Lab", "mjlab")
        ]
        if any(missing):
            rows.append(f"| {plural(kind)} | {' | '.join(missing)} |\n")
    return rows


def _math(functions: Mapping[str, Any]) -> list[str]:
    """Return the section about Isaac Lab's functions of rotations and frames."""
    here, missing = functions["here"].split(), functions["no_meaning"]
    return [
        f"\n## Isaac Lab's math\n\n`envlab.envs.math` has {len(here)} of the "
        f"{len(here) + len(missing)} functions of `isaaclab.utils.math` by name, with quaternions "
        "(w, x, y, z), and over batches of any shape:\n",
        f"{', '.join(f'`{name}`' for name in here)}.\n",
        _table("What differs in math", functions["differs"], level=3),
        _table("What has no meaning here of math", missing, level=3),
    ]


def _table(title: str, rows: Mapping[str, str], level: int = 2) -> str:
    lines = "".join(f"| `{name}` | {text} |\n" for name, text in sorted(rows.items()))
    return f"\n{'#' * level} {title}\n\n| word | |\n|---|---|\n{lines}"


if __name__ == "__main__":
    sys.exit(main())
