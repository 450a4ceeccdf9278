"""Try mutations of the code on the test suite, and list which of them no test finds.

    pip install coverage
    python -m scripts.mutation.run measure lines.json
    python -m scripts.mutation.run try lines.json --seed 57 --count 120 results.jsonl
    python -m scripts.mutation.run table results.jsonl...

``measure`` runs the suite, and writes which tests execute each line of the packages. ``try``
applies one mutation after the other to copies of the checkout, and runs tests that execute its
line until one fails; an interrupted one continues. ``--checkout`` names the
checkout of another suite, such as that of an earlier commit, to which the same mutations are
applied. ``table`` writes ``tests/mutations.md``.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Any

from scripts.mutation.mutations import KINDS, Mutation, choose

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "tests/mutations.md"
LIMIT_S = 900
"""Longest time of the tests of one mutation; a test of more than two minutes hangs, and fails."""
MOST_TESTS = 30
"""Maximum number of tests of a line to run: those that execute the fewest lines in all."""
Lines = dict[str, dict[str, list[str]]]
"""Tests by path and line, the most specific first."""
_SITE = """
import atexit, os, sys
import coverage
_suite = coverage.Coverage(config_file={config!r}, data_suffix=True)
_suite.start()
def _end():
    _suite.stop()
    _suite.save()
atexit.register(_end)
_test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" (")[0]
_suite.switch_context(_test.partition("[")[0])
sys._suite = _suite
"""
_PLUGIN = """
import os, sys
def pytest_runtest_setup(item):
    sys._suite.switch_context(item.nodeid.partition("[")[0])
"""


def main() -> int:
    """Do what the words ask for; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    measuring = verbs.add_parser("measure", help="find the tests that execute each line")
    measuring.add_argument("lines", type=Path)
    trying = verbs.add_parser("try", help="apply mutations, and run the tests of their lines")
    trying.add_argument("lines", type=Path, help="what 'measure' has written")
    trying.add_argument("results", type=Path, help="a line for each mutation is added here")
    trying.add_argument("--seed", type=int, default=57)
    trying.add_argument("--count", type=int, default=120)
    trying.add_argument("--checkout", type=Path, default=ROOT, help="whose tests run")
    trying.add_argument("--workers", type=int, default=2)
    trying.add_argument("--missed_by", type=Path, help="only those that these results have missed")
    writing = verbs.add_parser("table", help=f"write {PAGE.relative_to(ROOT)}")
    writing.add_argument("new", type=Path, help="results of this suite")
    writing.add_argument("old", type=Path, nargs="?", help="results of an earlier one")
    flags = parser.parse_args()
    if flags.verb == "measure":
        measure(flags.lines)
    elif flags.verb == "table":
        write_table(flags.new, flags.old)
    else:
        try_mutations(flags)
    return 0


def measure(path: Path) -> None:
    """Run the suite, and write the tests that execute each line."""
    import coverage  # only here: no other command needs it

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = folder / "coverage.ini"
        config.write_text(
            f"[run]\nbranch = True\nparallel = True\npatch = _exit\ndata_file = {folder}/data\n"
            f"source = {ROOT / 'envlab'}\n    {ROOT / 'source'}\n"
        )
        site = ROOT / "sitecustomize.py"  # also in the folder that tests give to their processes
        site.write_text(_SITE.format(config=str(config)))
        plugin = ROOT / "contexts_of_tests.py"
        plugin.write_text(_PLUGIN)
        try:
            suite = "-q -n 3 --dist loadfile -o timeout=900"
            subprocess.run(
                [sys.executable, "-m", "pytest", "-p", "contexts_of_tests", *suite.split()],
                cwd=ROOT,
                env=_environment(ROOT),
                check=False,
            )
        finally:
            site.unlink()
            plugin.unlink()
        measured = coverage.Coverage(config_file=str(config))
        measured.combine()
        data = measured.get_data()
        path.write_text(json.dumps(most_specific(data)))
        measured.report(show_missing=False)


def most_specific(data: Any) -> Lines:
    """Return the tests of each line in what coverage has measured."""
    found = {
        str(Path(file).relative_to(ROOT)): data.contexts_by_lineno(file)
        for file in sorted(data.measured_files())
    }
    size = Counter(test for lines in found.values() for tests in lines.values() for test in tests)
    return {
        path: {
            str(line): sorted(filter(None, tests), key=lambda test: (size[test], test))[:MOST_TESTS]
            for line, tests in lines.items()
        }
        for path, lines in found.items()
    }


def try_mutations(flags: argparse.Namespace) -> None:
    """Try each mutation that has no result yet."""
    lines: Lines = json.loads(flags.lines.read_text())
    asked = choose(ROOT, flags.seed, flags.count)
    if flags.missed_by:
        missed = {_key(one) for one in _read(flags.missed_by) if not one["caught_by"]}
        asked = [one for one in asked if _key(asdict(one)) in missed]
    done = {_key(one) for one in _read(flags.results)} if flags.results.exists() else set()
    copies: queue.Queue[Path] = queue.Queue()
    with tempfile.TemporaryDirectory() as name:
        for number in range(flags.workers):
            copy = Path(name) / str(number)
            ignored = shutil.ignore_patterns(".git", ".venv*", "__pycache__", "logs", "*.egg-info")
            shutil.copytree(flags.checkout, copy, ignore=ignored, symlinks=True)
            copies.put(copy)

        def attempt(one: Mutation) -> dict[str, Any]:
            copy = copies.get()
            try:
                return asdict(one) | try_one(copy, one, lines)
            finally:
                copies.put(copy)

        left = [one for one in asked if _key(asdict(one)) not in done]
        with concurrent.futures.ThreadPoolExecutor(flags.workers) as pool:
            for result in pool.map(attempt, left):
                with flags.results.open("a") as file:
                    file.write(json.dumps(result) + "\n")
                print(f"{result['path']}:{result['line']} {result['kind']}: {result['caught_by']}")


def try_one(copy: Path, one: Mutation, lines: Lines) -> dict[str, Any]:
    """Return the test that finds a mutation of a copy, or an empty text."""
    try:
        first, text = one.place(copy), one.applied(copy)
    except ValueError as error:
        return {"caught_by": "", "note": str(error)}
    last = first + one.before.count("\n")
    file = copy / one.path
    mine = lines.get(one.path, {})
    named = [name for number in range(first, last) for name in mine.get(str(number), [])]
    if not named:  # a field of a class, or a kernel, whose lines Python does not execute in a test
        depth = Counter(name for names in mine.values() for name in names)
        named = [name for name, _ in depth.most_common()]
    tests = [name for name in dict.fromkeys(named) if _is_there(copy, name)][:MOST_TESTS]
    if not tests:
        return {"caught_by": "", "note": "no test executes it"}
    before = file.read_text()
    while tests:
        file.write_text(text)
        try:
            failed = _first_failure(copy, tests)
        finally:
            file.write_text(before)
        if not failed.startswith("tests/") or not _first_failure(copy, [failed]):
            return {"caught_by": failed, "note": ""}
        tests = [name for name in tests if name != failed.partition("[")[0]]  # it fails anyhow
    return {"caught_by": "", "note": "each test of it also fails without it"}


def _is_there(copy: Path, test: str) -> bool:
    path, _, name = test.partition("::")
    file = copy / path
    return file.is_file() and f"def {name.rpartition('::')[2]}(" in file.read_text()


def _first_failure(copy: Path, tests: list[str]) -> str:
    """Return the first test that fails, an empty text if all pass."""
    words = "-q -x -n 0 -p no:cacheprovider -o timeout=120 --no-header"
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", *words.split(), *tests],
            cwd=copy,
            env=_environment(copy),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        return ""
    if ended.returncode == 0:
        return ""
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", ended.stdout, flags=re.MULTILINE)
    return found[1] if found else "a run that ends"


def _environment(root: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": f"{root}:{root / 'source'}", "OMP_NUM_THREADS": "1"}


def _key(one: dict[str, Any]) -> tuple[str, ...]:
    return one["path"], one["function"], one["before"], one["after"]


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def write_table(new: Path, old: Path | None) -> None:
    """Write the page of mutations, by room and kind, and those that no test finds."""
    results = _read(new)
    before = {_key(one): one for one in _read(old)} if old else {}
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for one in results:
        counts[one["room"]][one["kind"]] += 1
        counts[one["room"]]["found"] += bool(one["caught_by"])
        counts[one["room"]]["all"] += 1
    rows = [f"| room | {' | '.join(KINDS)} | all | found |", "|---" * (len(KINDS) + 3) + "|"]
    for room, found in sorted(counts.items()):
        cells = [str(found[kind]) for kind in (*KINDS, "all", "found")]
        rows.append(f"| {room} | {' | '.join(cells)} |")
    total = sum(counts.values(), Counter())
    rows.append(f"| all | {' | '.join(str(total[k]) for k in (*KINDS, 'all', 'found'))} |")
    missed = ["| place | kind | before | after | earlier suite |", "|---|---|---|---|---|"]
    for one in results:
        if not one["caught_by"]:
            was = before.get(_key(one))
            earlier = "not tried" if was is None else was["caught_by"] or "none"
            cells = [f"{one['path']}:{one['line']}", one["kind"]]
            cells += [
                f"`{one[key].strip()[:60]}`".replace("|", "\\|") for key in ("before", "after")
            ]
            missed.append(f"| {' | '.join([*cells, earlier])} |")
    head = PAGE.read_text().partition("<!-- mutations -->")[0] if PAGE.exists() else ""
    PAGE.write_text("\n".join([f"{head}<!-- mutations -->", *rows, "", *missed]) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
