"""Repeat the evaluation of each card of docs/results.md, and compare it with what the card says.

    python scripts/documentation/check_results.py                 # all, an hour of two cores
    python scripts/documentation/check_results.py Isaac-Ant-v0 ...

A card is confirmed if each of its measures lies within its interval over episodes. On the machine
that wrote it, the numbers are the same; on another, an interval of 95 % misses now and then, so a
measure counts as missed if the intervals of both evaluations do not meet. The exit code is the
number of cards that failed.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from scripts.documentation.results import cards, play_command  # noqa: E402


def main(tasks: Sequence[str]) -> int:
    """Check the cards of some tasks, or all; return how many failed."""
    num_failed = 0
    for card, policy in cards():
        if tasks and card["task"] not in tasks:
            continue
        then = policy.evaluation
        command = play_command(policy, then["num_episodes"])
        print(command, flush=True)
        now = repeated(command)
        missed = [f"{name}: {text}" for name, text, is_missed in compare(then, now) if is_missed]
        for name, text, _ in compare(then, now):
            print(f"  {name}: {text}")
        num_failed += bool(missed)
        print(f"  {'MISSED ' + '; '.join(missed) if missed else 'confirmed'}", flush=True)
    return num_failed


def repeated(command: str) -> Mapping[str, Any]:
    """Return what a card's command measures now."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", *shlex.split(command), "--json=now.json", "--device=cpu"]
        subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        found: Mapping[str, Any] = json.loads(Path(folder, "now.json").read_text())
    return found


def compare(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, str, bool]]:
    """Yield each measure's name, its values, and whether their intervals do not meet."""
    for name, value, (low, high) in measures(then):
        again = {other: (mean, ends) for other, mean, ends in measures(now)}
        if name not in again:
            yield name, f"{value:.4g}, and is not measured any more", True
            continue
        mean, (bottom, top) = again[name]
        text = f"{value:.4g} ({low:.4g} to {high:.4g}), now {mean:.4g} ({bottom:.4g} to {top:.4g})"
        yield name, text, top < low or bottom > high


def measures(evaluation: Mapping[str, Any]) -> Iterator[tuple[str, float, tuple[float, float]]]:
    """Yield what has an interval: its name, mean, and the ends."""
    for name, (low, high) in evaluation.get("intervals", {}).items():
        yield name, evaluation[name], (low, high)
    for name, found in evaluation.get("measures", {}).get("all", {}).items():
        if isinstance(found, list):  # not the number of episodes
            yield name, found[0], (found[1], found[2])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
