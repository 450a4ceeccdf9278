"""What becomes of peers' files, counted for a page: each is taken, or ends in one sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from envlab.errors import EnvlabError


def refusal(act: Callable[[], object]) -> str:
    """Return the sentence that ends a file's reading, empty if it is taken."""
    try:
        act()
    except EnvlabError as error:
        return str(error)
    return ""


def columns(counts: Mapping[str, Counter[str]], rows: Iterable[str]) -> str:
    """Return a table with a column for each version, and its sums."""
    table = {row: [found[row] for found in counts.values()] for row in rows}
    table["all"] = [found.total() for found in counts.values()]
    head = [f"| | {' | '.join(counts)} |", "|---|" + "---|" * len(counts)]
    return "\n".join(head + [f"| {row} | {' | '.join(map(str, n))} |" for row, n in table.items()])


def alike(head: str, outcomes: Iterable[tuple[str, ...]]) -> str:
    """Return a table of outcomes, in which files that end alike share a row.

    Args:
        head: Its first line.
        outcomes: Of each file its name, and what its row says.
    """
    files: dict[tuple[str, ...], list[str]] = {}
    for name, *said in outcomes:
        files.setdefault(tuple(said), []).append(f"`{name}`")
    rows = [f"| {', '.join(names)} | {' | '.join(said)} |" for said, names in files.items()]
    return "\n".join([head, "|---" * (head.count("|") - 1) + "|", *rows])


def write(page: Path, script: str, text: str) -> None:
    """Put a text between the two lines of a script on a page."""
    begin, end = f"<!-- {script} -->\n", "<!-- until here -->\n"
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    _, _, after = rest.partition(end)
    page.write_text(f"{before}{begin}{text}\n{end}{after}", encoding="utf-8")
