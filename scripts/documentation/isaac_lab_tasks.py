"""Write into docs/from_isaac_lab.md which tasks of Isaac Lab build, step and train here.

Each task of isaaclab_tasks runs in a fork of its own (``isaac_lab_task.py``), on a CPU, with four
environments::

    ISAACLAB_PATH=FOLDER python scripts/documentation/isaac_lab_tasks.py

With ``--only=REGEX`` it prints what becomes of those ids, and writes nothing. ``--known=LOG`` takes
outcomes from what an earlier run printed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from envlab.arguments import ArgumentParser
from envlab.distributed.program import guarded
from envlab_bridge.outcomes import write

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/from_isaac_lab.md"
ONE = ROOT / "scripts/documentation/isaac_lab_task.py"
NUM_STAGES = 3  # it is made, it steps, it trains


@dataclass(frozen=True)
class Outcome:
    """How far a task went: the number of stages it reached, and what ended it."""

    stages: int
    sentence: str


def main(arguments: Sequence[str]) -> int:
    """Run the tasks and write the table; return the exit code."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a regular expression of ids")
    parser.add_argument("--limit_s", type=float, default=240.0, help="time for a task, in s")
    parser.add_argument("--known", type=Path, help="output of an earlier run, not to be repeated")
    flags = parser.parse_args(arguments)
    known = read(flags.known) if flags.known is not None else {}
    with started("--list") as listing:
        agents: dict[str, list[str]] = json.loads(listing.communicate()[0].splitlines()[-1])
    ids = [task_id for task_id in sorted(agents) if re.search(flags.only, task_id)]
    outcomes = known | run([one for one in ids if one not in known], flags.limit_s)
    if not flags.only:
        lines = table({task_id: outcomes[task_id] for task_id in ids}, agents)
        write(PAGE, Path(__file__).name, lines.rstrip("\n"))
    return 0


def read(log: Path) -> dict[str, Outcome]:
    """Return the outcomes that a run printed."""
    lines = re.findall(r"^(Isaac\S+): (\d) ?(.*)$", log.read_text(encoding="utf-8"), re.MULTILINE)
    return {task_id: Outcome(int(stages), sentence) for task_id, stages, sentence in lines}


def started(*words: str) -> subprocess.Popen[str]:
    """Start ``isaac_lab_task.py``."""
    return subprocess.Popen(
        [sys.executable, "-m", "envlab_isaaclab", str(ONE), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def run(ids: Sequence[str], limit_s: float) -> dict[str, Outcome]:
    """Run tasks one after the other, and print how far each goes."""
    found = {}
    with started(f"--limit_s={limit_s}") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n".join(ids))
        process.stdin.close()
        for line in process.stdout:
            if line.startswith('{"task"'):
                told = json.loads(line)
                found[told["task"]] = one = Outcome(told["stages"], told["sentence"])
                print(f"{told['task']}: {one.stages} {one.sentence}", flush=True)
    return found


def table(outcomes: dict[str, Outcome], agents: dict[str, list[str]]) -> str:
    """Return the lines of the page."""
    counts = [sum(one.stages >= stage for one in outcomes.values()) for stage in (1, 2, 3)]
    with_agent = sum(bool(agents[task_id]) for task_id in outcomes)
    lines = [
        f"Of the {len(outcomes)} tasks, {counts[0]} can be made, {counts[1]} step, and of the "
        f"{with_agent} with an agent {counts[2]} train for two iterations.",
        "",
        "| what ends a task | at | tasks |",
        "|---|---|---|",
    ]
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for task_id, one in outcomes.items():
        if one.stages < NUM_STAGES and one.sentence:
            reached = ("making", "stepping", "training")[one.stages]
            groups[general(one.sentence), reached].append(task_id)
    sizes = Counter({key: len(ids) for key, ids in groups.items()})
    for (sentence, reached), _ in sizes.most_common():
        names = ", ".join(f"`{task_id}`" for task_id in groups[sentence, reached])
        lines.append(f"| {sentence.replace('|', '/')} | {reached} | {names} |")
    return "\n".join(lines) + "\n"


def general(sentence: str) -> str:
    """Return a sentence without what differs between tasks that end for the same reason."""
    text = re.sub(r", to be spawned at \S+,", "", sentence)
    text = re.sub(r" was raised from the environment creator for .*", "", text)
    return (
        text.replace(str(ROOT), "")
        .replace(sys.prefix, "")
        .replace(os.environ.get("ISAACLAB_PATH", "\0"), "")
    )


if __name__ == "__main__":
    sys.exit(guarded(main, sys.argv[1:]))
