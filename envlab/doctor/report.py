"""The doctor's findings, as aligned text or as JSON, and the exit code."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

State = Literal["ok", "note", "warning", "problem"]
"""``note``: something optional is absent. ``warning``: it works, but badly or not everywhere.
``problem``: a run would fail, or be wrong."""

WIDTH = 100
"""Columns of the text."""
LEAST_NAME_WIDTH = 13
_INDENT = "  "


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    name: str
    """Subject of the line."""
    text: str
    """The finding."""
    state: State = "ok"
    advice: str = ""
    """How to resolve it; required for a warning or a problem."""
    section: str = ""
    """Heading of the line's section."""

    def __post_init__(self) -> None:
        assert self.advice or self.state in ("ok", "note"), f"no advice for {self.name}"


def check(is_fine: bool, name: str, text: str, advice: str, *, state: State = "warning") -> Finding:
    """Return a line that is ``ok``, or else in the given state with the advice."""
    return Finding(name, text) if is_fine else Finding(name, text, state, advice)


def under(section: str, findings: Iterable[Finding]) -> list[Finding]:
    """Return findings under a heading."""
    return [dataclasses.replace(finding, section=section) for finding in findings]


def as_json(findings: Sequence[Finding], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the report as plain values.

    Args:
        findings: The lines, in order.
        facts: Measured values, for programs that read the report.
    """
    return {
        "problems": _count(findings, "problem"),
        "warnings": _count(findings, "warning"),
        "findings": [dataclasses.asdict(finding) for finding in findings],
        "facts": dict(facts),
    }


def as_text(findings: Sequence[Finding]) -> str:
    """Return the report as text: the verdict, the sections, and finally the advice."""
    lines = [verdict(findings)]
    for section in dict.fromkeys(finding.section for finding in findings):
        of_section = [finding for finding in findings if finding.section == section]
        width = max(LEAST_NAME_WIDTH, *(len(finding.name) for finding in of_section))
        lines += ["", section]
        for finding in of_section:
            lines += _lines(finding, width)
    bad = [finding for finding in findings if finding.state in ("problem", "warning")]
    if bad:
        lines += ["", "To do"]
        for finding in sorted(bad, key=lambda finding: finding.state != "problem"):
            lines += _wrap(f"{finding.state:<8} {finding.name}: {finding.advice}", " " * 9)
    return "\n".join(lines)


def verdict(findings: Sequence[Finding]) -> str:
    """Return the first line, with the numbers of problems and warnings."""
    problems, warnings = _count(findings, "problem"), _count(findings, "warning")
    if not problems and not warnings:
        return "envlab doctor: all is well."
    return f"envlab doctor: {_number(problems, 'problem')}, {_number(warnings, 'warning')}."


def _lines(finding: Finding, name_width: int) -> list[str]:
    head = f"{finding.state:<8} {finding.name:<{name_width}}  "
    lines = _wrap(head + finding.text, " " * len(head))
    if finding.advice and finding.state == "note":
        lines += _wrap(" " * len(head) + finding.advice, " " * len(head))
    return lines


def _wrap(text: str, indent: str) -> list[str]:
    wrapper = textwrap.TextWrapper(WIDTH, subsequent_indent=_INDENT + indent)
    wrapper.break_long_words = wrapper.break_on_hyphens = False
    return wrapper.wrap(_INDENT + text)


def _count(findings: Sequence[Finding], state: State) -> int:
    return sum(finding.state == state for finding in findings)


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
