"""Write into docs/from_isaac_lab.md the table of Isaac Lab's kinds of tasks and their status.

It takes the folders of checkouts or unpacked wheels of Isaac Lab, reads their registered ids
without running them, and fetches nothing::

    python scripts/documentation/from_isaac_lab.py ~/IsaacLab-2.3.2 ~/IsaacLab-3.0.0 --verbose
"""

from __future__ import annotations

import ast
import collections
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from envlab import registry
from envlab.arguments import ArgumentParser
from envlab.distributed.program import guarded
from envlab.errors import ConfigurationError, UnknownTaskError
from envlab_bridge import outcomes

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/from_isaac_lab.md"
HERE, HERE_OLDER = "here, by the same id", "here, by the id of 2.3.2"
KINDS = {
    r"Mimic|Skillgen|Blueprint|Cosmos|Teleop|Stack-Cube|PickPlace|Place-|Keyboard": (
        "for demonstrations and teleoperation, without rewards"
    ),
    r"Factory|Forge|AutoMate|Assembl|NutPour|ExhaustPipe|Pour": "parts that fit into one another",
    r"Soft|Cloth|Cable|Particle|Teddy": "soft bodies",
    r"Showcase": "Cartpole with other spaces",
    r"RGB|Camera|Vision|Render|-Cartpole-Depth": "pictures in colour, or by a manager",
    r"Digit|OpenArm|UR10e|Rizon|Kuka|ARL|DrLegs|Multi|Steer|Fourbar": ("robots that are not here"),
}
"""Names of missing features, by words of ids. The first match counts."""


def main(arguments: Sequence[str]) -> int:
    """Write the table; return the exit code."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("checkouts", type=Path, nargs="+", help="folders of Isaac Lab's versions")
    parser.add_argument("--verbose", action="store_true", help="print what becomes of each id")
    flags = parser.parse_args(arguments)
    counts: dict[str, collections.Counter[str]] = {}
    for checkout in flags.checkouts:
        found = {task_id: outcome(task_id) for task_id in ids(checkout)}
        counts[checkout.name] = collections.Counter(found.values())
        if flags.verbose:
            print("".join(f"{task_id}: {row}\n" for task_id, row in sorted(found.items())), end="")
    rows = dict.fromkeys([HERE, HERE_OLDER, *KINDS.values(), "others"])
    outcomes.write(PAGE, Path(__file__).name, outcomes.columns(counts, rows))
    return 0


def ids(checkout: Path) -> Iterator[str]:
    """Yield the ids that the files of a version register; without those of tests.

    Raises:
        ConfigurationError: If it is not a version of Isaac Lab.
    """
    packages = sorted(checkout.rglob("isaaclab_tasks"))
    if not packages:
        raise ConfigurationError(
            f"{checkout} has no folder isaaclab_tasks. Give the folder of a checkout of Isaac Lab, "
            "or of its unpacked wheel."
        )
    for path in sorted(checkout.rglob("*.py")):
        if "test" in path.relative_to(checkout).parts:
            continue
        text = path.read_text()
        if "gym.register(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "gym.register":
                given = next(word.value for word in node.keywords if word.arg == "id")
                if isinstance(given, ast.Constant):
                    yield str(given.value)


def outcome(task_id: str) -> str:
    """Return the table's row of an id."""
    try:
        task = registry.get_task(task_id)
    except UnknownTaskError:
        return next((row for words, row in KINDS.items() if re.search(words, task_id)), "others")
    return HERE if task.id.removesuffix("-v0") == task_id.removesuffix("-v0") else HERE_OLDER


if __name__ == "__main__":
    sys.exit(guarded(main, sys.argv[1:]))
